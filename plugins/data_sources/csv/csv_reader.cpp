#include "csv_reader.hpp"

#include "privgrad/error.hpp"

CsvReader::CsvReader(const std::filesystem::path& path, char delimiter)
    : path_(path), file_(path), delimiter_(delimiter) {
  if (file_.compressed()) fail("is compressed with gzip, expected plain text; gunzip it first");
  if (file_.bytes_on_disk() > kMostFileBytes) {
    fail("is oversized: it has " + std::to_string(file_.bytes_on_disk()) + " bytes, at most " +
         std::to_string(kMostFileBytes) + " are read");
  }
  peek();
  const std::string_view start(reinterpret_cast<const char*>(buffer_.data()), buffer_.size());
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
    fail("is UTF-16 text, expected UTF-8");
  }
  if (start.starts_with("\xef\xbb\xbf")) buffer_at_ = 3;
}

int CsvReader::peek() {
  if (buffer_at_ == buffer_.size()) {
    constexpr std::size_t kChunk = std::size_t{1} << 16;
    buffer_.clear();
    buffer_at_ = 0;
    file_.append(buffer_, kChunk);
  }
  return buffer_.empty() ? kEnd : buffer_[buffer_at_];
}

int CsvReader::take() {
  const int byte = peek();
  if (byte == kEnd) return byte;
  ++buffer_at_;
  if (byte == '\n') {
    ++here_.line;
    here_.column = 1;
  } else {
    ++here_.column;
  }
  return byte;
}

bool CsvReader::next() {
  text_.clear();
  fields_.clear();
  if (peek() == kEnd) return false;
  for (;;) {
    if (fields_.size() == kMostFields) {
      fail_at(here_, "the row has more than " + std::to_string(kMostFields) + " fields");
    }
    read_field();
    const Position end = here_;
    const int byte = take();
    if (byte == kEnd || byte == '\n') return true;
    if (byte == '\r') {
      if (peek() == '\n') {
        take();
        return true;
      }
      fail_at(end, "a carriage return without a line feed");
    }
    if (byte != delimiter_) {
      fail_at(end, "text after a closing quote; a quote inside a quoted field is doubled");
    }
  }
}

void CsvReader::read_field() {
  const Position start = here_;
  if (peek() == '"') {
    read_quoted_field(start);
  } else {
    read_plain_field();
  }
  fields_.push_back({text_.size(), start});
}

void CsvReader::read_quoted_field(Position start) {
  take();
  for (;;) {
    const int byte = take();
    if (byte == kEnd) fail_at(start, "the quote that opens here is never closed");
    if (byte == '"') {
      if (peek() != '"') return;
      take();
    }
    append(static_cast<char>(byte), start);
  }
}

void CsvReader::read_plain_field() {
  const Position start = here_;
  for (;;) {
    const int byte = peek();
    if (byte == kEnd || byte == '\n' || byte == '\r' || byte == delimiter_) return;
    if (byte == '"') fail_at(here_, "a quote inside a field that does not begin with one");
    append(static_cast<char>(take()), start);
  }
}

void CsvReader::append(char byte, Position start) {
  const std::size_t begin = fields_.empty() ? 0 : fields_.back().end;
  if (text_.size() - begin == kMostFieldBytes) {
    fail_at(start, "the field is longer than " + std::to_string(kMostFieldBytes) + " bytes");
  }
  text_ += byte;
}

std::string_view CsvReader::field(std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : fields_[i - 1].end;
  return std::string_view(text_).substr(begin, fields_[i].end - begin);
}

void CsvReader::fail_at(Position position, const std::string& what) const {
  throw privgrad::IoError(path_.string() + ":" + std::to_string(position.line) + ":" +
                          std::to_string(position.column) + ": " + what);
}

void CsvReader::fail_at(std::size_t field, const std::string& what) const {
  fail_at(fields_[field].position, what);
}

void CsvReader::fail_at_row(const std::string& what) const { fail_at(std::size_t{0}, what); }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (const char byte : text.substr(0, kShown)) out += byte >= ' ' && byte != '\x7f' ? byte : '?';
  return out + (text.size() > kShown ? "...'" : "'");
}
