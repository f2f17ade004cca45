// A reader for CSV files, plain or compressed, that reports errors by line and column.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../files/input_file.hpp"

/// The syntax of a table. The characters differ from each other and from line ends.
struct CsvDialect {
  char delimiter = ',';
  std::optional<char> quote = '"';   ///< Nothing: quotes are ordinary characters.
  std::optional<char> comment = {};  ///< Lines that begin with this are skipped.
  bool trim = false;                 ///< Whether blanks and tabs around a field are removed.
  /// Whether each line is a row; if not, fields in quotes may contain line ends.
  bool row_is_line = false;
  /// Each line is one field, whatever it contains: no character except the line end has a meaning,
  /// not even a byte order mark, and the file's name alone decides whether it is compressed.
  bool line_is_field = false;
};

/// Rows of fields from a text file according to RFC 4180, plain or compressed: fields may be
/// quoted, a quote inside them is doubled, and lines end in LF or CRLF. A UTF-8 byte order mark is
/// skipped. Any other content raises an IoError "FILE:LINE:COLUMN: ...", with columns counted in
/// bytes from 1, unless fill_malformed() was called. No message shows the content of a field.
///
/// The end of a row does not depend on whether it is well formed. With row_is_line it is the first
/// LF; otherwise it is the first LF that is preceded by an even number of the row's quotes. In a
/// well-formed row this is the first LF outside quotes, because quotes inside a field are doubled.
///
/// Privacy: the content of a record therefore affects only its own row,
/// - with row_is_line, if its bytes include no LF;
/// - without it, if it has an even number of quotes, and each LF in it is preceded by an odd number
///   of them. Every writer that follows RFC 4180 ensures this for any values. Proof: after the end
///   of such a record, the reader is at the beginning of the next record, by induction over the
///   records, and next() remembers nothing of earlier rows. No single rule works for all records:
///   `1,"a LF 2,b"` is one record under the second rule and two under the first. So release mode
///   requires a declaration of the rule.
///
/// Memory: one row, plus 1 MiB of read-ahead.
class CsvReader {
 public:
  static constexpr std::size_t kMostRowBytes = std::size_t{1} << 24;
  static constexpr std::size_t kMostFields = std::size_t{1} << 20;
  /// The largest factor by which a compressed file may expand, unless it stays below kPlainBytes.
  static constexpr std::uint64_t kMostPerByte = 200;
  static constexpr std::uint64_t kPlainBytes = std::uint64_t{1} << 24;

  /// \param most_bytes  the most bytes of a file, after decompression.
  /// \throws IoError  as InputFile does, or if the file is UTF-16 text.
  CsvReader(const std::filesystem::path& path, CsvDialect dialect,
            std::uint64_t most_bytes = kMostFileBytes);

  /// Reads the next row.
  /// \returns false at the end of the file.
  /// \throws IoError if the row is malformed, a row exceeds kMostRowBytes or kMostFields, or the
  ///   decompressed file exceeds most_bytes or the limit for its compressed size.
  bool next();

  /// From the next row on, next() replaces each row that is malformed, has a different number of
  /// fields, or is longer than kMostRowBytes by a row of `fields` empty fields, and never throws
  /// because of a row. The file's total size is no longer limited, because a row may have any
  /// number of bytes. Callers that store rows must limit them.
  void fill_malformed(std::size_t fields) { filled_fields_ = fields; }

  /// Returns the fields of the row that next() read; valid until the next call.
  std::span<const std::string_view> fields() const noexcept { return fields_; }
  /// Whether the row is an empty line.
  bool is_blank() const noexcept { return fields_.size() == 1 && at_end_of_row_ == places_[0]; }

  /// Whether quotes contain a line end; with row_is_line, whether the row ends inside quotes.
  bool spans_lines() const noexcept { return spans_lines_; }

  /// \returns how many rows the whole file would have if all were as long as this row; 0 for
  ///   compressed files.
  std::size_t rows_like_this() const noexcept {
    return file_.compressed() ? 0 : file_.bytes_on_disk() / (next_row_ - row_ + 1) + 1;
  }

  /// \returns the number of bytes of the file on disk that have been read so far.
  std::uint64_t bytes_read() const noexcept { return file_.bytes_read(); }

  const std::filesystem::path& path() const noexcept { return path_; }

  /// \throws IoError that points at a field of this row.
  [[noreturn]] void fail_at(std::size_t field, const std::string& what) const;
  /// \throws IoError that points at the line on which this row begins.
  [[noreturn]] void fail_at_row(const std::string& what) const;
  /// \throws IoError that names the file.
  [[noreturn]] void fail(const std::string& what) const { file_.fail(what); }

 private:
  enum class Parsed { row, unfinished, malformed };

  Parsed parse_row();
  Parsed parse_line();
  Parsed malformed(std::size_t place, const char* what);
  Parsed parse_quoted(std::size_t& at);
  void skip_row();
  bool read_more();
  bool skip_comments();
  bool is_line_end(std::size_t at) const noexcept;
  std::size_t skip_blanks(std::size_t at) const noexcept;
  void add(std::string_view field, std::size_t place);
  std::string_view text_from(std::size_t begin, std::size_t end) const noexcept {
    return {text_.data() + begin, end - begin};
  }
  [[noreturn]] void fail_at_place(std::size_t place, const std::string& what) const;

  std::filesystem::path path_;
  InputFile file_;
  CsvDialect dialect_;
  std::uint64_t most_bytes_;
  /// For each character that ends a plain field, a word with eight copies of that character.
  std::array<std::uint64_t, 4> stops_;

  /// The bytes read, an added line end, and kWord - 1 more bytes.
  std::vector<char> text_;
  std::size_t end_ = 0;       ///< End of the bytes read; text_[end_] is the added line end.
  std::size_t row_ = 0;       ///< Beginning of this row.
  std::size_t next_row_ = 0;  ///< Beginning of the next row.
  std::size_t at_end_of_row_ = 0;
  bool file_ended_ = false;
  std::uint64_t bytes_ = 0;  ///< Bytes read so far, decompressed.
  std::uint64_t line_ = 0;   ///< The line of this row, from 1.
  std::uint64_t next_line_ = 1;
  std::uint64_t lines_inside_ = 0;  ///< Line ends within quotes of this row.
  bool spans_lines_ = false;
  std::string unescaped_;                     ///< Fields of this row that contained doubled quotes.
  std::vector<std::string_view> fields_;      ///< In text_ or unescaped_.
  std::vector<std::size_t> places_;           ///< Place of each field in text_, incl. its quote.
  std::optional<std::size_t> filled_fields_;  ///< Set by fill_malformed().
  std::size_t problem_place_ = 0;             ///< Place in text_ of the malformed part.
  const char* problem_ = "";
};
