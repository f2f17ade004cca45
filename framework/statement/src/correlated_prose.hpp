// Sentences of a statement about noise that steps share, and who takes part in them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::core {

/// From the smallest to the largest; "none" of null.
std::string range_text(const nlohmann::json& range);

/// \param mechanism  the statement's member.
/// \returns the sums' noise where steps share it.
std::string correlated_noise(const nlohmann::json& mechanism);

/// What batches were held against.
std::string checked_draws(const nlohmann::json& mechanism);

}  // namespace privgrad::core
