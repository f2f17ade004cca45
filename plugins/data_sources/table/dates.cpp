#include "dates.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace {

constexpr std::string_view kNeeded = "Ymd", kTimes = "HMSf";

/// Reads a number of at least `fewest` and at most `most` digits, as many as the text has.
std::optional<int> take_number(std::string_view& text, std::size_t fewest, std::size_t most) {
  int value = 0;
  std::size_t count = 0;
  while (count < std::min(most, text.size()) && text[count] >= '0' && text[count] <= '9')
    value = 10 * value + (text[count++] - '0');
  if (count < fewest) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

struct Moment {
  int year = 0, month = 0, day = 0;

  bool take(char directive, std::string_view& text) {
    if (directive == 'f') return take_number(text, 1, 9).has_value();
    const auto number = directive == 'Y' ? take_number(text, 4, 4) : take_number(text, 1, 2);
    if (!number) return false;
    switch (directive) {
      case 'Y':
        year = *number;
        return true;
      case 'm':
        month = *number;
        return true;
      case 'd':
        day = *number;
        return true;
      case 'H':
        return *number < 24;
      case 'M':
        return *number < 60;
      default:
        return *number <= 60;  // allows a leap second
    }
  }
};

}  // namespace

std::string_view time_directive(std::string_view format) {
  for (const std::string_view directive : {"%H", "%M", "%S", "%f"})
    if (format.find(directive) != format.npos) return directive;
  return "";
}

YearRange YearRange::with(std::chrono::sys_days day) const {
  const std::chrono::year year = std::chrono::year_month_day(day).year();
  return {std::min(first, year), std::max(last, year)};
}

bool YearRange::has(std::chrono::sys_days day) const {
  const std::chrono::year year = std::chrono::year_month_day(day).year();
  return first <= year && year <= last;
}

std::string problem_of_date_format(std::string_view format) {
  std::string found;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') continue;
    const char directive = ++at < format.size() ? format[at] : ' ';
    const bool is_known =
        kNeeded.find(directive) != kNeeded.npos || kTimes.find(directive) != kTimes.npos;
    if (!is_known) return "has a % before none of Y, m, d, H, M, S and f";
    if (found.find(directive) != found.npos) return std::string("has %") + directive + " twice";
    found += directive;
  }
  for (const char needed : kNeeded) {
    if (found.find(needed) == found.npos) return std::string("has no %") + needed;
  }
  return "";
}

std::optional<std::chrono::sys_days> date_in(std::string_view text, std::string_view format) {
  Moment moment;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] == '%') {
      if (!moment.take(format[++at], text)) return std::nullopt;
    } else if (text.empty() || text.front() != format[at]) {
      return std::nullopt;
    } else {
      text.remove_prefix(1);
    }
  }
  const std::chrono::year_month_day date{std::chrono::year(moment.year),
                                         std::chrono::month(static_cast<unsigned>(moment.month)),
                                         std::chrono::day(static_cast<unsigned>(moment.day))};
  if (!text.empty() || !date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

std::string_view without_midnight(std::string_view text) {
  for (const std::string_view midnight : kMidnights)
    if (text.ends_with(midnight)) return text.substr(0, text.size() - midnight.size());
  return text;
}

namespace {

/// \param format  a form without a time of day.
std::string date_text(std::chrono::sys_days day, std::string_view format, bool pads_month = true,
                      bool pads_day = true) {
  const std::string iso = iso_date(day);
  const auto number = [](std::string two_digits, bool pads) {
    return !pads && two_digits.front() == '0' ? two_digits.substr(1) : two_digits;
  };
  std::string text;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    ++at;
    if (format[at] == 'Y') text += iso.substr(0, 4);
    if (format[at] == 'm') text += number(iso.substr(5, 2), pads_month);
    if (format[at] == 'd') text += number(iso.substr(8, 2), pads_day);
  }
  return text;
}

/// \returns the form up to the last of %Y, %m and %d; "" if a time of day comes before that.
std::string_view without_time(std::string_view format) {
  std::size_t end = 0;
  for (const std::string_view needed : {"%Y", "%m", "%d"})
    end = std::max(end, format.find(needed) + needed.size());
  return time_directive(format.substr(0, end)).empty() ? format.substr(0, end) : "";
}

}  // namespace

std::optional<std::chrono::sys_days> written_date_in(std::string_view text,
                                                     std::string_view format) {
  if (const auto day = date_in(text, format)) return day;
  if (time_directive(format).empty()) {
    const std::string_view head = without_midnight(text);
    const auto day = head.size() < text.size() ? date_in(head, format) : std::nullopt;
    return day && date_text(*day, format) == head ? day : std::nullopt;
  }
  const std::string days(without_time(format));
  if (days.empty()) return std::nullopt;
  const std::string between(
      format.substr(days.size(), format.find('%', days.size()) - days.size()));
  for (const char* const time : {"", "%H:%M:%S", "%H:%M:%S.%f"}) {
    if (const auto day = date_in(text, *time == '\0' ? days : days + between + time)) return day;
  }
  return std::nullopt;
}

std::set<std::string> texts_of_date(std::chrono::sys_days day, std::string_view format) {
  std::set<std::string> texts;
  for (const bool pads_month : {true, false}) {
    for (const bool pads_day : {true, false}) {
      std::string text = date_text(day, format, pads_month, pads_day);
      // Without separators or leading zeros, the text may be invalid or mean another day.
      if (date_in(text, format) == day) texts.insert(std::move(text));
    }
  }
  for (const std::string_view midnight : kMidnights) {
    const std::string text = date_text(day, format).append(midnight);
    if (written_date_in(text, format) == day) texts.insert(text);
  }
  return texts;
}

std::string iso_date(std::chrono::sys_days day) {
  const std::chrono::year_month_day date(day);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text.data();
}
