// Sentences of a statement about noise shared between steps, and about participation.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::core {

/// A range in words, from the smallest to the largest; "none" for null.
std::string range_text(const nlohmann::json& range);

/// \param mechanism  the statement's member.
/// \returns a description of the sums' noise, if steps share noise.
std::string correlated_noise(const nlohmann::json& mechanism);

/// Describes the distributions against which batches were tested.
std::string checked_draws(const nlohmann::json& mechanism);

}  // namespace privgrad::core
