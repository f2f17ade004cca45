// Dates as texts of a declared form.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>

inline constexpr std::string_view kIsoDate = "%Y-%m-%d";

/// The valid years of a column of dates, first and last included. A program without a calendar
/// (ONNX cannot split texts) has a list of these days, and must accept exactly these.
struct YearRange {
  std::chrono::year first{1900}, last{2100};
  /// Returns the range extended to the year of this day.
  YearRange with(std::chrono::sys_days day) const;
  bool has(std::chrono::sys_days day) const;
};

/// \returns the problem with a form of dates, such as "has no %d"; otherwise "". A form must
///   contain each of %Y, %m and %d once, and may contain %H, %M, %S and %f, as in strptime(3) and
///   Python.
std::string problem_of_date_format(std::string_view format);

/// \returns the first of %H, %M, %S and %f in a form (ONNX cannot parse these); "" if it has none.
std::string_view time_directive(std::string_view format);

/// \param format  a form without a problem.
/// \returns the day, if the whole text has that form and the day exists. A time of day is ignored.
///   Numbers may lack leading zeros, except the four digits of a year.
std::optional<std::chrono::sys_days> date_in(std::string_view text, std::string_view format);

/// The texts that pandas appends to each day of a column if one row has a time of day or a fraction
/// of a second, or is not a date. A program without a calendar has a list of these texts, too.
inline constexpr std::array<std::string_view, 4> kMidnights = {
    " 00:00:00", " 00:00:00.000", " 00:00:00.000000", " 00:00:00.000000000"};
/// \returns the text without a trailing element of kMidnights.
std::string_view without_midnight(std::string_view text);

/// The same as date_in(), but accepts what pandas may change in a day because of other rows. A form
/// without a time of day accepts a midnight after a day with leading zeros. A form that ends in a
/// time of day accepts a missing time, which means midnight, and any fraction of seconds.
std::optional<std::chrono::sys_days> written_date_in(std::string_view text,
                                                     std::string_view format);

/// \param format  a form without a time of day.
/// \returns all texts that written_date_in() reads as this day: with leading zeros, without them,
///   and with midnight.
std::set<std::string> texts_of_date(std::chrono::sys_days day, std::string_view format);
/// \returns the day as %Y-%m-%d.
std::string iso_date(std::chrono::sys_days day);
