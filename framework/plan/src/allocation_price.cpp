#include "privgrad/plan/allocation_price.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kMostNoises = 8;

/// The number of steps per epoch; 0 for samplers that price_of_allocation() does not price.
std::uint64_t steps_of_epoch(const PlanNumbers& plan) {
  const SamplingLaw law = sampling_law(plan.charges, 0);
  const bool has_epochs = law.kind == SamplingLaw::Kind::once;
  if (!has_epochs && law.kind != SamplingLaw::Kind::without_replacement) return 0;
  const double epoch = static_cast<double>(plan.dataset_size) / plan.batch_size.front();
  return static_cast<std::uint64_t>(has_epochs ? std::ceil(epoch) : std::round(epoch));
}

/// The smallest noise multiplier of the steps; nothing if a step's release is not a Gaussian.
std::optional<double> least_noise(std::span<const Charge> steps) {
  double least = std::numeric_limits<double>::infinity();
  for (const Charge& step : steps) {
    const auto* gaussian = std::get_if<GaussianEvent>(&step.release.kind());
    if (gaussian == nullptr) return std::nullopt;
    least = std::min(least, gaussian->noise_multiplier);
  }
  return least;
}

/// Replaces the noise multipliers of epochs by at most kMostNoises + 1 values, none above the value
/// that it replaces, because the accountant takes seconds for each different value.
void round_down(std::span<double> noises) {
  if (std::set<double>(noises.begin(), noises.end()).size() <= kMostNoises) return;
  const auto [least, most] = std::ranges::minmax_element(noises);
  const double begin = *least, part = std::log(*most / begin) / kMostNoises;
  for (double& noise : noises)
    noise = std::min(noise, begin * std::exp(part * std::floor(std::log(noise / begin) / part)));
}

/// The cost of the plan's releases in epochs of this many steps, with all other charges.
std::optional<Event> in_epochs(const PlanNumbers& plan, std::uint64_t epoch) {
  const auto steps = std::span<const Charge>(plan.charges).first(plan.affordable_steps);
  std::vector<double> noises;
  for (std::size_t begin = 0; begin < steps.size(); begin += epoch) {
    const auto noise =
        least_noise(steps.subspan(begin, std::min<std::size_t>(epoch, steps.size() - begin)));
    if (!noise) return std::nullopt;
    noises.push_back(*noise);
  }
  round_down(noises);
  std::vector<Event> costs;
  for (const Charge& charge : plan.beside) costs.push_back(charge.cost);
  for (const double noise : noises)
    costs.push_back(
        Event::random_allocation(static_cast<std::int64_t>(epoch), Event::gaussian(noise)));
  return compose_runs(costs);
}

}  // namespace

std::optional<AllocationPrice> price_of_allocation(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  if (manifest.noise_off || plan.federated || plan.correlated || plan.noise_adapts ||
      plan.affordable_steps == 0)
    return std::nullopt;
  AllocationPrice price{.steps_per_epoch = steps_of_epoch(plan)};
  if (price.steps_per_epoch < 2) return std::nullopt;
  const std::optional<Event> cost = in_epochs(plan, price.steps_per_epoch);
  if (!cost) return std::nullopt;
  const Adjacency adjacency =
      manifest.adjacency == Adjacency::replace_one ? Adjacency::zero_out : manifest.adjacency;
  price.adjacency = to_text(adjacency);
  try {
    const Component& pld = manifest.accountant.catalog->find<Accountant>("pld");
    const auto accountant = make_guard(
        pld, Params::make(pld.full_name(), pld.factory.info.params, Value::Object{}), nullptr);
    accountant->start(adjacency);
    if (accountant->refuses(*cost)) return std::nullopt;
    accountant->compose(*cost, 1);
    price.epsilon = finite(accountant->epsilon(manifest.target_delta).value);
  } catch (const ConfigError&) {  // the name is unknown or ambiguous
    return std::nullopt;
  }
  if (!price.epsilon) return std::nullopt;
  return price;
}

}  // namespace privgrad::core
