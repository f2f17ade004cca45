#include "privgrad/statement/statement.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
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
#include "privgrad/record/facts.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/statement/declared.hpp"
#include "privgrad/statement/membership.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "statement_prose.hpp"

namespace privgrad::core {
namespace {

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

/// Says how the statement's number of examples is known.
std::string_view size_provenance(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  if (plan.unit == PrivacyUnit::client) return "public";
  if (size_is_public(manifest)) return "public";
  if (manifest.size_noise) return "guess";
  return declared_size(manifest) ? "declared" : "read_from_the_data";
}

/// The planned statistics, with the counts that were released.
std::vector<StatisticFacts> statistics(const Plan& plan, const PlanNumbers& stated,
                                       const ReleasedCounts& counts) {
  std::vector<StatisticFacts> list = facts_of(stated.statistics);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const StatisticOf of = stated.statistics[i].of;
    if (of == StatisticOf::rows && counts.rows) list[i].value = *counts.rows;
    if (of != StatisticOf::classes) continue;
    list[i].largest_class_weight = plan.manifest->largest_class_weight;
    if (!counts.classes.empty()) list[i].value = counts.classes;
    list[i].class_weights = class_weights_of(plan, counts);
  }
  return list;
}

std::optional<Range<double>> range(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::ranges::minmax_element(values);
  return Range<double>{*low, *high};
}

/// The Gaussian release to which the charges of the first `steps` correlated releases compose:
/// their cost for the costliest example (CorrelatedPlan::charges()).
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

CorrelatedNoise correlated(const Plan& plan, const PlanNumbers& stated, std::uint64_t steps) {
  std::vector<double> own;
  for (const CorrelatedPart& part : plan.correlated->parts) {
    for (std::uint64_t step = part.first_step; step < steps; ++step)
      own.push_back(part.recipes.own_multiplier(step - part.first_step));
  }
  CorrelatedNoise facts{.own_noise_multiplier = range(own),
                        .gradient_differences = plan.correlated->parts.size() > 1,
                        .window = plan.correlated->parts.front().recipes.window(),
                        .coefficients = plan.optimized};
  if (const DrawnOrder* order = plan.public_order()) {
    const auto [fewest_steps, most_steps] = plan.rho_of_examples().steps_of_an_example;
    facts.amplification = "none";
    facts.planned_steps_of_an_example = {fewest_steps, most_steps};
    if (order->separation) {
      facts.max_participations = most_steps;
      facts.min_separation = order->separation->min_separation;
    }
  } else {
    facts.amplification = "cycles";
    facts.amplified_noise_multiplier = range(std::span(plan.correlated->multipliers).first(steps));
    facts.cycle = sampling_law(stated.charges, 0).steps;
  }
  return facts;
}

/// The mu for which the run is mu-GDP, rounded up, if all charges are for Gaussian releases: they
/// compose to one Gaussian release (Dong, Roth and Su 2022, Corollary 2), and under replace_one mu
/// is doubled. Nothing with fed_avg, or if sampling or noise chosen during the run gives the run a
/// different trade-off.
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

/// Describes the event for which the first `steps` steps and the other releases were charged.
std::string charged_as(const DrawnOrder* order, const PlanNumbers& stated, std::uint64_t steps) {
  std::vector<Event> costs;
  const bool is_one = order != nullptr;
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

NoiseFollows adaptive_noise(const Plan& plan, const Outcome& outcome) {
  const Measurement& measurement = plan.noise_adapts->measurement;
  NoiseFollows facts{.schedule = plan.manifest->noise_multiplier.component->full_name(),
                     .measured = std::string(to_text(measurement.what)),
                     .every = measurement.every};
  if (plan.noise_adapts->is_charged()) {
    facts.loss_bound = measurement.loss_bound;
    facts.check_noise_multiplier = measurement.noise_multiplier;
  }
  if (outcome.noise) {
    facts.spent_epsilon = outcome.noise->spent_epsilon;
    facts.charged_checks = outcome.noise->checks.size();
  }
  return facts;
}

MechanismFacts mechanism(const Plan& plan, const Outcome& outcome, const PlanNumbers& stated,
                         std::uint64_t steps) {
  const Manifest& manifest = *plan.manifest;
  MechanismFacts facts{.aggregator = manifest.aggregator.component->full_name(),
                       .clipping = manifest.clipping.component->full_name(),
                       .charged_as = charged_as(plan.public_order(), stated, steps),
                       .noise_multiplier = range(std::span(stated.noise_multiplier).first(steps)),
                       .adaptive_clip_norm = plan.clip_norm_adapts()};
  if (plan.setting->scales_coordinates) facts.scales_coordinates = true;
  if (plan.correlated && !manifest.noise_off) facts.correlated = correlated(plan, stated, steps);
  if (plan.noise_adapts) {
    facts.adaptive_noise = adaptive_noise(plan, outcome);
    // Before the run has ended, only the first step's noise is known, and there are no charges yet.
    if (!outcome.noise) {
      facts.noise_multiplier = range(std::span(stated.noise_multiplier).first(1));
      facts.charged_as = "each step by its own noise";
    }
  }
  if (!plan.clip_norm_adapts()) {
    facts.clip_norm = range(std::span(stated.clip_norm).first(steps));
  } else {
    facts.first_clip_norm = stated.clip_norm.front();
  }
  return facts;
}

/// The other accountants' answers about the plan, for the steps that the budget pays for. With
/// clients, each answer is for the client that costs most by the answering accountant.
std::vector<AnswerOfOther> also(const PlanNumbers& stated) {
  std::vector<AnswerOfOther> list;
  for (const AccountantReport& report : std::span(stated.accountants).subspan(1))
    list.push_back({facts_of(report.epsilon), report.name, report.steps});
  return list;
}

std::vector<UnaccountedFacts> unaccounted(const std::vector<Unaccounted>& items) {
  std::vector<UnaccountedFacts> list;
  for (const Unaccounted& item : items)
    list.push_back(
        {item.what, item.reach == Reach::shown_values ? "shown_values" : "model", item.why});
  return list;
}

WeightsStated initial_weights(const Plan& plan) {
  const Setting& setting = *plan.setting;
  WeightsStated facts{
      {*setting.weights, Text(to_text(claim_of(*plan.manifest, *setting.weights)))}};
  const auto is_trained = [&setting](const ParameterBlock& block) {
    const auto& trained = setting.lora->tensors;
    return std::ranges::any_of(
        trained, [&](const TrainedTensor& tensor) { return tensor.name == block.name; });
  };
  for (const ParameterBlock& block : parameter_blocks(setting.whole)) {
    if (block.offset < setting.frozen_parameters) {
      facts.frozen.push_back(block.name);
    } else if (setting.lora && !plan.manifest->lora && !is_trained(block)) {
      facts.frozen_behind.push_back(block.name);
    }
  }
  return facts;
}

AdaptersFacts adapters(const Setting& setting, const Lora& wish) {
  AdaptersFacts facts{wish.rank, wish.alpha};
  for (const TrainedTensor& tensor : setting.lora->tensors)
    (tensor.rank == 0 ? facts.trained : facts.adapted).push_back(tensor.name);
  return facts;
}

FederationFacts federated(const Federated& wish, const FederatedPlan& plan,
                          const PlanNumbers& stated) {
  return {.clients = wish.clients,
          .rounds = wish.rounds,
          .charged_estimates = stated.beside.size(),
          .aggregation = std::string(to_text(wish.aggregation)),
          .noise_is_added_by = plan.at_server ? "server" : "clients",
          .partition = wish.partition.component->full_name(),
          .participation = wish.participation.component->full_name(),
          .local_iterations = wish.local_iterations.component->full_name(),
          .estimates = std::string(plan.estimates ? to_text(wish.estimates) : "none"),
          .adaptive = plan.is_adaptive()};
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

Tested tested(const std::vector<std::string>& allowed, const PluginIdentity& plugin) {
  if (is_allowed_by_hash(allowed, plugin)) return "allowed";
  if (!plugin.is_tested() && plugin.record_problem.empty() && is_built_in(plugin))
    return "built_in";
  return plugin.is_tested();
}

std::vector<PluginFacts> plugins(const Plan& plan) {
  std::set<std::string> seen;
  std::vector<PluginFacts> list;
  const auto add_all = [&](const Manifest& manifest) {
    for (const auto& [plugin, use] : plugins_of(manifest)) {
      if (!seen.insert(plugin->name).second) continue;
      list.push_back({plugin->name, plugin->version, plugin->sha256,
                      tested(plan.manifest->allowed_plugins, *plugin)});
    }
  };
  add_all(*plan.manifest);
  // The plan's manifest describes the server; clients have their own samplers and optimizers.
  if (plan.federated && plan.federated->at_server) add_all(plan.federated->local_manifest);
  return list;
}

}  // namespace

Statement privacy_statement(const Plan& plan, const Outcome& outcome) {
  const Manifest& manifest = *plan.manifest;
  const bool noise = !manifest.noise_off;
  const PlanNumbers stated = outcome.stated(plan);
  const std::uint64_t steps = noise ? outcome.paid.accounted : outcome.steps;
  Statement facts{facts_of(outcome.epsilon)};
  facts.statement = 1;
  facts.name = manifest.name;
  facts.date = outcome.date;
  facts.status = to_text(outcome.status);
  facts.steps = outcome.steps;
  facts.charged_steps = noise ? outcome.paid.charged : 0;
  facts.accounted_steps = noise ? outcome.paid.accounted : 0;
  facts.planned_steps = plan.steps();
  facts.noise = noise;
  facts.delta = manifest.target_delta;
  if (noise) facts.target_epsilon = manifest.target_epsilon;
  facts.accountant = stated.accountants.front().name;
  if (manifest.accountant.certifier != nullptr)
    facts.proved_by = name_of_prover(manifest.accountant);
  facts.also = also(stated);
  if (noise) facts.membership_test = membership_test(plan, outcome);
  facts.gaussian_mu = gaussian_mu(plan, stated, steps);
  if (const Value* deployment = manifest.resolved.find("deployment"))
    facts.deployment = facts_in<Deployment>(value_to_json(*deployment), "deployment");
  facts.setting = plan.federated ? "federated" : "central";
  if (plan.federated) facts.federated = federated(*manifest.federated, *plan.federated, stated);
  facts.unit = to_text(plan.unit);
  facts.adjacency = to_text(manifest.adjacency);
  facts.adjacency_means = adjacency_means(
      manifest.adjacency, plan.unit, manifest.federated && manifest.federated->shards_are_given);
  facts.dataset_size = plan.dataset_size;
  facts.dataset_size_is = size_provenance(plan);
  facts.sampling = {manifest.sampler.component->full_name(), plan.sampling_words(),
                    range(std::span(stated.batch_size).first(steps)), price_of_allocation(plan)};
  facts.mechanism = mechanism(plan, outcome, stated, steps);
  facts.statistics = statistics(plan, stated, outcome.counts);
  if (stated.report) facts.reported = {facts_of(*stated.report)};
  facts.released = "all_iterates";
  facts.tuning = "not_included";
  facts.account = plan.account;
  if (const auto& altered = manifest.augmentation) {
    facts.augmentation = {altered->copies};
    if (altered->flip) facts.augmentation->kinds.emplace_back("flip");
    if (altered->crop) facts.augmentation->kinds.emplace_back("crop");
  }
  if (plan.setting->weights) facts.initial_weights = initial_weights(plan);
  if (manifest.lora) facts.lora = adapters(*plan.setting, *manifest.lora);
  facts.unaccounted = unaccounted(plan.unaccounted);
  facts.declared = declared_facts(plan);
  facts.remarks = remarks(plan, outcome.epsilon.value);
  facts.test_rows = !plan.setting->info.has_test_split ? "none"
                    : manifest.test_is_public          ? "declared_public"
                                                       : "private";
  facts.randomness = manifest.seed ? "seed" : "operating_system";
  facts.reproducible = manifest.seed.has_value();
  facts.arithmetic = arithmetic(stated);
  if (plan.covers_bits()) facts.floating_point = "exact";
  facts.data_commitment = outcome.data.value;
  facts.no_data_commitment = outcome.data.why_not;
  facts.mode = mode_name(manifest.mode);
  facts.versions = {PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
                        PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH),
                    plugins(plan)};
  return with_words(std::move(facts));
}

Statement with_words(Statement facts) {
  facts.stain = statement_stain(facts);
  facts.lead = lead_prose(facts);
  facts.short_ = short_statement(facts);
  facts.prose = statement_prose(facts);
  return facts;
}

}  // namespace privgrad::core
