// Finds the meaning of a cell's text, as a number or as a declared text, however a program spelled
// it.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Reads a whole text as a number in float32's range. Accepts a leading plus and, with
/// `decimal_comma`, a comma instead of a point. Accepts true and false as 1 and 0, because columns
/// of booleans become such texts beside numbers. A number too small for a double becomes 0.
/// \param value  the number; unspecified if the text is not a number.
/// \returns whether the text is a number.
bool read_number(std::string_view text, bool decimal_comma, double& value);
/// The same as read_number(). Defined in the header, because an optional returned from another
/// translation unit goes through memory in pieces, which takes longer than reading the number.
inline std::optional<double> number_in(std::string_view text, bool decimal_comma) {
  double value = 0.0;
  return read_number(text, decimal_comma, value) ? std::optional(value) : std::nullopt;
}

inline constexpr std::size_t kLongestCommonText = 32;
/// Returns one text for all ways in which a program may write a cell, because the program's choice
/// can depend on other rows. A boolean, or a number that has a decimal mark, an exponent, a sign or
/// more than 15 characters, gets one spelling: "2" for 2.0 and 2e0, "0.1" for 0.10000000149011612,
/// "1" for true, "1e+17" for 100000000000000001 (the same double). A text that ends in a time of
/// day loses trailing zeros of the time's fraction, and loses the whole time if it is midnight and
/// no time zone offset follows. Other texts are unchanged.
/// \param decimal_comma  the same as for read_number().
/// \param buffer  memory for the result.
std::string_view common_text(std::string_view text, bool decimal_comma,
                             std::array<char, kLongestCommonText>& buffer);

/// Declared texts, each with an index.
///
/// Programs write the same number in several ways, which may depend on the type of a whole column
/// and so on a single other row: 2 becomes 2.0 beside a missing value, 0.1 becomes
/// 0.10000000149011612 when float32 is widened, true becomes 1. So a declared text that is a number
/// is also found by each usual spelling of that number: the shortest digits of the number and of
/// its nearest float32, with and without an exponent, with a decimal comma, and booleans for 0 and
/// 1. A declared day, %Y-%m-%d, is also found with the midnight that pandas appends if another row
/// has a time of day. The spellings form a finite list, which an exported model contains. Other
/// texts for the number (01, 1.10) are not in the list, because they may be codes. A declared text
/// always means itself. A spelling that fits two declared texts means neither of them, but if both
/// 1 and 01 are declared, it means 1. Threads: immutable.
class Choices {
 public:
  Choices() = default;
  /// \param declared  in order of precedence: among equal texts, the first counts.
  explicit Choices(const std::vector<std::pair<std::string, std::size_t>>& declared);

  /// \returns the index; nothing if the text means no declared text.
  std::optional<std::size_t> find(std::string_view text) const {
    const auto found = places_.find(text);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Returns all texts that have a meaning, in order.
  std::vector<std::string> texts() const;
  /// Whether a declared text is a number.
  bool has_numbers() const noexcept { return has_numbers_; }

 private:
  static constexpr std::size_t kNeither = static_cast<std::size_t>(-1);

  std::map<std::string, std::size_t, std::less<>> places_;
  bool has_numbers_ = false;
};
