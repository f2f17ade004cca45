// The date in run records, which SOURCE_DATE_EPOCH can fix.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::core {

/// Returns the date for the records of a run: the present time in UTC, as "2026-05-17T12:00:00Z",
/// or the time in the environment variable SOURCE_DATE_EPOCH, in seconds since 1970, with which two
/// runs with the same seed write the same bytes
/// (https://reproducible-builds.org/specs/source-date-epoch/).
/// \throws ConfigError if the variable holds anything else.
std::string utc_date();

/// Whether a text has the form of utc_date(): digits and letters in the right places, even if there
/// is no such day.
bool is_utc_date(std::string_view text);

}  // namespace privgrad::core
