#include "npy_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "../files/feature_fill.hpp"
#include "../files/shown_text.hpp"

#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie");

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 16;
constexpr std::size_t kMostExtents = 32;  // NumPy's own limit before 2.0

/// The three entries of a header's dictionary, each as a piece of the header's text.
struct Header {
  std::optional<std::string_view> descr;
  std::optional<std::string_view> fortran_order;
  std::optional<std::string_view> shape;
};

/// Reads the Python literal that NumPy writes,
/// {'descr': ..., 'fortran_order': ..., 'shape': ..., }. The only values are texts, True, False,
/// and tuples of integers; a list (a structured type) is extracted as a whole, to be named in the
/// refusal.
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

  Shape parse_shape() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      std::size_t extent = 0;
      const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (result.ec == std::errc::result_out_of_range)
        file_.fail("is oversized: an extent exceeds 64 bits");
      if (result.ec != std::errc{} || shape.size() == kMostExtents) malformed();
      rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
      shape.push_back(extent);
      accept('L');  // a suffix that Python 2 writes
      if (accept(')')) break;
      expect(',');
    }
    return shape;
  }

 private:
  [[noreturn]] std::optional<std::string_view>& malformed() const {
    file_.fail("has a malformed header at '" + shown_text(rest_, 20) +
               "', expected {'descr': ..., 'fortran_order': ..., 'shape': ...}");
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

  /// Extracts a text with its quotes, a word, or everything between brackets, including the
  /// brackets.
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

struct KnownKind {
  char letter;
  NpyFile::Kind kind;
  std::string_view widths;  ///< The allowed widths in bytes, one digit each.
};
constexpr std::array<KnownKind, 4> kKinds = {{{'b', NpyFile::Kind::boolean, "1"},
                                              {'i', NpyFile::Kind::integer, "1248"},
                                              {'u', NpyFile::Kind::unsigned_integer, "1248"},
                                              {'f', NpyFile::Kind::real, "248"}}};

/// IEEE 754 binary16: each of its numbers is representable as float32.
float half(std::uint16_t bits) {
  constexpr int kMantissa = 10;
  constexpr int kBias = 15;
  const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> kMantissa) & 0x1f;
  const auto mantissa = static_cast<float>(bits & 0x3ffu);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - kBias - kMantissa);
  if (exponent == 0x1f)
    return mantissa == 0.0f ? sign * HUGE_VALF : std::numeric_limits<float>::quiet_NaN();
  return sign * std::ldexp(mantissa + 1024.0f, exponent - kBias - kMantissa);
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path, const std::optional<std::string>& array,
                 std::uint64_t most_bytes)
    : file_(open_npy(path, array)) {
  const std::string text = read_header();
  const Header header = HeaderParser(*this, text).parse();

  read_type(*header.descr);
  if (*header.fortran_order != "True" && *header.fortran_order != "False")
    fail("says fortran_order " + shown_text(*header.fortran_order) + ", expected True or False");
  is_fortran_ = *header.fortran_order == "True";
  shape_ = HeaderParser(*this, *header.shape).parse_shape();
  check_size(most_bytes);
}

void NpyFile::read_type(std::string_view descr) {
  // The form is: quote, byte order, kind, width, quote.
  const bool has_form = descr.size() == 5 && descr.front() == '\'' && descr.back() == '\'';
  const auto known = std::ranges::find_if(kKinds, [&](const KnownKind& kind) {
    return has_form && kind.letter == descr[2] && kind.widths.find(descr[3]) != kind.widths.npos;
  });
  const char order = has_form ? descr[1] : '?';
  const bool is_byte = has_form && descr[3] == '1';
  const bool has_order = order == '<' || order == '>' || order == '=' || (order == '|' && is_byte);
  if (known == kKinds.end() || !has_order) {
    const bool objects = descr.find('O') != descr.npos;
    fail("has elements of type " + shown_text(descr) +
         (objects ? " (Python objects, which could run code when read)" : "") +
         ", expected booleans, integers or reals of 1 to 8 bytes, such as '|b1', '<i8' or '<f4'");
  }
  kind_ = known->kind;
  element_bytes_ = static_cast<std::uint64_t>(descr[3] - '0');
  is_swapped_ = order == '>' && !is_byte;
}

std::string NpyFile::read_header() {
  std::array<std::uint8_t, 8> start{};
  if (file_->read(start) < start.size() || std::memcmp(start.data(), "\x93NUMPY", 6) != 0) {
    fail("is not a NumPy file: it does not begin with \\x93NUMPY");
  }
  if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
    fail("has format version " + std::to_string(start[6]) + "." + std::to_string(start[7]) +
         ", expected 1.0, 2.0 or 3.0");
  }
  std::array<std::uint8_t, 4> bytes{};
  const std::size_t width = start[6] == 1 ? 2 : 4;
  if (file_->read(std::span(bytes).first(width)) < width) fail("is truncated inside its header");
  const std::uint64_t length = std::uint64_t{bytes[0]} | std::uint64_t{bytes[1]} << 8 |
                               std::uint64_t{bytes[2]} << 16 | std::uint64_t{bytes[3]} << 24;
  if (length > kMostHeaderBytes) {
    fail("is oversized: its header has " + std::to_string(length) + " bytes, at most " +
         std::to_string(kMostHeaderBytes) + " are read");
  }
  std::vector<std::uint8_t> text;
  if (file_->append(text, length) < length) fail("is truncated inside its header");
  data_begins_ = start.size() + width + length;
  return {text.begin(), text.end()};
}

void NpyFile::check_size(std::uint64_t most_bytes) {
  for (const std::size_t extent : shape_) {
    if (extent == 0) fail("holds zero elements (" + to_text(shape_) + ")");
  }
  std::uint64_t promised = element_bytes_;
  bool overflow = false;
  for (const std::size_t extent : shape_) {
    overflow = overflow || __builtin_mul_overflow(promised, std::uint64_t{extent}, &promised);
  }
  if (overflow || promised > most_bytes) {
    fail("is oversized: its header promises " + to_text(shape_) + " elements, at most " +
         std::to_string(most_bytes) + " bytes are read into memory");
  }
  elements_ = promised / element_bytes_;
  const std::uint64_t total = data_begins_ + promised;
  if (total != file_->size()) {
    fail((total > file_->size() ? "is truncated" : "has trailing bytes") +
         std::string(": its header promises ") + to_text(shape_) + " elements, " +
         std::to_string(total) + " bytes in all, but the file has " +
         std::to_string(file_->size()));
  }
}

void NpyFile::check(float value, std::size_t place) const {
  if (takes_any_ || std::isfinite(value)) return;
  fail("element " + std::to_string(place) + " is not a finite number within float32" +
       FeatureFill::remedy());
}

/// \param convert  the conversion from T to float.
template <class T, class Convert>
void NpyFile::read_as(std::vector<float>& to, std::uint64_t count, Convert convert) {
  constexpr std::size_t kChunk = 4096;
  std::array<std::uint8_t, kChunk * sizeof(T)> chunk;
  while (count > 0) {
    const std::size_t some = std::min<std::uint64_t>(kChunk, count);
    const std::size_t wanted = some * sizeof(T);
    if (file_->read(std::span(chunk).first(wanted)) < wanted) fail("has become shorter");
    for (std::size_t i = 0; i < some; ++i) {
      std::uint8_t* const bytes = chunk.data() + i * sizeof(T);
      if (is_swapped_) std::reverse(bytes, bytes + sizeof(T));
      T element;
      std::memcpy(&element, bytes, sizeof(T));
      const float value = convert(element);
      check(value, elements_read_);
      to.push_back(value);
      ++elements_read_;
    }
    count -= some;
  }
}

template <class T>
void NpyFile::read_as(std::vector<float>& to, std::uint64_t count) {
  // Converts integers through double, like the texts of a table, because rounding once and rounding
  // twice give different results for some numbers, such as 2^60 + 2^36 + 1.
  read_as<T>(to, count, [](T element) { return static_cast<float>(static_cast<double>(element)); });
}

/// Turns Fortran order (first index fastest) into C order (last index fastest).
template <class T>
std::vector<T> NpyFile::in_c_order(std::vector<T> elements) const {
  if (!is_fortran_ || shape_.size() < 2) return elements;
  std::vector<T> turned(elements.size());
  std::vector<std::size_t> index(shape_.size(), 0);
  for (const T& element : elements) {
    std::size_t place = 0;
    for (std::size_t axis = 0; axis < shape_.size(); ++axis)
      place = place * shape_[axis] + index[axis];
    turned[place] = element;
    for (std::size_t axis = 0; axis < shape_.size() && ++index[axis] == shape_[axis]; ++axis)
      index[axis] = 0;
  }
  return turned;
}

std::vector<float> NpyFile::reals() {
  std::vector<float> all;
  append_reals(all, elements_);
  return in_c_order(std::move(all));
}

void NpyFile::append_reals(std::vector<float>& to, std::uint64_t count) {
  const auto by_width = [&](auto one, auto two, auto four, auto eight) {
    switch (element_bytes_) {
      case 1:
        return read_as<decltype(one)>(to, count);
      case 2:
        return read_as<decltype(two)>(to, count);
      case 4:
        return read_as<decltype(four)>(to, count);
      default:
        return read_as<decltype(eight)>(to, count);
    }
  };
  switch (kind_) {
    case Kind::boolean:
      return read_as<std::uint8_t>(to, count, [](std::uint8_t x) { return x != 0 ? 1.0f : 0.0f; });
    case Kind::integer:
      return by_width(std::int8_t{}, std::int16_t{}, std::int32_t{}, std::int64_t{});
    case Kind::unsigned_integer:
      return by_width(std::uint8_t{}, std::uint16_t{}, std::uint32_t{}, std::uint64_t{});
    case Kind::real:
      if (element_bytes_ == 2) return read_as<std::uint16_t>(to, count, half);
      return element_bytes_ == 4 ? read_as<float>(to, count) : read_as<double>(to, count);
  }
}

std::vector<std::uint8_t> NpyFile::bytes() {
  std::vector<std::uint8_t> all;
  append_bytes(all, elements_);
  return in_c_order(std::move(all));
}

void NpyFile::append_bytes(std::vector<std::uint8_t>& to, std::uint64_t count) {
  if (file_->append(to, count) < count) fail("has become shorter");
}
