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
  std::optional<char> quote = '"';   ///< None: quotes are ordinary characters.
  std::optional<char> comment = {};  ///< Lines that begin with it are skipped.
  bool trim = false;                 ///< Blanks and tabs around a field are not part of it.
  bool row_is_line = false;          ///< Else a field in quotes may have line ends.
};

/// Rows of fields from a text file after RFC 4180, plain or compressed: fields may stand in quotes,
/// a quote inside them is doubled, and lines end in LF or CRLF. A UTF-8 byte order mark is skipped.
/// Anything else is an IoError "FILE:LINE:COLUMN: ...", columns counted in bytes from 1, unless
/// fill_malformed() was called. No message shows the content of a field.
///
/// Where a row ends does not depend on whether it is well formed: at the first LF, unless
/// row_is_line, at the first that an even number of the row's quotes precedes. In a well-formed row
/// that is the first LF outside quotes, since quotes inside a field are doubled.
///
/// Privacy: so the content of a record decides about its own row alone,
/// - with row_is_line, whatever its bytes are, if there is no LF among them;
/// - without it, if its quotes are even in number, and each LF in it has an odd number of them in
///   front. Every writer that follows RFC 4180 ensures this for whatever values it is given.
/// Proof: a reader at the begin of such a record is at the begin of the next one after its end, by
/// induction over the records, and next() keeps nothing of the rows before.
/// No rule does for all records: `1,"a LF 2,b"` is one record of the second kind and two of the
/// first. So release mode wants to know which kind a file has.
///
/// Memory: one row, and 1 MiB that is read ahead.
class CsvReader {
 public:
  static constexpr std::size_t kMostRowBytes = std::size_t{1} << 24;
  static constexpr std::size_t kMostFields = std::size_t{1} << 20;
  /// A compressed file may become this many times as large, or kPlainBytes.
  static constexpr std::uint64_t kMostPerByte = 200;
  static constexpr std::uint64_t kPlainBytes = std::uint64_t{1} << 24;

  /// \param most_bytes  of a file, once decompressed.
  /// \throws IoError  as InputFile, and for UTF-16.
  CsvReader(const std::filesystem::path& path, CsvDialect dialect,
            std::uint64_t most_bytes = kMostFileBytes);

  /// Reads the next row.
  /// \returns false at the end of the file.
  /// \throws IoError  the form is broken, a row exceeds kMostRowBytes or kMostFields, or the file
  ///   most_bytes once decompressed, or what its compressed size allows.
  bool next();

  /// From the next row on, one whose form is broken, which has another number of fields than
  /// `fields`, or is longer than kMostRowBytes is a row of empty fields. So next() throws because
  /// of no row. Bytes are no longer counted, since one row may have any number of them; callers
  /// that keep rows count those.
  void fill_malformed(std::size_t fields) { filled_fields_ = fields; }

  /// The fields of the row that next() read; valid until the next call.
  std::span<const std::string_view> fields() const noexcept { return fields_; }
  /// Whether the row is an empty line.
  bool is_blank() const noexcept { return fields_.size() == 1 && at_end_of_row_ == places_[0]; }

  /// Whether quotes hold a line end; with row_is_line, whether they would.
  bool spans_lines() const noexcept { return spans_lines_; }

  /// \returns the number of rows in the whole file, if all were as long as this one; 0 for
  ///   compressed files.
  std::size_t rows_like_this() const noexcept {
    return file_.compressed() ? 0 : file_.bytes_on_disk() / (next_row_ - row_ + 1) + 1;
  }

  /// \returns how many bytes of the file on disk have been read so far.
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
  std::array<std::uint64_t, 4> stops_;  ///< Each eight times a character that ends a plain field.

  std::vector<char> text_;    ///< The bytes read, a line end that was not, and kBlock - 1 more.
  std::size_t end_ = 0;       ///< End of the bytes read; text_[end_] is the line end.
  std::size_t row_ = 0;       ///< Where this row begins.
  std::size_t next_row_ = 0;  ///< Where the next one does.
  std::size_t at_end_of_row_ = 0;
  bool file_ended_ = false;
  std::uint64_t bytes_ = 0;  ///< Read so far, decompressed.
  std::uint64_t line_ = 0;   ///< The line of this row, from 1.
  std::uint64_t next_line_ = 1;
  std::uint64_t lines_inside_ = 0;  ///< Line ends within quotes of this row.
  bool spans_lines_ = false;
  std::string unescaped_;                     ///< Fields of this row in which quotes were doubled.
  std::vector<std::string_view> fields_;      ///< In text_ or unescaped_.
  std::vector<std::size_t> places_;           ///< Of each field in text_, with its quote.
  std::optional<std::size_t> filled_fields_;  ///< As fill_malformed() said.
  std::size_t problem_place_ = 0;             ///< In text_, of the malformed place.
  const char* problem_ = "";
};
