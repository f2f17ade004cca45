#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The plan as `privgrad plan --json` prints it.
nlohmann::json to_json(const Plan& plan);

/// What the noise follows, what that costs, and all that was measured.
/// \param made  null: the run has not ended.
nlohmann::json to_json(const AdaptiveNoisePlan& adapts, const NoiseRecord* made = nullptr);

/// What transforms learn from, and with how much noise: a list.
nlohmann::json to_json(const std::vector<PlannedStatistic>& statistics);

/// \returns "research" or "release".
std::string_view mode_name(const Manifest& manifest);

/// The names of what no accountant was charged for, each once.
std::vector<std::string> unaccounted_names(const Plan& plan);

/// \returns "exact" where the proof is about the bits that are released, else null.
nlohmann::json floating_point_json(const Plan& plan);

nlohmann::json optional_json(const std::optional<double>& value);

}  // namespace privgrad::core
