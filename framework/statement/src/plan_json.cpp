#include "privgrad/statement/plan_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "privgrad/model/network_json.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/influence_facts.hpp"
#include "privgrad/plan/remarks.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/declared.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {
using Json = nlohmann::json;

std::string_view mode_name(Mode mode) { return mode == Mode::release ? "release" : "research"; }

std::vector<std::string> unaccounted_names(const std::vector<Unaccounted>& items) {
  std::vector<std::string> names;
  for (const Unaccounted& item : items) {
    // Several causes of an item are listed as one item.
    if (std::ranges::find(names, item.what) == names.end()) names.push_back(item.what);
  }
  return names;
}

nlohmann::json floating_point_json(bool covers_bits) {
  return covers_bits ? Json("exact") : Json(nullptr);
}

AdaptiveNoiseFacts facts_of(const AdaptiveNoisePlan& adapts, const NoiseRecord* made) {
  const Measurement& measurement = adapts.measurement;
  AdaptiveNoiseFacts facts{.measured = Text(to_text(measurement.what)),
                           .every = measurement.every,
                           .unchanged_epsilon = finite(adapts.unchanged.value)};
  if (adapts.is_charged()) {
    facts.loss_bound = measurement.loss_bound;
    facts.check_noise_multiplier = measurement.noise_multiplier;
    facts.checks_epsilon = finite(adapts.of_checks.value);
  }
  if (made == nullptr) return facts;
  facts.spent_epsilon = finite(made->spent_epsilon);
  facts.measurements = {made->measured_at, {made->measured.begin(), made->measured.end()}};
  return facts;
}

std::vector<StatisticFacts> facts_of(const std::vector<PlannedStatistic>& statistics) {
  std::vector<StatisticFacts> list;
  for (const PlannedStatistic& one : statistics) {
    StatisticFacts& facts = list.emplace_back();
    if (one.of == StatisticOf::transform) facts.transform = one.transform;
    facts.name = one.name;
    facts.what = one.what;
    facts.numbers = one.size;
    facts.l2_bound = one.l2_bound;
    facts.noise_multiplier = one.noise_multiplier;
    if (one.share > 0.0) facts.share = one.share;
  }
  return list;
}

Answer facts_of(const PrivacyAnswer& answer) {
  return {finite(answer.value), answer.lower, std::string(to_text(answer.bound)), answer.note};
}

namespace {

PlannedInfluence influence_of(const Plan& plan) {
  PlannedInfluence influence{.values = plan.influence};
  if (const auto rating = influence_facts(plan)) {
    influence.weighted_noise = rating->weighted_noise;
    influence.uniform = rating->uniform;
    influence.least = rating->least;
    influence.budget = rating->budget;
  }
  return influence;
}

std::vector<LoraTensor> tensors_of(const LoraLayout& lora) {
  std::vector<LoraTensor> tensors;
  for (const TrainedTensor& tensor : lora.tensors)
    tensors.push_back({tensor.name, tensor.rank, tensor.size()});
  return tensors;
}

}  // namespace

PlanFacts plan_facts(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  const Setting& setting = *plan.setting;
  PlanFacts facts{.name = manifest.name,
                  .adjacency = Text(to_text(manifest.adjacency)),
                  .accountant = plan.accountants.front().name,
                  .arithmetic = Text(to_text(plan.arithmetic)),
                  .mode = Text(mode_name(manifest.mode)),
                  .steps = plan.steps(),
                  .affordable_steps = plan.affordable_steps,
                  .parameters = plan.parameters,
                  .dataset_size = plan.dataset_size,
                  .noise_multiplier = plan.noise_multiplier,
                  .clip_norm = plan.clip_norm,
                  .learning_rate = plan.learning_rate,
                  .batch_size = plan.batch_size,
                  .epsilon = finite(plan.epsilon().value),
                  .delta = manifest.target_delta,
                  .network = to_json(setting.whole),
                  .event = to_json(plan.event),
                  .floating_point = floating_point_json(plan.covers_bits()),
                  .unaccounted = unaccounted_names(plan.unaccounted),
                  .remarks = remarks(plan, plan.epsilon().value),
                  .declared = declared_facts(plan),
                  .reproducible = manifest.seed.has_value(),
                  .with_allocation = price_of_allocation(plan),
                  .optimized = plan.optimized,
                  .statistics = facts_of(plan.statistics)};
  for (const AccountantReport& report : plan.accountants)
    facts.accountants[report.name] = facts_of(report.epsilon);
  for (const PlannedAuto& chosen : plan.auto_values)
    facts.auto_[chosen.where] = {chosen.value, chosen.reason};
  if (setting.weights)
    facts.initial_weights = {*setting.weights, Text(to_text(claim_of(manifest, *setting.weights)))};
  if (const std::size_t untrained = untrained_parameters(setting); untrained > 0)
    facts.frozen_parameters = untrained;
  if (manifest.lora) facts.lora = tensors_of(*setting.lora);
  if (plan.federated) facts.federated = facts_of(*plan.federated, *manifest.federated);
  if (!plan.influence.empty() && !manifest.noise_off) facts.influence = influence_of(plan);
  if (plan.public_order() != nullptr && !manifest.noise_off)
    facts.participation = plan.rho_of_examples();
  if (plan.noise_adapts) facts.adaptive_noise = facts_of(*plan.noise_adapts);
  if (plan.report) facts.reported = Reported{facts_of(*plan.report)};
  if (plan.releases_count()) {
    facts.count_noise = plan.count_noise;
    facts.gradient_noise_multiplier = plan.gradient_noise_multiplier();
  }
  return facts;
}

PlanFacts shown_facts(const Plan& plan) {
  PlanFacts facts = plan_facts(plan);
  facts.trained_tensors.emplace();
  for (const ParameterBlock& block : parameter_blocks(plan.setting->network))
    facts.trained_tensors->push_back(block.name);
  if (const PassFacts& pass = plan.setting->pass; pass.rows > 0)
    facts.pass = {pass.rows, pass.bytes};
  return facts;
}

}  // namespace privgrad::core
