#include "privgrad/statement/plan_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "privgrad/model/network_json.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/influence_facts.hpp"
#include "privgrad/plan/remarks.hpp"
#include "privgrad/statement/declared.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {
using Json = nlohmann::json;

std::string_view mode_name(const Manifest& manifest) {
  return manifest.mode == Mode::release ? "release" : "research";
}

std::vector<std::string> unaccounted_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const Unaccounted& item : plan.unaccounted) {
    // Several causes of an item are listed as one item.
    if (std::ranges::find(names, item.what) == names.end()) names.push_back(item.what);
  }
  return names;
}

nlohmann::json floating_point_json(const Plan& plan) {
  return plan.covers_bits() ? Json("exact") : Json(nullptr);
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

nlohmann::json to_json(const std::vector<PlannedStatistic>& statistics) {
  Json list = Json::array();
  for (const PlannedStatistic& one : statistics) {
    const bool is_count = one.of != StatisticOf::transform;
    list.push_back({{"transform", is_count ? Json(nullptr) : Json(one.transform)},
                    {"name", one.name},
                    {"what", one.what},
                    {"numbers", one.size},
                    {"l2_bound", one.l2_bound},
                    {"noise_multiplier", one.noise_multiplier},
                    {"share", one.share > 0.0 ? Json(one.share) : Json(nullptr)}});
  }
  return list;
}

nlohmann::json to_json(const AllocationPrice& price) {
  return {{"steps_per_epoch", price.steps_per_epoch},
          {"adjacency", to_text(price.adjacency)},
          {"epsilon", price.epsilon}};
}

nlohmann::json to_json(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  Json accountants = Json::object();
  for (const AccountantReport& report : plan.accountants) {
    accountants[report.name] = {{"epsilon", json_number(report.epsilon.value)},
                                {"lower", optional_json(report.epsilon.lower)},
                                {"bound", to_text(report.epsilon.bound)},
                                {"note", report.epsilon.note}};
  }
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
            {"floating_point", floating_point_json(plan)},
            {"unaccounted", unaccounted_names(plan)},
            {"declared", to_json(declared_facts(plan))},
            {"remarks", remarks(plan, plan.epsilon().value)},
            {"mode", mode_name(manifest)},
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
  if (!plan.statistics.empty()) json["statistics"] = to_json(plan.statistics);
  if (plan.report) json["reported"] = {{"train_accuracy", to_json(*plan.report)}};
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
