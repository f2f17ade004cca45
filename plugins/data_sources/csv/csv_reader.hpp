#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "../files/input_file.hpp"

/// Rows of fields from a text file after RFC 4180: fields may stand in double quotes, a quote
/// inside them is doubled, and lines end in LF or CRLF. A UTF-8 byte order mark is passed over.
/// Spaces belong to their field. Nothing is repaired: whatever else there is, is an IoError
/// "FILE:LINE:COLUMN: ...", columns counted in bytes from 1.
///
/// Memory: one row.
class CsvReader {
 public:
  static constexpr std::size_t kMostFieldBytes = std::size_t{1} << 16;
  static constexpr std::size_t kMostFields = std::size_t{1} << 20;

  /// \throws IoError  as InputFile, and for compressed files, UTF-16 and files above
  ///   kMostFileBytes.
  CsvReader(const std::filesystem::path& path, char delimiter);

  /// Reads the next row.
  /// \returns false at the end of the file.
  bool next();

  /// Of the row that next() read; valid until it is called again.
  std::size_t size() const noexcept { return fields_.size(); }
  std::string_view field(std::size_t i) const;

  /// \throws IoError that points at a field of this row.
  [[noreturn]] void fail_at(std::size_t field, const std::string& what) const;
  /// \throws IoError that points at the line on which this row begins.
  [[noreturn]] void fail_at_row(const std::string& what) const;
  /// \throws IoError that names the file.
  [[noreturn]] void fail(const std::string& what) const { file_.fail(what); }

 private:
  struct Position {
    std::uint64_t line = 1;
    std::uint64_t column = 1;
  };
  struct Field {
    std::size_t end = 0;  ///< In text_; a field begins where the one before ends.
    Position position;
  };
  static constexpr int kEnd = -1;

  int peek();
  int take();
  void read_field();
  void read_quoted_field(Position start);
  void read_plain_field();
  void append(char byte, Position start);
  [[noreturn]] void fail_at(Position position, const std::string& what) const;

  std::filesystem::path path_;
  InputFile file_;
  char delimiter_;
  std::vector<std::uint8_t> buffer_;
  std::size_t buffer_at_ = 0;
  Position here_;
  std::string text_;
  std::vector<Field> fields_;
};

/// \returns the text in quotes, shortened and with unprintable bytes replaced, fit for a message.
std::string in_quotes(std::string_view text);
