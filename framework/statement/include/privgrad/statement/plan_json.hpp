// What a plan says; also the facts that statements and summaries share with it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/plan/allocation_price.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/plan_facts.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The facts of a plan that studies record in plan.json.
PlanFacts plan_facts(const Plan& plan);

/// What `privgrad plan --json` prints: plan_facts() with the trained tensors and the size of a
/// pass.
PlanFacts shown_facts(const Plan& plan);

/// \param made  null if the run has not ended.
AdaptiveNoiseFacts facts_of(const AdaptiveNoisePlan& adapts, const NoiseRecord* made = nullptr);

std::vector<StatisticFacts> facts_of(const std::vector<PlannedStatistic>& statistics);

Answer facts_of(const PrivacyAnswer& answer);

std::string_view mode_name(Mode mode);

/// The names of the unaccounted uses of private rows, each once.
std::vector<std::string> unaccounted_names(const std::vector<Unaccounted>& items);

/// \returns "exact" if the proof covers the released bits, otherwise null.
nlohmann::json floating_point_json(bool covers_bits);

}  // namespace privgrad::core
