// The date in run records, which SOURCE_DATE_EPOCH can fix.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::core {

/// Returns the date for the records of a run, in UTC, as "2026-05-17T12:00:00Z": the present time,
/// or the environment variable SOURCE_DATE_EPOCH, in seconds since 1970. With the variable, two
/// runs with the same seed write the same bytes
/// (https://reproducible-builds.org/specs/source-date-epoch/).
/// \throws ConfigError if the variable is set to anything but a whole number of seconds until the
///   year 9999.
std::string utc_date();

/// Whether a text has the form of utc_date(), even if the date does not exist.
bool is_utc_date(std::string_view text);

}  // namespace privgrad::core
