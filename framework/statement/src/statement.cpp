#include "privgrad/statement/statement.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include "lead_prose.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/remarks.hpp"
#include "privgrad/record/event_words.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/statement/declared.hpp"
#include "privgrad/statement/membership.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "statement_prose.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// \param in_its_shard  whether clients already have the examples, so that the shard sizes are
///   public.
std::string_view adjacency_means(Adjacency adjacency, PrivacyUnit unit, bool in_its_shard) {
  if (unit == PrivacyUnit::client) {
    switch (adjacency) {
      case Adjacency::add_or_remove_one:
        return "one of them has one client, with all its examples, more than the other";
      case Adjacency::replace_one:
        return "they differ in one client, all of whose examples are exchanged for any others";
      case Adjacency::zero_out:
        return "they differ in one client, whose contributions are replaced by zero";
    }
  }
  switch (adjacency) {
    case Adjacency::add_or_remove_one:
      return "one of them holds one training example more than the other";
    case Adjacency::replace_one:
      return in_its_shard ? "they differ in one training example, which is exchanged for any other "
                            "that the same client could hold"
                          : "they differ in one training example, which is exchanged for any other";
    case Adjacency::zero_out:
      return "they differ in one training example, whose contribution is replaced by zero";
  }
  return "";
}

/// The provenance of the number of examples that the statement contains.
std::string_view size_provenance(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  if (plan.unit == PrivacyUnit::client) return "public";
  if (size_is_public(manifest)) return "public";
  if (manifest.size_noise) return "guess";
  return declared_size(manifest) ? "declared" : "read_from_the_data";
}

/// The planned statistics, with the counts that were released.
Json statistics(const Plan& plan, const PlanNumbers& stated, const ReleasedCounts& counts) {
  Json list = to_json(stated.statistics);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const StatisticOf of = stated.statistics[i].of;
    if (of == StatisticOf::rows && counts.rows) list[i]["value"] = *counts.rows;
    if (of != StatisticOf::classes) continue;
    if (const auto largest = plan.manifest->largest_class_weight)
      list[i]["largest_class_weight"] = *largest;
    if (!counts.classes.empty()) list[i]["value"] = counts.classes;
    if (const auto weights = class_weights_of(plan, counts); !weights.empty())
      list[i]["class_weights"] = weights;
  }
  return list;
}

Json range(std::span<const double> values) {
  if (values.empty()) return nullptr;
  const auto [low, high] = std::ranges::minmax_element(values);
  return {{"smallest", *low}, {"largest", *high}};
}

Json sampling(const Plan& plan, const PlanNumbers& stated, std::uint64_t steps) {
  const Component& sampler = *plan.manifest->sampler.component;
  Json json{{"sampler", sampler.full_name()},
            {"means", plan.sampling_words()},
            {"expected_batch_size", range(std::span(stated.batch_size).first(steps))}};
  if (const auto price = price_of_allocation(plan)) json["with_allocation"] = to_json(*price);
  return json;
}

/// The Gaussian to which the charges of correlated releases compose: the cost of the charged steps
/// for the example with the highest cost (CorrelatedPlan::charges()).
Event correlated_event(const PlanNumbers& stated, std::uint64_t steps) {
  double squared_sensitivity = 0.0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(steps, stated.charges.size()); ++i) {
    const auto* part = std::get_if<GaussianEvent>(&stated.charges[i].cost.kind());
    if (part == nullptr) continue;
    squared_sensitivity += 1.0 / (part->noise_multiplier * part->noise_multiplier);
  }
  if (squared_sensitivity == 0.0) return Event::nothing();
  return Event::gaussian(1.0 / std::sqrt(squared_sensitivity));
}

/// Describes noise shared between steps: the noise of the new part of each release, and the number
/// of steps in which an example takes part.
Json correlated(const Plan& plan, const PlanNumbers& stated, std::uint64_t steps) {
  std::vector<double> own;
  for (const CorrelatedPart& part : plan.correlated->parts) {
    for (std::uint64_t step = part.first_step; step < steps; ++step)
      own.push_back(part.recipes.own_multiplier(step - part.first_step));
  }
  Json json = {{"own_noise_multiplier", range(own)},
               {"gradient_differences", plan.correlated->parts.size() > 1},
               {"window", plan.correlated->parts.front().recipes.window()},
               {"amplification", "none"}};
  if (const DrawnOrder* order = plan.public_order()) {
    const RhoOfExamples rho = plan.rho_of_examples();
    json["planned_steps_of_an_example"] = {{"smallest", rho.fewest_steps},
                                           {"largest", rho.most_steps}};
    if (order->separation) {
      json["max_participations"] = rho.most_steps;
      json["min_separation"] = order->separation->min_separation;
    }
  } else {
    json["amplification"] = "cycles";
    json["amplified_noise_multiplier"] =
        range(std::span(plan.correlated->multipliers).first(steps));
    json["cycle"] = sampling_law(stated.charges, 0).steps;
  }
  if (!plan.optimized.empty()) json["coefficients"] = plan.optimized;
  return json;
}

/// The mu of the run, rounded up, if all its charges are for Gaussian releases, which compose to a
/// single mu-GDP release (Dong, Roth and Su 2022, Corollary 2); under replace_one, mu is twice as
/// large. Nothing with fed_avg, or if sampling, or noise that is chosen during the run, gives the
/// run a different trade-off.
std::optional<double> gaussian_mu(const Plan& plan, const PlanNumbers& stated,
                                  std::uint64_t steps) {
  const bool is_of_one_client = plan.federated && !plan.federated->at_server;
  if (plan.manifest->noise_off || plan.noise_adapts || is_of_one_client) return std::nullopt;
  double squared = 0.0;
  const auto all_of = [&squared](std::span<const Charge> charges) {
    for (const Charge& charge : charges) {
      for (const CountedEvent& one : flatten(charge.cost)) {
        const auto* part = std::get_if<GaussianEvent>(&one.event.kind());
        if (part == nullptr) return false;
        squared +=
            static_cast<double>(one.count) / (part->noise_multiplier * part->noise_multiplier);
      }
    }
    return true;
  };
  const std::span<const Charge> charges(stated.charges);
  if (!all_of(stated.beside) ||
      !all_of(charges.first(std::min<std::size_t>(steps, charges.size()))))
    return std::nullopt;
  if (!(squared > 0.0) || !std::isfinite(squared)) return std::nullopt;
  return sensitivity_of_unit_bound(plan.manifest->adjacency) * std::sqrt(squared) * (1.0 + 1e-9);
}

/// The event for which the steps were charged, in the vocabulary of the accountants.
std::string charged_as(const Plan& plan, const PlanNumbers& stated, std::uint64_t steps) {
  std::vector<Event> costs;
  const bool is_one = plan.public_order() != nullptr;
  if (is_one && stated.beside.empty()) return describe(correlated_event(stated, steps));
  for (const Charge& charge : stated.beside) costs.push_back(charge.cost);
  if (is_one) {
    costs.push_back(correlated_event(stated, steps));
    return describe(compose_runs(costs));
  }
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(steps, stated.charges.size()); ++i) {
    costs.push_back(stated.charges[i].cost);
  }
  return describe(compose_runs(costs));
}

/// The measurements that adaptive noise followed, and the ledger's total after the run.
Json adaptive_noise(const Plan& plan, const Outcome& outcome) {
  const AdaptiveNoisePlan& adapts = *plan.noise_adapts;
  Json json{{"schedule", plan.manifest->noise_multiplier.component->full_name()},
            {"measured", to_text(adapts.measurement.what)},
            {"every", adapts.measurement.every},
            {"spent_epsilon", nullptr},
            {"charged_checks", nullptr}};
  if (adapts.is_charged()) {
    json["loss_bound"] = adapts.measurement.loss_bound;
    json["check_noise_multiplier"] = adapts.measurement.noise_multiplier;
  }
  if (outcome.noise) {
    json["spent_epsilon"] = json_number(outcome.noise->spent_epsilon);
    json["charged_checks"] = outcome.noise->checks.size();
  }
  return json;
}

Json mechanism(const Plan& plan, const Outcome& outcome, const PlanNumbers& stated,
               std::uint64_t steps) {
  const Manifest& manifest = *plan.manifest;
  Json json{{"aggregator", manifest.aggregator.component->full_name()},
            {"clipping", manifest.clipping.component->full_name()},
            {"noise_multiplier", range(std::span(stated.noise_multiplier).first(steps))},
            {"adaptive_clip_norm", plan.clip_norm_adapts()},
            {"charged_as", charged_as(plan, stated, steps)}};
  if (plan.setting->scales_coordinates) json["scales_coordinates"] = true;
  if (plan.correlated && !manifest.noise_off) json["correlated"] = correlated(plan, stated, steps);
  if (plan.noise_adapts) {
    json["adaptive_noise"] = adaptive_noise(plan, outcome);
    // Before the run has ended, only the first step's noise is known, and there are no charges yet.
    if (!outcome.noise) {
      json["noise_multiplier"] = range(std::span(stated.noise_multiplier).first(1));
      json["charged_as"] = "each step by its own noise";
    }
  }
  if (!plan.clip_norm_adapts()) {
    json["clip_norm"] = range(std::span(stated.clip_norm).first(steps));
  } else {
    json["first_clip_norm"] = stated.clip_norm.front();
  }
  return json;
}

Json answer(const PrivacyAnswer& epsilon) {
  return {{"epsilon", json_number(epsilon.value)},
          {"lower", epsilon.lower ? json_number(*epsilon.lower) : Json(nullptr)},
          {"bound", to_text(epsilon.bound)},
          {"note", epsilon.note}};
}

/// The other accountants' answers from before the run, for the steps that the budget pays for; with
/// clients, each answer is for the client that costs most by that accountant.
Json also(const PlanNumbers& stated) {
  Json list = Json::array();
  for (const AccountantReport& report : std::span(stated.accountants).subspan(1)) {
    Json json = answer(report.epsilon);
    json["accountant"] = report.name;
    json["steps"] = report.steps;
    list.push_back(std::move(json));
  }
  return list;
}

Json unaccounted(const Plan& plan) {
  Json list = Json::array();
  for (const Unaccounted& item : plan.unaccounted) {
    Json json{{"what", item.what},
              {"reaches", item.reach == Reach::shown_values ? "shown_values" : "model"}};
    if (!item.why.empty()) json["because"] = item.why;
    list.push_back(std::move(json));
  }
  return list;
}

/// The weights from which training begins, who vouches for them, and the layers that keep them.
Json initial_weights(const Plan& plan) {
  const Setting& setting = *plan.setting;
  Json json = to_json(*setting.weights);
  json["is"] = to_text(claim_of(*plan.manifest, *setting.weights));
  json["frozen"] = Json::array();
  const auto is_trained = [&setting](const ParameterBlock& block) {
    const auto& trained = setting.lora->tensors;
    return std::ranges::any_of(
        trained, [&](const TrainedTensor& tensor) { return tensor.name == block.name; });
  };
  for (const ParameterBlock& block : parameter_blocks(setting.whole)) {
    if (block.offset < setting.frozen_parameters) {
      json["frozen"].push_back(block.name);
    } else if (setting.lora && !plan.manifest->lora && !is_trained(block)) {
      json["frozen_behind"].push_back(block.name);
    }
  }
  return json;
}

/// The tensors after the frozen layers that are adapted or trained.
Json adapters(const Setting& setting, const Lora& wish) {
  Json json{{"rank", wish.rank},
            {"alpha", wish.alpha},
            {"adapted", Json::array()},
            {"trained", Json::array()}};
  for (const TrainedTensor& tensor : setting.lora->tensors)
    json[tensor.rank == 0 ? "trained" : "adapted"].push_back(tensor.name);
  return json;
}

/// Describes the participants of a federated run, and who adds the noise.
Json federated(const Plan& plan, const PlanNumbers& stated) {
  const Federated& wish = *plan.manifest->federated;
  return {{"clients", wish.clients},
          {"rounds", wish.rounds},
          {"aggregation", to_text(wish.aggregation)},
          {"noise_is_added_by", plan.federated->at_server ? "server" : "clients"},
          {"partition", wish.partition.component->full_name()},
          {"participation", wish.participation.component->full_name()},
          {"local_iterations", wish.local_iterations.component->full_name()},
          {"adaptive", plan.federated->is_adaptive()},
          {"estimates", plan.federated->estimates ? Json(to_text(wish.estimates)) : Json("none")},
          {"charged_estimates", stated.beside.size()}};
}

/// The kind of numbers in contributions, sums and noise, which matters because attacks on low-order
/// digits need floating point.
std::string_view arithmetic(const PlanNumbers& stated) {
  if (stated.charges.empty()) return "no_noise";
  return stated.arithmetic == Arithmetic::exact ? "exact" : "floating_point";
}

/// Whether a plugin is in a directory where only the build or installation of this program puts
/// plugins. Like a test record, this is a note, not a proof: anyone who can write there can also
/// write records.
bool is_built_in(const PluginIdentity& plugin) {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown) return false;
  const auto own = program.parent_path().parent_path() / "lib/privgrad/plugins/";
  return plugin.file.starts_with(own.string());
}

/// Whether there is a record that this exact plugin file passed its tests. "built_in" means that
/// there is no record because the program was built without its tests.
Json tested(const Manifest& manifest, const PluginIdentity& plugin) {
  if (is_allowed_by_hash(manifest.allowed_plugins, plugin)) return "allowed";
  if (!plugin.is_tested() && plugin.record_problem.empty() && is_built_in(plugin))
    return "built_in";
  return plugin.is_tested();
}

Json plugins(const Plan& plan) {
  std::set<std::string> seen;
  Json list = Json::array();
  const auto add_all = [&](const Manifest& manifest) {
    for (const auto& [plugin, use] : plugins_of(manifest)) {
      if (!seen.insert(plugin->name).second) continue;
      list.push_back({{"name", plugin->name},
                      {"version", plugin->version},
                      {"sha256", plugin->sha256},
                      {"tested", tested(*plan.manifest, *plugin)}});
    }
  };
  add_all(*plan.manifest);
  // The plan's manifest describes the server; clients have their own samplers and optimizers.
  if (plan.federated && plan.federated->at_server) add_all(plan.federated->local_manifest);
  return list;
}

}  // namespace

Json privacy_statement(const Plan& plan, const Outcome& outcome) {
  const Manifest& manifest = *plan.manifest;
  const PlanNumbers stated = outcome.stated(plan);
  const std::uint64_t steps = manifest.noise_off ? outcome.steps : outcome.paid.accounted;
  Json json = answer(outcome.epsilon);
  json["statement"] = 1;
  json["name"] = manifest.name;
  if (!outcome.date.empty()) json["date"] = outcome.date;
  json["status"] = to_text(outcome.status);
  json["steps"] = outcome.steps;
  json["charged_steps"] = manifest.noise_off ? 0 : outcome.paid.charged;
  json["accounted_steps"] = manifest.noise_off ? 0 : outcome.paid.accounted;
  json["planned_steps"] = plan.steps();
  json["noise"] = !manifest.noise_off;
  json["delta"] = manifest.target_delta;
  json["target_epsilon"] =
      manifest.target_epsilon && !manifest.noise_off ? Json(*manifest.target_epsilon) : nullptr;
  json["accountant"] = stated.accountants.front().name;
  if (manifest.accountant.certifier != nullptr)
    json["proved_by"] = name_of_prover(manifest.accountant);
  json["also"] = also(stated);
  json["membership_test"] = manifest.noise_off ? Json() : membership_test(plan, outcome);
  if (const auto mu = gaussian_mu(plan, stated, steps)) json["gaussian_mu"] = *mu;
  if (const Value* deployment = manifest.resolved.find("deployment"))
    json["deployment"] = value_to_json(*deployment);
  json["setting"] = plan.federated ? "federated" : "central";
  if (plan.federated) json["federated"] = federated(plan, stated);
  json["unit"] = to_text(plan.unit);
  json["adjacency"] = to_text(manifest.adjacency);
  json["adjacency_means"] = adjacency_means(
      manifest.adjacency, plan.unit, manifest.federated && manifest.federated->shards_are_given);
  json["dataset_size"] = plan.dataset_size;
  json["dataset_size_is"] = size_provenance(plan);
  json["sampling"] = sampling(plan, stated, steps);
  json["mechanism"] = mechanism(plan, outcome, stated, steps);
  if (!stated.statistics.empty()) json["statistics"] = statistics(plan, stated, outcome.counts);
  if (stated.report) json["reported"] = {{"train_accuracy", to_json(*stated.report)}};
  json["released"] = "all_iterates";
  json["tuning"] = "not_included";
  if (plan.account) json["account"] = to_json(*plan.account);
  if (const auto& altered = manifest.augmentation) {
    json["augmentation"] = {{"copies", altered->copies}, {"kinds", Json::array()}};
    if (altered->flip) json["augmentation"]["kinds"].push_back("flip");
    if (altered->crop) json["augmentation"]["kinds"].push_back("crop");
  }
  if (plan.setting->weights) json["initial_weights"] = initial_weights(plan);
  if (manifest.lora) json["lora"] = adapters(*plan.setting, *manifest.lora);
  json["unaccounted"] = unaccounted(plan);
  json["declared"] = to_json(declared_facts(plan));
  json["remarks"] = remarks(plan, outcome.epsilon.value);
  json["test_rows"] = !plan.setting->info.has_test_split ? "none"
                      : manifest.test_is_public          ? "declared_public"
                                                         : "private";
  json["randomness"] = manifest.seed ? "seed" : "operating_system";
  json["reproducible"] = manifest.seed.has_value();
  json["arithmetic"] = arithmetic(stated);
  json["floating_point"] = floating_point_json(plan);
  json["data_commitment"] = outcome.data.value ? Json(*outcome.data.value) : Json(nullptr);
  if (!outcome.data.why_not.empty()) json["no_data_commitment"] = outcome.data.why_not;
  json["mode"] = manifest.mode == Mode::release ? "release" : "research";
  return with_versions(
      std::move(json),
      {{"privgrad", PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
                        PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH)},
       {"plugins", plugins(plan)}});
}

Json with_versions(Json statement, const Json& versions) {
  statement["versions"] = versions;
  statement["stain"] = statement_stain(statement);
  statement["lead"] = lead_prose(statement);
  statement["short"] = short_statement(statement);
  statement["prose"] = statement_prose(statement);
  return statement;
}

}  // namespace privgrad::core
