#include "privgrad/plan/components.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "correlated_steps.hpp"
#include "guard.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

void refuse_batches_above(std::uint64_t size, const std::vector<double>& batch_sizes) {
  const auto most = std::ranges::max_element(batch_sizes);
  if (*most <= static_cast<double>(size)) return;
  throw ConfigError("is " + format_number(*most) + " at step " +
                    std::to_string(most - batch_sizes.begin()) + ", allowed are at most the " +
                    std::to_string(size) + " training examples");
}

}  // namespace

Components make_components(const Manifest& manifest, std::span<const ParameterGroup> groups) {
  Components made;
  made.sampler = manifest.sampler.make<Sampler>();
  made.aggregator = manifest.aggregator.make<Aggregator>();
  made.optimizer = manifest.optimizer.make<Optimizer>();
  for (ComponentPtr<Clipping>* clipping : {&made.clipping, &made.public_clipping}) {
    *clipping = manifest.clipping.make<Clipping>();
    manifest.clipping.with_position([&] { (*clipping)->start(groups); });
  }
  made.adaptive_clip_norm = dynamic_cast<const AdaptiveClipNorm*>(made.public_clipping.get());
  made.scaling = dynamic_cast<CoordinateScaling*>(made.public_clipping.get());
  made.differences = dynamic_cast<UsesGradientDifferences*>(made.aggregator.get());
  made.order = dynamic_cast<PublicOrder*>(made.sampler.get());
  return made;
}

Components start_components(const Plan& plan) {
  Components made = make_components(*plan.manifest, plan.setting->groups);
  start_sampler(*plan.manifest, *made.sampler, plan.facts, plan.sampler_batch_size);
  std::vector<double> multipliers = plan.noise_multiplier;
  if (plan.manifest->noise_off) multipliers.assign(multipliers.size(), 1.0);
  if (!plan.optimized.empty()) made.aggregator->use(plan.optimized);
  start_aggregator(plan.manifest->aggregator, *made.aggregator, plan.facts, multipliers,
                   plan.clip_norm, plan.learning_rate);
  return made;
}

std::vector<Charge> independent_charges(const Manifest& manifest, const Components& made,
                                        std::uint64_t steps) {
  const std::vector<Event> releases =
      manifest.aggregator.with_position([&] { return release_events(*made.aggregator, steps); });
  return sampled_charges(manifest, *made.sampler, releases);
}

void check_charges(const Plan& plan, const Components& started) {
  if (plan.manifest->noise_off || plan.public_order() != nullptr) return;
  const Manifest& manifest = *plan.manifest;
  const std::vector<Charge> charges = plan.correlated
                                          ? amplified_charges(manifest, started, *plan.correlated)
                                          : independent_charges(manifest, started, plan.steps());
  for (std::size_t step = 0; step < charges.size(); ++step) {
    if (charges[step] == plan.charges[step]) continue;
    throw PluginError(manifest.sampler.component->full_name() + " or " +
                      manifest.aggregator.component->full_name() + ": step " +
                      std::to_string(step) +
                      " is charged differently than when it was planned; two instances with the "
                      "same parameters must agree");
  }
}

std::vector<double> start_sampler(const Manifest& manifest, Sampler& sampler, const RunFacts& facts,
                                  const std::vector<double>& batch_sizes) {
  if (!batch_sizes.empty()) {
    manifest.batch_size.with_position(
        [&] { refuse_batches_above(facts.dataset_size, batch_sizes); });
  }
  return manifest.sampler.with_position([&] {
    sampler.start({.dataset_size = facts.dataset_size,
                   .steps = facts.steps,
                   .adjacency = manifest.adjacency,
                   .batch_sizes = batch_sizes});
    std::vector<double> expected;
    for (std::uint64_t step = 0; step < facts.steps; ++step) {
      expected.push_back(sampler.expected_batch_size(step));
      if (batch_sizes.empty()) continue;
      // A sampler that supports only whole sizes may use the next smaller size.
      if (expected[step] <= batch_sizes[step] && expected[step] > batch_sizes[step] - 1.0) continue;
      throw ConfigError(manifest.sampler.name() +
                        " decides about its batch sizes itself and does not follow "
                        "schedules.batch_size; use poisson or fixed_size");
    }
    return expected;
  });
}

void start_aggregator(const ComponentUse& use, Aggregator& aggregator, const RunFacts& facts,
                      const std::vector<double>& noise_multiplier,
                      const std::vector<double>& clip_norm,
                      const std::vector<double>& learning_rate) {
  use.with_position([&] {
    aggregator.start({.steps = facts.steps,
                      .noise_multipliers = noise_multiplier,
                      .clip_norms = clip_norm,
                      .learning_rates = learning_rate,
                      .facts = facts});
  });
}

}  // namespace privgrad::core
