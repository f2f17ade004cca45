#include "privgrad/plan/engines.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/traits.hpp"
#include "privgrad/trust/sampling_watch.hpp"

namespace privgrad::core {
namespace {

using enum Trait;

/// A trait, and for each engine, in the order of kEngines, whether it supports the trait: 'y' or
/// '-'.
struct TraitFacts {
  Trait trait;
  std::string_view name;
  std::string_view engines;
  std::string_view meaning;
};

// host, streamed, device, processes, federated, shared_rounds, remote_clients
constexpr TraitFacts kTraits[] = {
    {correlated, trait::correlated, "yy-yyyy", "releases depend on sums or noise of earlier steps"},
    {gradient_differences, trait::gradient_differences, "yy-yyyy",
     "differences of gradients are released beside gradients"},
    {adaptive_clip_norm, trait::adaptive_clip_norm, "yy-yyyy",
     "the clip norm follows a count that is released in each step"},
    {coordinate_scaling, trait::coordinate_scaling, "yy-----",
     "the coordinates of gradients are scaled by what was released"},
    {adaptive_noise, trait::adaptive_noise, "yy-y---", "the noise follows what the run releases"},
    {adaptive_iterations, trait::adaptive_iterations, "-y--yyy",
     "the number of local steps follows what clients estimate"},
    {epoch_coins, trait::epoch_coins, "yyyyyy-",
     "each example draws its step of an epoch beforehand"},
    {released_statistics, trait::released_statistics, "yyyy---",
     "statistics of all rows are released before the first step"},
    {unreleased_statistics, trait::unreleased_statistics, "y-yyyy-",
     "transforms learn from all rows in memory, at no charge"},
    {no_noise, "no_noise", "yy--y--", "nothing is noised or charged"},
    {floating_sums, "floating_sums", "yy--y-y", "sums and noise in floating point"},
    {accuracy_report, "accuracy_report", "yyyy---", "the training accuracy is released"},
    {random_iterate, "random_iterate", "yyyy---", "the model before a random step is kept"},
    {moving_average, "moving_average", "yyyyyyy", "a moving average of the models is made"},
    {gradient_norms, "gradient_norms", "yyyyyy-", "the norm of the mean gradient is measured"},
    {augmentation, "augmentation", "yyyy---",
     "gradients are means over changed copies of an example"},
    {adapters, "adapters", "yyyyyyy", "low-rank adapters of the weights are trained"},
    {initial_weights, "initial_weights", "yyyyyy-", "training begins from weights in a file"},
    {account, "account", "yyyyyyy", "an account file pays for the run"},
    {streamed_rows, "streamed_rows", "-yyyyyy", "rows are read from a file as they are needed"},
    {clients, "clients", "-y--yyy", "the rows are shared out among clients"},
    {client_unit, "client_unit", "yy--yyy", "the steps sum up what whole clients contribute"},
    {private_estimates, "private_estimates", "-y--yyy", "noised estimates of clients' losses"},
    {unaccounted_estimates, "unaccounted_estimates", "-y--y--",
     "exact estimates of clients' losses"},
};

struct EngineFacts {
  Engine engine;
  std::string_view name;
  std::string_view meaning;
};

constexpr EngineFacts kEngines[] = {
    {Engine::host, "host", "one process, rows in memory"},
    {Engine::streamed, "streamed", "one process, rows read from a file"},
    {Engine::device, "device", "sums, noise and optimizer on a device"},
    {Engine::processes, "processes", "several processes that share each step"},
    {Engine::federated, "federated", "rounds of clients in one process"},
    {Engine::shared_rounds, "shared_rounds", "several processes that share the clients of a round"},
    {Engine::remote_clients, "remote_clients", "clients that are programs of their own"}};
static_assert(std::ranges::all_of(kTraits, [](const TraitFacts& facts) {
  return facts.engines.size() == std::size(kEngines);
}));

struct Refusal {
  Engine engine;
  Trait trait;
  std::string_view why;
};

constexpr std::string_view kExactAlone =
    "only sums of aggregator.arithmetic exact are the same on any number of processes";
constexpr std::string_view kWithoutNoise = "runs without noise are not shared among processes";

constexpr Refusal kRefusals[] = {
    {Engine::streamed, unreleased_statistics,
     "data.streaming avoids transforms that learn from all training rows in memory"},
    {Engine::processes, no_noise, kWithoutNoise},
    {Engine::processes, coordinate_scaling,
     "a clipping that scales the coordinates of gradients by what was released is not shared "
     "among processes"},
    {Engine::processes, floating_sums, kExactAlone},
    {Engine::federated, released_statistics,
     "a statistic is one sum over all rows, which no client of a federated run holds"},
    {Engine::federated, accuracy_report,
     "a report is one sum over all rows, which no client of a federated run holds"},
    {Engine::shared_rounds, no_noise, kWithoutNoise},
    {Engine::shared_rounds, floating_sums, kExactAlone},
    {Engine::shared_rounds, unaccounted_estimates,
     "federated.estimates: unaccounted are exact values of private examples, and stay where "
     "these are: they are not shared among processes"},
    {Engine::remote_clients, no_noise,
     "privacy.noise is off: what leaves a client would be exact, and no other party may see it"},
    {Engine::remote_clients, unaccounted_estimates,
     "federated.estimates: unaccounted are exact values of private examples, which stay with "
     "their client"},
    {Engine::remote_clients, initial_weights, "model.weights are not sent to clients"},
    {Engine::remote_clients, gradient_norms,
     "gradient_norm is measured on examples, and the server has none"},
    {Engine::remote_clients, unreleased_statistics,
     "a transform that learns from the examples of all clients would need somebody who has them"},
};

const EngineFacts& facts_of(Engine engine) {
  for (const EngineFacts& facts : kEngines) {
    if (facts.engine == engine) return facts;
  }
  throw ConfigError("engine outside its enumeration");
}

const TraitFacts& facts_of(Trait trait) {
  for (const TraitFacts& facts : kTraits) {
    if (facts.trait == trait) return facts;
  }
  throw ConfigError("trait outside its enumeration");
}

bool contains(const auto& list, const auto& value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace

std::string_view to_text(Trait trait) { return facts_of(trait).name; }
std::string_view to_text(Engine engine) { return facts_of(engine).name; }
std::string_view meaning_of(Trait trait) { return facts_of(trait).meaning; }
std::string_view meaning_of(Engine engine) { return facts_of(engine).meaning; }

std::span<const Trait> all_traits() {
  static const auto all = [] {
    std::array<Trait, std::size(kTraits)> traits{};
    for (std::size_t i = 0; i < traits.size(); ++i) traits[i] = kTraits[i].trait;
    return traits;
  }();
  return all;
}

std::span<const Engine> all_engines() {
  static const auto all = [] {
    std::vector<Engine> engines;
    for (const EngineFacts& facts : kEngines) engines.push_back(facts.engine);
    return engines;
  }();
  return all;
}

bool supports(Engine engine, Trait trait) {
  return facts_of(trait).engines[static_cast<std::size_t>(&facts_of(engine) - kEngines)] == 'y';
}

std::optional<std::string> why_not(Engine engine, Trait trait) {
  if (supports(engine, trait)) return std::nullopt;
  for (const Refusal& refusal : kRefusals) {
    if (refusal.engine == engine && refusal.trait == trait) return std::string(refusal.why);
  }
  return std::string(meaning_of(trait)) + ", which " + std::string(meaning_of(engine)) +
         (engine == Engine::host || engine == Engine::streamed ? " does not" : " do not") +
         " support";
}

std::string why_not(Engine engine, const Plan& plan) {
  const bool is_of_clients = engine == Engine::federated || engine == Engine::shared_rounds ||
                             engine == Engine::remote_clients;
  if (is_of_clients && !plan.federated) return "the manifest has no section federated";
  for (const PlannedTrait& planned : traits_of(plan)) {
    if (const auto why = why_not(engine, planned.trait)) {
      const std::string of =
          planned.of == nullptr ? "" : " of " + planned.of->where + " " + planned.of->name();
      return *why + " (trait " + std::string(to_text(planned.trait)) + of + ")";
    }
  }
  return "";
}

// ---- the traits of a plan

namespace {

/// Collects traits, and checks components against their declarations.
class Collector {
 public:
  void add(bool has, Trait trait) {
    if (has) found_.push_back({trait});
  }
  void add(bool has, Trait trait, const ComponentUse& of) {
    if (!has) return;
    if (!contains(of.component->factory.info.traits, to_text(trait))) {
      throw PluginError(of.component->full_name() + ": has the trait " +
                        std::string(to_text(trait)) + " (" + std::string(meaning_of(trait)) +
                        "), which it does not declare (ComponentInfo::traits)");
    }
    found_.push_back({trait, &of});
  }
  std::vector<PlannedTrait> take() { return std::move(found_); }

 private:
  std::vector<PlannedTrait> found_;
};

void add_statistics(Collector& traits, const Plan& plan) {
  for (std::size_t i = 0; i < plan.manifest->transforms.size(); ++i) {
    const Statistic statistic = plan.setting->statistics[i];
    const ComponentUse& use = plan.manifest->transforms[i];
    traits.add(statistic == Statistic::released, Trait::released_statistics, use);
    traits.add(statistic == Statistic::unaccounted || statistic == Statistic::declared_public,
               Trait::unreleased_statistics, use);
  }
  const auto is_count = [](const PlannedStatistic& one) {
    return one.of != StatisticOf::transform;
  };
  traits.add(std::ranges::any_of(plan.statistics, is_count), Trait::released_statistics);
}

void add_clients(Collector& traits, const Federated& wish, const FederatedPlan& federated) {
  traits.add(true, Trait::clients);
  traits.add(federated.is_adaptive(), Trait::adaptive_iterations, wish.local_iterations);
  if (!federated.estimates) return;
  traits.add(wish.estimates == EstimateMode::private_sums, Trait::private_estimates);
  traits.add(wish.estimates == EstimateMode::unaccounted, Trait::unaccounted_estimates);
}

}  // namespace

std::vector<PlannedTrait> traits_of(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  Collector traits;
  traits.add(plan.correlated != nullptr, Trait::correlated, manifest.aggregator);
  traits.add(plan.correlated && plan.correlated->parts.size() > 1, Trait::gradient_differences,
             manifest.aggregator);
  traits.add(plan.clip_norm_adapts(), Trait::adaptive_clip_norm, manifest.clipping);
  traits.add(plan.setting->scales_coordinates, Trait::coordinate_scaling, manifest.clipping);
  traits.add(plan.noise_adapts.has_value(), Trait::adaptive_noise, manifest.noise_multiplier);
  traits.add(draw_epochs(plan.charges), Trait::epoch_coins, manifest.sampler);
  add_statistics(traits, plan);
  traits.add(manifest.noise_off, Trait::no_noise);
  traits.add(plan.arithmetic == Arithmetic::floating, Trait::floating_sums);
  traits.add(plan.report.has_value(), Trait::accuracy_report);
  traits.add(manifest.random_iterate, Trait::random_iterate);
  traits.add(manifest.ema_decay.has_value(), Trait::moving_average);
  traits.add(manifest.gradient_norm, Trait::gradient_norms);
  traits.add(manifest.augmentation.has_value(), Trait::augmentation);
  traits.add(plan.setting->lora.has_value(), Trait::adapters);
  traits.add(manifest.weights.has_value(), Trait::initial_weights);
  traits.add(manifest.account.has_value(), Trait::account);
  traits.add(manifest.streaming.has_value(), Trait::streamed_rows);
  traits.add(plan.unit == PrivacyUnit::client, Trait::client_unit);
  if (plan.federated) add_clients(traits, *manifest.federated, *plan.federated);
  return traits.take();
}

void check_traits_are_known(const Manifest& manifest) {
  const std::vector<std::string> known(trait::kAll.begin(), trait::kAll.end());
  for (const ComponentUse* use : components_of(manifest)) {
    for (const std::string& name : use->component->factory.info.traits) {
      if (contains(known, name)) continue;
      use->with_position([&] {
        throw ConfigError(use->name() + " declares the trait '" + name +
                          "', which no engine of this version knows" + did_you_mean(name, known));
      });
    }
  }
}

}  // namespace privgrad::core
