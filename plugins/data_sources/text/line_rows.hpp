// The rows of a file of lines: plain texts, or JSON objects.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../csv/csv_reader.hpp"
#include "../table/text_rows.hpp"

/// Each line is a row, whatever it contains. A line with a JSON object has a field for each given
/// member: a text without its quotes, a number or boolean as written, and an empty field for null.
/// Any other line is malformed, and so is a line whose first given member is missing or not a text.
/// Bytes that are not UTF-8 count as U+FFFD.
///
/// Privacy: the content of a record affects only its own row if it has no line end.
class LineRows final : public TextRows {
 public:
  /// \param names  the names of the fields; just one for plain lines.
  /// \param fills  whether a malformed row becomes a row of empty fields instead of an error.
  /// \param needs_last  whether an object without the last member is an error. With `fills`, the
  ///   member counts as empty instead.
  LineRows(const std::filesystem::path& file, std::vector<std::string> names, bool is_json,
           bool fills, bool needs_last, std::uint64_t most_bytes);

  std::vector<std::string> read_names() override { return names_; }
  bool next() override;
  std::size_t likely_rows() const noexcept override { return reader_.rows_like_this(); }
  std::uint64_t read_so_far() const noexcept override { return reader_.bytes_read(); }
  std::string name() const override { return reader_.path().string(); }
  void fail_at(std::size_t, const std::string& what) const override { reader_.fail_at_row(what); }
  void fail_at_row(const std::string& what) const override { reader_.fail_at_row(what); }
  void fail(const std::string& what) const override { reader_.fail(what); }

 private:
  std::vector<std::string> names_;
  bool is_json_, fills_, needs_last_;
  CsvReader reader_;
  std::string line_;                 ///< The line as UTF-8.
  std::vector<std::string> values_;  ///< The values of the members.
  std::vector<std::string_view> views_;
};
