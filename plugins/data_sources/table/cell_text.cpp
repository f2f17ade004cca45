#include "cell_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <system_error>

#include "dates.hpp"

namespace {

constexpr std::size_t kMostNumberBytes = 512;

/// Reads the most frequent numbers in tables: at most 15 digits, with or without a point. The
/// digits and the power of ten are exact in double, and their division rounds once. This gives the
/// same bits as std::from_chars (Clinger 1990, the fast path) in a third of the time.
/// \returns whether the text is such a number; sets `value` if so.
bool short_number(std::string_view text, double& value) {
  constexpr std::size_t kMostDigits = 15;
  static constexpr double kPowers[kMostDigits + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const bool is_negative = !text.empty() && text.front() == '-';
  if (is_negative) text.remove_prefix(1);
  if (text.size() > kMostDigits + 1) return false;
  std::uint64_t digits = 0;
  std::size_t count = 0;
  std::size_t point = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned digit = static_cast<unsigned char>(text[i]) - static_cast<unsigned>('0');
    if (digit <= 9) {
      digits = 10 * digits + digit;
      ++count;
    } else if (text[i] == '.' && point == text.size()) {
      point = i;
    } else {
      return false;
    }
  }
  if (count == 0 || count > kMostDigits) return false;
  value = static_cast<double>(digits);
  if (point < text.size()) value /= kPowers[text.size() - 1 - point];
  if (is_negative) value = -value;
  return true;
}

/// Reads integers of one to three digits, the most frequent numbers of some tables, without a
/// branch for each length. With fewer than three digits, some are read several times, but each
/// counts once.
bool tiny_number(std::string_view text, double& value) {
  static constexpr unsigned kWorth[3][3] = {{1, 0, 0}, {10, 0, 1}, {100, 10, 1}};
  const std::size_t size = text.size();
  if (size - 1 > 2) return false;
  const auto digit = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]) - static_cast<unsigned>('0');
  };
  const unsigned first = digit(0), second = digit(size / 2), last = digit(size - 1);
  if (std::max({first, second, last}) > 9) return false;
  const auto& worth = kWorth[size - 1];
  value = first * worth[0] + second * worth[1] + last * worth[2];
  return true;
}

constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};

bool is_one_of(const std::array<std::string_view, 3>& words, std::string_view text) {
  return std::ranges::find(words, text) != words.end();
}

bool boolean_word(std::string_view text, double& value) {
  if (!is_one_of(kFalse, text) && !is_one_of(kTrue, text)) return false;
  value = is_one_of(kTrue, text) ? 1.0 : 0.0;
  return true;
}

/// Decides from the text of a number far from 1 whether its absolute value is below 1.
bool is_below_one(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of("eE"), text.size());
  long exponent = 0;
  if (end < text.size()) {
    std::string_view digits = text.substr(end + 1);
    if (digits.front() == '+') digits.remove_prefix(1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (read.ec != std::errc{}) return digits.front() == '-';
  }
  const std::string_view mantissa = text.substr(0, end);
  const std::size_t first = mantissa.find_first_of("123456789");
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  return static_cast<long>(point) - static_cast<long>(first) + exponent < 0;
}

/// Reads any number; otherwise the same as short_number().
bool any_number(std::string_view text, bool decimal_comma, double& value) {
  char buffer[kMostNumberBytes];
  if (decimal_comma) {
    if (text.size() > kMostNumberBytes || text.find('.') != text.npos) return false;
    std::replace_copy(text.begin(), text.end(), buffer, ',', '.');
    text = {buffer, text.size()};
  }
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ptr != text.data() + text.size()) return false;
  if (result.ec == std::errc::result_out_of_range && is_below_one(text)) {
    value = text.front() == '-' ? -0.0 : 0.0;
    return true;
  }
  // The result is stored as float32, so a number that overflows it does not count as finite.
  return result.ec == std::errc{} && std::isfinite(static_cast<float>(value));
}

}  // namespace

bool read_number(std::string_view text, bool decimal_comma, double& value) {
  return tiny_number(text, value) || (!decimal_comma && short_number(text, value)) ||
         any_number(text, decimal_comma, value) || boolean_word(text, value);
}

namespace {

constexpr double kMostExact = 9007199254740992.0;  // 2^53

/// Whether this is an integer that programs write exactly, even if float32 lacks it (16777217).
bool is_exact(double value) { return value == std::floor(value) && std::abs(value) < kMostExact; }

}  // namespace

namespace {

bool has_only(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == text.npos;
}

/// Whether a text matches a form in which 0 stands for any digit.
bool is_like(std::string_view text, std::string_view form) {
  return std::ranges::equal(
      text, form, [](char a, char b) { return b == '0' ? a >= '0' && a <= '9' : a == b; });
}

/// Returns the last `size` characters; fewer if the text is shorter.
std::string_view last(std::string_view text, std::size_t size) {
  return text.substr(text.size() - std::min(size, text.size()));
}

/// Shortens a text that ends in a time of day, 12:30:00: drops trailing zeros of the fraction and,
/// unless a time zone offset follows, drops midnight and the blank before it.
std::string_view common_time(std::string_view text, std::array<char, kLongestCommonText>& buffer) {
  std::string_view offset = last(text, 6);
  if (!is_like(offset, "+00:00") && !is_like(offset, "-00:00")) offset = {};
  std::string_view time = text.substr(0, text.size() - offset.size());
  std::string_view seconds = time;
  const std::size_t point = time.rfind('.');
  if (point != time.npos && has_only(time.substr(point + 1), "0123456789")) {
    seconds = time.substr(0, point);
    const std::size_t end = time.find_last_not_of('0');
    time = end == point ? seconds : time.substr(0, end + 1);
  }
  if (!is_like(last(seconds, 8), "00:00:00")) return text;
  if (offset.empty()) return without_midnight(time);
  if (time.size() + offset.size() > buffer.size()) return text;
  const auto end = std::ranges::copy(time, buffer.begin()).out;
  return {buffer.begin(), std::ranges::copy(offset, end).out};
}

}  // namespace

std::string_view common_text(std::string_view text, bool decimal_comma,
                             std::array<char, kLongestCommonText>& buffer) {
  double value = 0.0;
  constexpr std::size_t kMostExactDigits = 15;
  if (text.size() <= kMostExactDigits && text.find_first_of(".,:eE+-") == text.npos &&
      !boolean_word(text, value))
    return text;
  if (!read_number(text, decimal_comma, value)) return common_time(text, buffer);
  char* const begin = buffer.data();
  char* const end = begin + buffer.size();
  const auto write = [&](auto number) { return std::to_chars(begin, end, number).ptr; };
  char* written = nullptr;
  if (is_exact(value)) {
    written = write(static_cast<std::int64_t>(value));
  } else if (std::abs(value) >= kMostExact) {
    written = write(value);
  } else {
    written = write(static_cast<float>(value));
  }
  return {begin, static_cast<std::size_t>(written - begin)};
}

namespace {

template <class Real>
std::string shortest(Real value, std::chars_format format) {
  std::array<char, 400> text{};  // the longest double without an exponent has 344 characters
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format).ptr;
  return {text.data(), end};
}

/// Adds two spellings, as "2" and "2.0".
void add_with_point(const std::string& digits, std::set<std::string>& to) {
  to.insert(digits);
  if (digits.find('.') == digits.npos) to.insert(digits + ".0");
}

/// Adds the spellings of a number such as "1.5e-05": with e or E, plus or not, padded or not.
void add_exponents(const std::string& scientific, std::set<std::string>& to) {
  const std::size_t e = scientific.find('e');
  std::set<std::string> mantissas, exponents;
  add_with_point(scientific.substr(0, e), mantissas);
  const std::string sign = scientific[e + 1] == '-' ? "-" : "";
  const std::string padded = scientific.substr(e + 2);
  const std::string digits = padded.substr(std::min(padded.find_first_not_of('0'), padded.size()));
  for (const std::string& size : {padded, digits}) {
    exponents.insert(sign + size);
    if (sign.empty()) exponents.insert("+" + size);
  }
  for (const std::string& mantissa : mantissas) {
    for (const std::string& exponent : exponents) {
      for (const char* const times : {"e", "E"})
        to.insert(std::string(mantissa).append(times).append(exponent));
    }
  }
}

template <class Real>
void add_spellings(Real value, std::set<std::string>& to) {
  const double size = std::abs(static_cast<double>(value));
  // Programs write all digits only in this range, and an exponent only in the next range.
  if (size == 0.0 || (size >= 1e-9 && size < 1e22))
    add_with_point(shortest(value, std::chars_format::fixed), to);
  if (size != 0.0 && (size < 1e-2 || size >= 1e6))
    add_exponents(shortest(value, std::chars_format::scientific), to);
}

/// Returns the ways in which pandas writes a day or a time of day beside other values; empty if the
/// text is neither.
std::set<std::string> spellings_of_date(std::string_view text) {
  std::set<std::string> all;
  const std::string head(without_midnight(text));
  if (date_in(head, kIsoDate)) all.insert(head);
  if (date_in(head, kIsoDate) || date_in(head, "%Y-%m-%d %H:%M:%S")) {
    const std::string_view seconds = kMidnights.front();
    for (const std::string_view midnight : kMidnights)
      all.insert(head +
                 std::string(date_in(head, kIsoDate) ? midnight : midnight.substr(seconds.size())));
  }
  return all;
}

/// Returns the usual spellings of the number in a text; empty if it is not a number.
std::set<std::string> spellings(std::string_view text) {
  std::set<std::string> all;
  double value = 0.0;
  if (!read_number(text, false, value) && !read_number(text, true, value)) return all;
  add_spellings(value, all);
  if (!is_exact(value)) {
    const auto rounded = static_cast<float>(value);
    add_spellings(rounded, all);
    add_spellings(static_cast<double>(rounded), all);
  }
  if (value == 0.0) add_spellings(-value, all);
  if (value == 0.0) all.insert(kFalse.begin(), kFalse.end());
  if (value == 1.0) all.insert(kTrue.begin(), kTrue.end());
  std::set<std::string> with_commas;
  for (std::string spelling : all) {
    std::ranges::replace(spelling, '.', ',');
    with_commas.insert(std::move(spelling));
  }
  all.merge(with_commas);
  return all;
}

}  // namespace

Choices::Choices(const std::vector<std::pair<std::string, std::size_t>>& declared) {
  for (const auto& [text, place] : declared) places_.emplace(text, place);
  // Declared texts that are usual spellings of a number take precedence over codes: if 1 and 01 are
  // declared, 1.0 means 1.
  using Spelled = std::map<std::string, std::set<std::size_t>>;
  Spelled by_numbers, by_codes;
  for (const auto& [text, place] : declared) {
    std::set<std::string> all = spellings(text);
    has_numbers_ = has_numbers_ || !all.empty();
    all.merge(spellings_of_date(text));
    Spelled& spelled = all.contains(text) ? by_numbers : by_codes;
    for (const std::string& spelling : all) spelled[spelling].insert(place);
  }
  for (const Spelled& spelled : {by_numbers, by_codes}) {
    for (const auto& [spelling, places] : spelled)
      places_.emplace(spelling, places.size() == 1 ? *places.begin() : kNeither);
  }
  std::erase_if(places_, [](const auto& spelled) { return spelled.second == kNeither; });
}

std::vector<std::string> Choices::texts() const {
  std::vector<std::string> all;
  for (const auto& [text, place] : places_) all.push_back(text);
  return all;
}
