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

nlohmann::json optional_json(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

nlohmann::json to_json(const AdaptiveNoisePlan& adapts, const NoiseRecord* made) {
  const Measurement& measurement = adapts.measurement;
  Json json{{"measured", to_text(measurement.what)},
            {"every", measurement.every},
            {"unchanged_epsilon", json_number(adapts.unchanged.value)}};
  if (adapts.is_charged()) {
    json["loss_bound"] = measurement.loss_bound;
    json["check_noise_multiplier"] = measurement.noise_multiplier;
    json["checks_epsilon"] = json_number(adapts.of_checks.value);
  }
  if (made == nullptr) return json;
  json["spent_epsilon"] = json_number(made->spent_epsilon);
  json["measurements"] = {{"step", made->measured_at}, {"value", Json::array()}};
  for (const double value : made->measured)
    json["measurements"]["value"].push_back(json_number(value));
  return json;
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

nlohmann::json to_json(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  Json accountants = Json::object();
  for (const AccountantReport& report : plan.accountants)
    accountants[report.name] = to_json(facts_of(report.epsilon));
  Json json{{"name", manifest.name},
            {"steps", plan.steps()},
            {"affordable_steps", plan.affordable_steps},
            {"noise_multiplier", plan.noise_multiplier},
            {"clip_norm", plan.clip_norm},
            {"learning_rate", plan.learning_rate},
            {"epsilon", json_number(plan.epsilon().value)},
            {"delta", manifest.target_delta},
            {"adjacency", to_text(manifest.adjacency)},
            {"accountant", plan.accountants.front().name},
            {"accountants", std::move(accountants)},
            {"parameters", plan.parameters},
            {"network", to_json(plan.setting->whole)},
            {"dataset_size", plan.dataset_size},
            {"batch_size", plan.batch_size},
            {"arithmetic", to_text(plan.arithmetic)},
            {"floating_point", floating_point_json(plan.covers_bits())},
            {"unaccounted", unaccounted_names(plan.unaccounted)},
            {"declared", fact_json(declared_facts(plan))},
            {"remarks", remarks(plan, plan.epsilon().value)},
            {"mode", mode_name(manifest.mode)},
            {"reproducible", manifest.seed.has_value()},
            {"event", to_json(plan.event)}};
  if (const auto price = price_of_allocation(plan)) json["with_allocation"] = to_json(*price);
  if (!plan.auto_values.empty()) {
    json["auto"] = Json::object();
    for (const PlannedAuto& chosen : plan.auto_values)
      json["auto"][chosen.where] = {{"value", chosen.value}, {"reason", chosen.reason}};
  }
  if (!plan.optimized.empty()) json["optimized"] = plan.optimized;
  if (plan.setting->weights) {
    json["initial_weights"] = to_json(*plan.setting->weights);
    json["initial_weights"]["is"] = to_text(claim_of(manifest, *plan.setting->weights));
  }
  if (const std::size_t untrained = untrained_parameters(*plan.setting); untrained > 0)
    json["frozen_parameters"] = untrained;
  if (manifest.lora) {
    json["lora"] = Json::array();
    for (const TrainedTensor& tensor : plan.setting->lora->tensors)
      json["lora"].push_back(
          {{"tensor", tensor.name}, {"rank", tensor.rank}, {"parameters", tensor.size()}});
  }
  if (plan.federated) json["federated"] = to_json(*plan.federated, *manifest.federated);
  if (!plan.influence.empty() && !manifest.noise_off) {
    json["influence"] = {{"values", plan.influence}};
    if (const auto facts = influence_facts(plan)) {
      json["influence"].update({{"weighted_noise", facts->weighted_noise},
                                {"uniform", facts->uniform},
                                {"least", optional_json(facts->least)},
                                {"budget", optional_json(facts->budget)}});
    }
  }
  if (plan.public_order() != nullptr && !manifest.noise_off) {
    json["participation"] = to_json(plan.rho_of_examples());
    if (const auto& rule = plan.public_order()->separation)
      json["participation"]["min_separation"] = rule->min_separation;
  }
  if (plan.noise_adapts) json["adaptive_noise"] = to_json(*plan.noise_adapts);
  if (!plan.statistics.empty()) json["statistics"] = fact_json(facts_of(plan.statistics));
  if (plan.report) json["reported"] = to_json(Reported{facts_of(*plan.report)});
  if (plan.releases_count()) {
    json["count_noise"] = plan.count_noise;
    json["gradient_noise_multiplier"] = plan.gradient_noise_multiplier();
  }
  return json;
}

nlohmann::json shown_json(const Plan& plan) {
  Json json = to_json(plan);
  json["trained_tensors"] = Json::array();
  for (const ParameterBlock& block : parameter_blocks(plan.setting->network))
    json["trained_tensors"].push_back(block.name);
  if (const PassFacts& pass = plan.setting->pass; pass.rows > 0)
    json["pass"] = {{"examples", pass.rows}, {"bytes", pass.bytes}};
  return json;
}

}  // namespace privgrad::core
