#include "privgrad/record/date.hpp"

#include <charconv>
#include <cstdlib>
#include <ctime>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

constexpr long long kLastSecond =
    253'402'300'799;  // 9999-12-31T23:59:59Z, the last date with a four-digit year

std::time_t seconds_to_write() {
  const char* given = std::getenv("SOURCE_DATE_EPOCH");
  if (given == nullptr || *given == '\0') return std::time(nullptr);
  const std::string_view text = given;
  long long seconds = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || seconds < 0 ||
      seconds > kLastSecond) {
    throw ConfigError(
        "the environment variable SOURCE_DATE_EPOCH is not a date, expected the seconds since 1970 "
        "as a whole number");
  }
  return static_cast<std::time_t>(seconds);
}

}  // namespace

std::string utc_date() {
  const std::time_t now = seconds_to_write();
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

bool is_utc_date(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !is_digit : text[i] != kForm[i]) return false;
  }
  return true;
}

}  // namespace privgrad::core
