// The rows of a CSV file as rows of a table.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../table/text_rows.hpp"
#include "csv_reader.hpp"

/// The form in which files contain the rows of a table.
struct CsvForm {
  CsvDialect dialect;
  bool header = true;       ///< If not, columns are called "0", "1", ...
  bool has_targets = true;  ///< Whether rows have targets, and so at least two fields.
  bool decimal_comma = false;
  bool fills_malformed = false;  ///< Whether to call CsvReader::fill_malformed().
};

/// Whether the header determines the number of fields in a row, and is followed only by rows.
bool can_fill_malformed(const CsvForm& form);

inline constexpr std::array<const char*, 5> kDelimiters = {",", ";", "\t", "|", " "};

/// \returns the form's delimiter if the header, split by it, has the column. Otherwise, the
///   delimiter by which the header has the column or, if there is none, the most columns. The first
///   rows must have as many fields as the header.
/// \throws IoError  as the constructor of CsvRows does.
char likely_delimiter(const std::filesystem::path& file, const CsvForm& form,
                      const std::string& column);

/// Rows of a CSV file. Messages have the form "FILE:LINE:COLUMN: ...".
class CsvRows final : public TextRows {
 public:
  /// \throws IoError  as CsvReader.
  CsvRows(const std::filesystem::path& file, const CsvForm& form, std::uint64_t most_bytes);

  std::vector<std::string> read_names() override;
  bool next() override;

  std::size_t likely_rows() const noexcept override { return reader_.rows_like_this(); }
  std::uint64_t read_so_far() const noexcept override { return reader_.bytes_read(); }
  bool spans_lines() const noexcept override { return reader_.spans_lines(); }

  std::string name() const override { return reader_.path().string(); }
  void fail_at(std::size_t field, const std::string& what) const override {
    reader_.fail_at(field, what);
  }
  void fail_at_row(const std::string& what) const override { reader_.fail_at_row(what); }
  void fail(const std::string& what) const override { reader_.fail(what); }

 private:
  void check_names(const std::vector<std::string>& names) const;
  void check_size() const;

  const CsvForm form_;
  CsvReader reader_;
  std::size_t columns_ = 0;
  bool is_at_first_row_ = false;  ///< Whether the first row was already read, to count the columns.
};
