// What the text of a cell means: a number, or one of the texts that are declared, however a program
// has written it.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Reads a whole text as a number in float32's range. A leading plus and, with `decimal_comma`, a
/// comma instead of a point are understood; so are true and false, as 1 and 0, which is what a
/// column of booleans becomes beside a number. What is too small for a double is 0.
/// \param value  the number; anything if there is none.
/// \returns whether there is one.
bool read_number(std::string_view text, bool decimal_comma, double& value);
/// As read_number(). Defined here, since an optional that another file returns goes through memory
/// in pieces, which takes longer than reading the number.
inline std::optional<double> number_in(std::string_view text, bool decimal_comma) {
  double value = 0.0;
  return read_number(text, decimal_comma, value) ? std::optional(value) : std::nullopt;
}

inline constexpr std::size_t kLongestCommonText = 32;
/// One text for all ways in which a program may write a cell, according to what other rows hold. Of
/// a number with a decimal mark, an exponent or a sign, or a boolean: "2" of 2.0 and 2e0, "0.1" of
/// 0.10000000149011612, "1" of true, "1e+17" of 100000000000000001, as double has it. Of a text that
/// ends in a time of day: without the zeros of its fraction, and without midnight. Others are
/// themselves.
/// \param decimal_comma  as of read_number().
/// \param buffer  where it may lie.
std::string_view common_text(std::string_view text, bool decimal_comma,
                             std::array<char, kLongestCommonText>& buffer);

/// Declared texts, each with a place.
///
/// Programs write one number in several ways, and which way may follow from the type of a whole
/// column, which a single row decides: 2 becomes 2.0 beside a missing value, 0.1 becomes
/// 0.10000000149011612 where float32 is widened, true becomes 1. So a declared text that reads as a
/// number is found by each of its usual spellings, too: those of the number and of its nearest
/// float32 as the shortest digits, with and without an exponent, with a decimal comma, and of 0 and
/// 1 as booleans. A declared day, %Y-%m-%d, is found with the midnight that pandas writes behind it
/// where another row has a time of day. The spellings are a finite list, which an exported model holds, and other texts of
/// that number (01, 1.10) stay what they are: codes are no numbers. A text that is declared itself
/// means itself; a spelling of two texts means neither, but of 1 and of 01 the first.
/// Threads: immutable.
class Choices {
 public:
  Choices() = default;
  /// \param declared  in the order of precedence: of equal texts the first counts.
  explicit Choices(const std::vector<std::pair<std::string, std::size_t>>& declared);

  /// \returns the place; nothing if the text means none of the declared ones.
  std::optional<std::size_t> find(std::string_view text) const {
    const auto found = places_.find(text);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }
  /// All texts that mean something, in order.
  std::vector<std::string> texts() const;
  /// Whether a declared text reads as a number.
  bool has_numbers() const noexcept { return has_numbers_; }

 private:
  static constexpr std::size_t kNeither = static_cast<std::size_t>(-1);

  std::map<std::string, std::size_t, std::less<>> places_;
  bool has_numbers_ = false;
};
