// The rows of a file of lines: plain texts, or JSON objects.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../csv/csv_reader.hpp"
#include "../table/text_rows.hpp"

/// Each line is a row, whatever is in it. A line of JSON has a field for each given member of the
/// object in it: of a text the text, of a number or a boolean what is written, and nothing for
/// null. Any other line is malformed, as is one without the first of these members, or with
/// anything but a text there. What is not UTF-8 counts as U+FFFD.
///
/// Privacy: the content of a record affects only its own row if it has no line end.
class LineRows final : public TextRows {
 public:
  /// \param names  of the fields; plain lines are one.
  /// \param fills  whether a malformed row is one of empty fields instead of an error.
  /// \param needs_last  whether an object without the last member is an error; if `fills`, the
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
  std::string line_;                 ///< As UTF-8.
  std::vector<std::string> values_;  ///< Of the members.
  std::vector<std::string_view> views_;
};
