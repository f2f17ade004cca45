// The date that run records carry, which SOURCE_DATE_EPOCH can fix.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::core {

/// The date that goes into what a run leaves: now, in UTC, "2026-05-17T12:00:00Z"; or the seconds
/// since 1970 that the environment variable SOURCE_DATE_EPOCH holds, so that two runs with one seed
/// leave the same bytes (https://reproducible-builds.org/specs/source-date-epoch/).
/// \throws ConfigError if the variable holds anything else.
std::string utc_date();

/// Whether a text has that form: letters and digits at their places, whatever day they name.
bool is_utc_date(std::string_view text);

}  // namespace privgrad::core
