#include "csv_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kReadAhead = std::size_t{1} << 20;
constexpr std::size_t kWord = 8;  ///< The number of bytes examined together.

bool is_blank_character(char c) { return c == ' ' || c == '\t'; }

constexpr std::uint64_t in_each_byte(char c) {
  return 0x0101010101010101u * static_cast<unsigned char>(c);
}

/// \returns a word whose lowest set bit is in the lowest byte in which a and b are equal; 0 if no
///   byte is equal. (Bits in higher bytes are meaningless.)
std::uint64_t same_bytes(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t differs = a ^ b;
  return (differs - in_each_byte('\x01')) & ~differs & in_each_byte('\x80');
}

/// \param stops  words that each repeat one character eight times.
/// \returns the first place at or after `at` with one of these characters; there must be one.
std::size_t next_stop(const char* text, std::size_t at, const std::array<std::uint64_t, 4>& stops) {
  static_assert(std::endian::native == std::endian::little);
  for (;; at += kWord) {
    std::uint64_t block = 0;
    std::memcpy(&block, text + at, kWord);
    std::uint64_t found = 0;
    for (const std::uint64_t stop : stops) found |= same_bytes(stop, block);
    if (found != 0) return at + static_cast<std::size_t>(std::countr_zero(found)) / 8;
  }
}

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, CsvDialect dialect,
                     std::uint64_t most_bytes)
    : path_(path),
      file_(path, dialect.line_is_field),
      dialect_(dialect),
      most_bytes_(most_bytes),
      stops_{in_each_byte(dialect.delimiter), in_each_byte('\n'), in_each_byte('\r'),
             in_each_byte(dialect.quote.value_or('\n'))},
      text_(kWord, '\n') {
  read_more();
  // With line_is_field, the first bytes belong to a row, and must not affect how other rows are
  // read.
  if (dialect.line_is_field) return;
  const std::string_view start(text_.data(), end_);
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
    fail("is UTF-16 text, expected UTF-8");
  }
  if (start.starts_with("\xef\xbb\xbf")) next_row_ = 3;
}

/// Moves the current row to the front of the buffer and reads more bytes after it.
/// \returns false at the end of the file.
bool CsvReader::read_more() {
  if (file_ended_) return false;
  const std::size_t kept = end_ - row_;
  std::memmove(text_.data(), text_.data() + row_, kept);
  next_row_ -= row_;
  row_ = 0;
  text_.resize(std::max(text_.size(), kept + kReadAhead + kWord));
  const std::size_t room = text_.size() - kept - kWord;
  const std::size_t got = file_.read({reinterpret_cast<std::uint8_t*>(text_.data()) + kept, room});
  end_ = kept + got;
  text_[end_] = '\n';
  file_ended_ = got < room;
  bytes_ += got;
  const std::uint64_t most =
      file_.compressed()
          ? std::min(most_bytes_, std::max(kPlainBytes, kMostPerByte * file_.bytes_on_disk()))
          : most_bytes_;
  if (!filled_fields_ && bytes_ > most) {
    fail("is oversized: it has more than " + std::to_string(most) + " bytes" +
         (file_.compressed()
              ? " once decompressed, too many for its " + std::to_string(file_.bytes_on_disk()) +
                    "; decompress it yourself if it is what you mean"
              : ", which are read into memory at most; say streaming: true"));
  }
  return got > 0;
}

bool CsvReader::next() {
  row_ = next_row_;
  line_ = next_line_;
  if (!skip_comments()) return false;
  Parsed parsed = parse_row();
  // Reads until the row ends or is certainly too long. The 2 is for a CRLF after the row.
  while (parsed == Parsed::unfinished && !file_ended_ && end_ - row_ < kMostRowBytes + 2) {
    read_more();
    parsed = parse_row();
  }
  if (parsed == Parsed::unfinished && file_ended_) {
    // Only an open quote can leave a row unfinished at the end of the file.
    parsed = malformed(places_.back(), "the quote that opens here is never closed");
  } else if (parsed == Parsed::unfinished ||
             (parsed == Parsed::row && at_end_of_row_ - row_ > kMostRowBytes)) {
    static_assert(kMostRowBytes == 16777216);
    parsed = malformed(row_, "the row is longer than 16777216 bytes");
  }
  spans_lines_ = lines_inside_ > 0;
  if (filled_fields_ && (parsed != Parsed::row || fields_.size() != *filled_fields_)) {
    skip_row();
  } else if (parsed != Parsed::row) {
    fail_at_place(problem_place_, problem_);
  }
  next_line_ = line_ + lines_inside_ + 1;
  return true;
}

/// Skips to the end of this row, whatever the row contains, and replaces its fields by empty ones.
void CsvReader::skip_row() {
  bool is_inside = false;
  lines_inside_ = 0;
  std::size_t at = row_;
  for (;; ++at) {
    if (at == end_) {
      row_ = end_;  // the part read so far is dropped
      if (!read_more()) break;
      at = row_;
    }
    if (dialect_.quote && text_[at] == *dialect_.quote) is_inside = !is_inside;
    if (text_[at] != '\n') continue;
    if (!is_inside || dialect_.row_is_line) break;
    ++lines_inside_;
  }
  spans_lines_ = is_inside || lines_inside_ > 0;
  next_row_ = std::min(at + 1, end_);
  fields_.assign(*filled_fields_, text_from(row_, row_));
  places_.assign(*filled_fields_, row_);
}

/// \returns false at the end of the file.
bool CsvReader::skip_comments() {
  for (;;) {
    if (row_ == end_ && !read_more()) return false;
    if (!dialect_.comment || text_[row_] != *dialect_.comment) return true;
    const char* const line_end =
        static_cast<const char*>(std::memchr(text_.data() + row_, '\n', end_ - row_));
    if (line_end != nullptr) {
      row_ = static_cast<std::size_t>(line_end - text_.data()) + 1;
      ++line_;
    } else if (!read_more()) {
      row_ = next_row_ = end_;
      return false;
    }
    next_row_ = row_;
  }
}

CsvReader::Parsed CsvReader::malformed(std::size_t place, const char* what) {
  problem_place_ = place;
  problem_ = what;
  return Parsed::malformed;
}

/// Splits the row at row_ into fields.
/// \returns unfinished if the row extends beyond the buffer; its last field is then incomplete.
CsvReader::Parsed CsvReader::parse_row() {
  fields_.clear();
  places_.clear();
  unescaped_.clear();
  lines_inside_ = 0;
  if (dialect_.line_is_field) return parse_line();
  const char* const text = text_.data();
  const std::array<std::uint64_t, 4> stops = stops_;
  std::size_t at = row_;
  for (;;) {
    if (fields_.size() == kMostFields) return malformed(at, "the row has more than 1048576 fields");
    static_assert(kMostFields == 1048576);
    const std::size_t place = at;
    if (dialect_.trim) at = skip_blanks(at);
    if (dialect_.quote && at < end_ && text_[at] == *dialect_.quote) {
      if (const Parsed field = parse_quoted(at); field != Parsed::row) return field;
      if (dialect_.trim) at = skip_blanks(at);
    } else {
      const std::size_t begin = at;
      at = next_stop(text, at, stops);
      std::size_t last = at;
      while (dialect_.trim && last > begin && is_blank_character(text_[last - 1])) --last;
      add(text_from(begin, last), place);
    }
    if (at == end_ && !file_ended_) return Parsed::unfinished;
    const char stop = text_[at];
    if (stop == dialect_.delimiter && at < end_) {
      ++at;
      continue;
    }
    if (is_line_end(at)) {
      at_end_of_row_ = at;
      at += text_[at] == '\r' ? 1 : 0;
      next_row_ = std::min(at + 1, end_);
      return Parsed::row;
    }
    if (stop == '\r') {
      if (at + 1 == end_ && !file_ended_) return Parsed::unfinished;
      return malformed(at, "a carriage return without a line feed");
    }
    if (dialect_.quote && text_[places_.back()] == *dialect_.quote)
      return malformed(at, "text after a closing quote; a quote inside a quoted field is doubled");
    return malformed(at, "a quote inside a field that does not begin with one");
  }
}

/// Reads the whole line at row_, without its LF or CRLF, as one field.
CsvReader::Parsed CsvReader::parse_line() {
  const std::string_view rest = text_from(row_, end_ + 1);  // text_[end_] is a line end
  std::size_t end = row_ + rest.find('\n');
  if (end == end_ && !file_ended_) {
    add({}, row_);
    return Parsed::unfinished;
  }
  next_row_ = std::min(end + 1, end_);
  if (end > row_ && end < end_ && text_[end - 1] == '\r') --end;
  at_end_of_row_ = end;
  add(text_from(row_, end), row_);
  return Parsed::row;
}

/// Whether a row ends here, at a line end or at the end of the file.
bool CsvReader::is_line_end(std::size_t at) const noexcept {
  if (text_[at] == '\n') return true;  // text_[end_] is a line end
  return text_[at] == '\r' && at + 1 < end_ && text_[at + 1] == '\n';
}

std::size_t CsvReader::skip_blanks(std::size_t at) const noexcept {
  while (is_blank_character(text_[at]) && text_[at] != dialect_.delimiter) ++at;
  return at;
}

/// Reads a field from its opening quote to just after its closing quote.
/// \returns unfinished if the closing quote is not in the buffer yet.
CsvReader::Parsed CsvReader::parse_quoted(std::size_t& at) {
  const std::size_t place = at;
  const char quote = *dialect_.quote;
  std::size_t piece = ++at;
  const std::size_t unescaped_begin = unescaped_.size();
  bool has_doubled = false;
  for (;;) {
    while (text_[at] != quote && text_[at] != '\n') ++at;
    if (at == end_ || (text_[at] == quote && at + 1 == end_ && !file_ended_)) {
      add({}, place);
      return Parsed::unfinished;
    }
    if (text_[at] == '\n') {
      if (dialect_.row_is_line)
        return malformed(place, "the quote that opens here is not closed on its line");
      ++lines_inside_;
      ++at;
      continue;
    }
    if (at + 1 == end_ || text_[at + 1] != quote) break;
    has_doubled = true;
    unescaped_.reserve(end_ - row_);  // for the whole row, so that views of its fields stay valid
    unescaped_.append(text_.data() + piece, at + 1 - piece);
    at += 2;
    piece = at;
  }
  if (has_doubled) {
    unescaped_.append(text_.data() + piece, at - piece);
    add(std::string_view(unescaped_).substr(unescaped_begin), place);
  } else {
    add(text_from(piece, at), place);
  }
  ++at;
  return Parsed::row;
}

void CsvReader::add(std::string_view field, std::size_t place) {
  fields_.push_back(field);
  places_.push_back(place);
}

void CsvReader::fail_at_place(std::size_t place, const std::string& what) const {
  const char* const begin = text_.data();
  const auto lines = std::count(begin + row_, begin + place, '\n');
  std::size_t line_begin = place;
  while (line_begin > row_ && begin[line_begin - 1] != '\n') --line_begin;
  throw IoError(path_.string() + ":" + std::to_string(line_ + static_cast<std::uint64_t>(lines)) +
                ":" + std::to_string(place - line_begin + 1) + ": " + what);
}

void CsvReader::fail_at(std::size_t field, const std::string& what) const {
  fail_at_place(places_[field], what);
}

void CsvReader::fail_at_row(const std::string& what) const { fail_at_place(row_, what); }
