#include "npy_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "privgrad/value.hpp"

namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie");

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 16;
constexpr std::size_t kMostExtents = 32;  // NumPy's own limit before 2.0

/// The three entries of the dictionary that a header is, each a piece of its text.
struct Header {
  std::optional<std::string_view> descr;
  std::optional<std::string_view> fortran_order;
  std::optional<std::string_view> shape;
};

/// Reads the Python literal that NumPy writes: {'descr': ..., 'fortran_order': ..., 'shape': ...,
/// }. The only values are texts, True, False, and tuples of whole numbers; a list (a structured
/// type) is cut out whole, to be named and refused.
class HeaderParser {
 public:
  HeaderParser(const NpyFile& file, std::string_view text) : file_(file), rest_(text) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = value();
      expect(':');
      auto& entry = key == "'descr'"           ? header.descr
                    : key == "'fortran_order'" ? header.fortran_order
                    : key == "'shape'"         ? header.shape
                                               : malformed();
      if (entry) malformed();
      entry = value();
      if (accept('}')) break;
      expect(',');
    }
    skip_spaces();
    if (!rest_.empty() || !header.descr || !header.fortran_order || !header.shape) malformed();
    return header;
  }

  privgrad::Shape parse_shape() {
    privgrad::Shape shape;
    expect('(');
    while (!accept(')')) {
      std::size_t extent = 0;
      const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (result.ec == std::errc::result_out_of_range)
        file_.fail("is oversized: an extent exceeds 64 bits");
      if (result.ec != std::errc{} || shape.size() == kMostExtents) malformed();
      rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
      shape.push_back(extent);
      if (accept(')')) break;
      expect(',');
    }
    return shape;
  }

 private:
  [[noreturn]] std::optional<std::string_view>& malformed() const {
    file_.fail(
        "has a malformed header, expected {'descr': ..., 'fortran_order': ..., 'shape': ...}");
  }

  void skip_spaces() {
    const std::size_t spaces = std::min(rest_.find_first_not_of(" \n"), rest_.size());
    rest_.remove_prefix(spaces);
  }

  bool accept(char wanted) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    skip_spaces();
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) malformed();
  }

  /// Takes a text with its quotes, a word, or everything between brackets with them.
  std::string_view value() {
    skip_spaces();
    if (rest_.empty()) malformed();
    const char first = rest_.front();
    const std::size_t end = first == '\''  ? rest_.find('\'', 1)
                            : first == '(' ? rest_.find(')')
                            : first == '['
                                ? rest_.rfind(']')
                                : std::min(rest_.find_first_of(",:} "), rest_.size()) - 1;
    if (end >= rest_.size()) malformed();
    const std::string_view piece = rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
    skip_spaces();
    return piece;
  }

  const NpyFile& file_;
  std::string_view rest_;
};

struct KnownType {
  std::string_view descr;
  NpyFile::Type type;
  std::uint64_t bytes;
};
constexpr std::array<KnownType, 5> kTypes = {{{"'|u1'", NpyFile::Type::u1, 1},
                                              {"'<i4'", NpyFile::Type::i4, 4},
                                              {"'<i8'", NpyFile::Type::i8, 8},
                                              {"'<f4'", NpyFile::Type::f4, 4},
                                              {"'<f8'", NpyFile::Type::f8, 8}}};

std::string printable(std::string_view text) {
  std::string out;
  for (const char byte : text.substr(0, 40)) out += byte >= ' ' && byte != '\x7f' ? byte : '?';
  return out;
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path) {
  if (file_.compressed())
    fail("is compressed with gzip, expected a plain .npy file; gunzip it first");
  const std::string text = read_header();
  const Header header = HeaderParser(*this, text).parse();

  const auto known = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const KnownType& x) { return x.descr == *header.descr; });
  if (known == kTypes.end()) {
    const bool objects = header.descr->find('O') != std::string_view::npos;
    fail("has elements of type " + printable(*header.descr) +
         (objects ? " (Python objects, which could run code when read)" : "") +
         ", expected |u1, <i4, <i8, <f4 or <f8");
  }
  type_ = known->type;
  element_bytes_ = known->bytes;
  if (*header.fortran_order == "True") {
    fail(
        "is in Fortran order, where an example's features lie apart; expected C order: save "
        "numpy.ascontiguousarray(x)");
  }
  if (*header.fortran_order != "False") {
    fail("says fortran_order " + printable(*header.fortran_order) + ", expected True or False");
  }
  shape_ = HeaderParser(*this, *header.shape).parse_shape();
  check_size();
}

std::string NpyFile::read_header() {
  std::array<std::uint8_t, 8> start{};
  if (file_.read(start) < start.size() || std::memcmp(start.data(), "\x93NUMPY", 6) != 0) {
    fail("is no NumPy file: it does not begin with \\x93NUMPY");
  }
  if ((start[6] != 1 && start[6] != 2) || start[7] != 0) {
    fail("has format version " + std::to_string(start[6]) + "." + std::to_string(start[7]) +
         ", expected 1.0 or 2.0");
  }
  std::array<std::uint8_t, 4> bytes{};
  const std::size_t width = start[6] == 1 ? 2 : 4;
  if (file_.read(std::span(bytes).first(width)) < width) fail("is truncated inside its header");
  const std::uint64_t length = std::uint64_t{bytes[0]} | std::uint64_t{bytes[1]} << 8 |
                               std::uint64_t{bytes[2]} << 16 | std::uint64_t{bytes[3]} << 24;
  if (length > kMostHeaderBytes) {
    fail("is oversized: its header has " + std::to_string(length) + " bytes, at most " +
         std::to_string(kMostHeaderBytes) + " are read");
  }
  std::vector<std::uint8_t> text;
  if (file_.append(text, length) < length) fail("is truncated inside its header");
  data_begins_ = start.size() + width + length;
  return {text.begin(), text.end()};
}

void NpyFile::check_size() {
  for (const std::size_t extent : shape_) {
    if (extent == 0) fail("holds zero elements (" + privgrad::to_text(shape_) + ")");
  }
  std::uint64_t promised = element_bytes_;
  bool overflow = false;
  for (const std::size_t extent : shape_) {
    overflow = overflow || __builtin_mul_overflow(promised, std::uint64_t{extent}, &promised);
  }
  if (overflow || promised > kMostFileBytes) {
    fail("is oversized: its header promises " + privgrad::to_text(shape_) + " elements, at most " +
         std::to_string(kMostFileBytes) + " bytes are read");
  }
  elements_ = promised / element_bytes_;
  const std::uint64_t total = data_begins_ + promised;
  if (total != file_.bytes_on_disk()) {
    fail((total > file_.bytes_on_disk() ? "is truncated" : "has trailing bytes") +
         std::string(": its header promises ") + privgrad::to_text(shape_) + " elements, " +
         std::to_string(total) + " bytes in all, but the file has " +
         std::to_string(file_.bytes_on_disk()));
  }
}

template <class T>
std::vector<float> NpyFile::read_as() {
  constexpr std::size_t kChunk = 4096;
  std::vector<float> result;
  std::array<std::uint8_t, kChunk * sizeof(T)> chunk;
  while (result.size() < elements_) {
    const std::size_t count = std::min<std::uint64_t>(kChunk, elements_ - result.size());
    const std::size_t wanted = count * sizeof(T);
    if (file_.read(std::span(chunk).first(wanted)) < wanted) fail("has become shorter");
    for (std::size_t i = 0; i < count; ++i) {
      T element;
      std::memcpy(&element, chunk.data() + i * sizeof(T), sizeof(T));
      const auto value = static_cast<float>(element);
      if (!std::isfinite(value)) {
        fail("element " + std::to_string(result.size()) + " is " +
             privgrad::format_number(static_cast<double>(element)) + ", expected a finite number" +
             (std::isfinite(static_cast<double>(element)) ? " within float32" : ""));
      }
      result.push_back(value);
    }
  }
  return result;
}

std::vector<float> NpyFile::reals() {
  switch (type_) {
    case Type::u1:
      return read_as<std::uint8_t>();
    case Type::i4:
      return read_as<std::int32_t>();
    case Type::i8:
      return read_as<std::int64_t>();
    case Type::f4:
      return read_as<float>();
    case Type::f8:
      return read_as<double>();
  }
  return {};
}

std::vector<std::uint8_t> NpyFile::bytes() {
  std::vector<std::uint8_t> result;
  if (file_.append(result, elements_) < elements_) fail("has become shorter");
  return result;
}
