// Dates as texts of a declared form.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <set>
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

/// What pandas writes behind each day of a column in which one row has a time of day, a fraction of
/// a second, or is no date. A program without a calendar has a list of these texts, too.
inline constexpr std::array<std::string_view, 4> kMidnights = {
    " 00:00:00", " 00:00:00.000", " 00:00:00.000000", " 00:00:00.000000000"};
/// \returns the text without the one of kMidnights that it ends in.
std::string_view without_midnight(std::string_view text);

/// As date_in(), but of a day whatever pandas writes behind it because of other rows: of a form
/// without a time of day a midnight, behind a day with leading zeros; of one that ends in a time of
/// day no time at all, which is midnight, and seconds with or without a fraction.
std::optional<std::chrono::sys_days> written_date_in(std::string_view text,
                                                     std::string_view format);

/// \param format  one without a time of day.
/// \returns all texts that written_date_in() reads as this day: with leading zeros and without
///   them, and with midnight.
std::set<std::string> texts_of_date(std::chrono::sys_days day, std::string_view format);
/// \returns the day as %Y-%m-%d.
std::string iso_date(std::chrono::sys_days day);
