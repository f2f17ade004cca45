// Plans as JSON, for `privgrad plan --json`; also the members that statements and summaries share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/plan/allocation_price.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/statement_facts.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The plan in the form that runs and studies record.
nlohmann::json to_json(const Plan& plan);

/// The plan in the form of `privgrad plan --json`, which adds the trained tensors, the number of
/// examples that are in memory at once, and their approximate bytes.
nlohmann::json shown_json(const Plan& plan);

/// The measurement that adaptive noise follows, its cost, and all measured values.
/// \param made  null if the run has not ended.
nlohmann::json to_json(const AdaptiveNoisePlan& adapts, const NoiseRecord* made = nullptr);

/// The statistics that the plan releases, with their noise.
std::vector<StatisticFacts> facts_of(const std::vector<PlannedStatistic>& statistics);

Answer facts_of(const PrivacyAnswer& answer);

/// \returns "research" or "release".
std::string_view mode_name(Mode mode);

/// The names of the unaccounted uses of private rows, each once.
std::vector<std::string> unaccounted_names(const std::vector<Unaccounted>& items);

/// \returns "exact" if the proof covers the released bits, otherwise null.
nlohmann::json floating_point_json(bool covers_bits);

nlohmann::json optional_json(const std::optional<double>& value);

}  // namespace privgrad::core
