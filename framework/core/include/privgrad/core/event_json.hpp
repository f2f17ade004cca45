#pragma once

#include <nlohmann/json.hpp>

#include "privgrad/event.hpp"

namespace privgrad::core {

/// The event in the vocabulary of the command line's contract: {"event": "gaussian", ...}.
nlohmann::json to_json(const Event& event);

/// A double as JSON: the number, or null for infinity (JSON has none).
nlohmann::json json_number(double value);

}  // namespace privgrad::core
