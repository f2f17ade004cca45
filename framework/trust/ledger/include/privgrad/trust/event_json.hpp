// Privacy events as JSON, written and read.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "privgrad/event.hpp"

namespace privgrad::core {

/// The longest text from which an event is read: 64 MiB.
inline constexpr std::size_t kMostEventBytes = std::size_t{64} << 20;

/// Returns the event in the vocabulary of the command line's contract: {"event": "gaussian", ...}.
nlohmann::json to_json(const Event& event);

/// Reads an event. `text` is one JSON document that holds one event, at most 64 MiB long and 64
/// events deep.
/// \param source  the text's name for errors, such as a file's name.
/// \throws ConfigError naming the place inside the document ("of.3.noise_multiplier"), the error
///   and the expected form: invalid JSON, a missing, unknown or wrongly typed member, a number out
///   of range.
Event event_from_json(std::string_view text, std::string_view source);

/// Returns a double as JSON: the number, or null if it is not finite (JSON has no such numbers).
nlohmann::json json_number(double value);

}  // namespace privgrad::core
