// Dates as texts of a declared form.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

inline constexpr std::string_view kIsoDate = "%Y-%m-%d";

/// The years whose days a column knows, both whole. A program without a calendar has a list of them
/// (ONNX takes no text apart), and reads what this one does.
struct YearRange {
  std::chrono::year first{1900}, last{2100};
  /// The same, with the year of this day if it is not among them: all years up to it.
  YearRange with(std::chrono::sys_days day) const;
  bool has(std::chrono::sys_days day) const;
};

/// \returns what is wrong with a form of dates, such as "has no %d"; "" if nothing is. A form has
///   %Y, %m and %d, once each, and may have %H, %M, %S and %f, as strptime(3) and Python know them.
std::string problem_of_date_format(std::string_view format);

/// \returns the first of %H, %M, %S and %f in a form, of which ONNX can take no text apart; "" if
///   it has none.
std::string_view time_directive(std::string_view format);

/// \param format  one without a problem.
/// \returns the day, if all of the text is of that form and there is such a day. A time of day is
///   left out. Numbers may lack leading zeros, but for the four digits of a year.
std::optional<std::chrono::sys_days> date_in(std::string_view text, std::string_view format);

/// \returns the day as %Y-%m-%d.
std::string iso_date(std::chrono::sys_days day);
