// Reads a tokenizer.json, and tokenizes texts with it. An input is the file, followed after the
// first NUL byte by lines of text; without a NUL byte, the target uses lines that are hard to
// divide into words.
#include <cmath>
#include <string>
#include <vector>

#include "harness/fuzz.hpp"
#include "privgrad/data_source.hpp"

namespace {

constexpr std::size_t kLength = 24;
constexpr float kMostToken = 1u << 24;

constexpr std::string_view kHardLines =
    "a ab  I'll don't 12\xc2\xbd\n"
    " \xe3\x80\x80\xef\xbb\xbf"
    "cafe\xcc\x81 \xc4\xb0\xe4\xb8\xad\xe6\x96\x87$5.00 [CLS]\n"
    "\xff\xc3 \xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd\xe2\x80\x8d\r\n"
    "\n"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
    "''''''''\t\t\t\t";

bool is_token(float value) {
  return value >= 0.0f && value < kMostToken && std::floor(value) == value;
}

}  // namespace

void read_input(std::string_view input) {
  using namespace privgrad;
  const std::size_t end = input.find('\0');
  const std::string lines(end == input.npos ? kHardLines : input.substr(end + 1));
  Value params;
  params.set("tokenizer", fuzz::scratch_file("tokenizer.json", input.substr(0, end)).string());
  params.set("train", fuzz::scratch_file("lines.txt", lines + "\n" + lines + "\n").string());
  params.set("format", "lines");
  params.set("length", static_cast<std::int64_t>(kLength));
  const auto source = fuzz::catalog().create<DataSource>("text", params);
  const Dataset data = source->read(Split::train);
  fuzz::require(data.row_size() == kLength, "a row has the declared length");
  fuzz::require(data.rows() % 2 == 0, "the second half of the file has as many lines as the first");
  std::vector<std::vector<float>> rows;
  std::vector<float> target(1);
  for (std::uint32_t row = 0; row < data.rows(); ++row) {
    std::vector<float> tokens(kLength);
    data.gather({&row, 1}, tokens, target);
    std::size_t count = 0;
    while (count < kLength && is_token(tokens[count])) ++count;
    for (std::size_t i = count; i < kLength; ++i)
      fuzz::require(tokens[i] == -1.0f, "behind the tokens is nothing but -1");
    rows.push_back(std::move(tokens));
  }
  for (std::size_t i = 0; i < rows.size() / 2; ++i)
    fuzz::require(rows[i] == rows[i + rows.size() / 2], "a row follows from its text alone");
}
