#include "guard.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/least_cost.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

bool is_epoch(const Event& cost) {
  const auto sampling = sampling_of(cost);
  return sampling && sampling->draw == Sampling::Draw::epoch;
}

/// Whether an epoch of random allocation is charged as part of a larger event.
bool hides_epoch(const Event& cost) {
  const auto has = [](const Event& part) { return is_epoch(part) || hides_epoch(part); };
  if (const auto* all = std::get_if<ComposedEvent>(&cost.kind()))
    return std::ranges::any_of(all->of, has);
  if (const auto* many = std::get_if<SelfComposedEvent>(&cost.kind())) return has(*many->of);
  return false;
}

/// Whether the event charged for several steps together covers each of them. A step with more noise
/// than the event is covered, because its release is the event's release with additional noise.
bool covers(const Event& paid, std::span<const Charge> steps) {
  const auto* own = std::get_if<GaussianEvent>(&paid.kind());
  return std::ranges::all_of(steps, [&](const Charge& step) {
    const auto* noise = std::get_if<GaussianEvent>(&step.release.kind());
    return step.release == paid || step.release.is_nothing() ||
           (own != nullptr && noise != nullptr && noise->noise_multiplier >= own->noise_multiplier);
  });
}

/// Whether the steps that are charged together form a whole epoch or cycle. Only the run's last
/// epoch or cycle may be shorter; in any other, examples would draw from fewer steps than are
/// charged.
bool is_whole(const SamplingLaw& law, std::size_t charges) {
  const std::uint64_t steps = law.last - law.first + 1;
  return steps == law.steps || (law.last + 1 == charges && steps < law.steps);
}

/// Checks cycles of steps. A poisson_sampled event that pays for several steps pays for a cycle
/// (Sampler::charges()). If the first step is in a cycle, all steps must be: any other step could
/// use any rows, but the cost of cycles relies on a distance between the steps of a row.
void check_cycles(const std::string& sampler, std::span<const Charge> charges,
                  Adjacency adjacency) {
  const SamplingLaw first = charges.empty() ? SamplingLaw{} : sampling_law(charges, 0);
  const bool in_cycles = first.kind == SamplingLaw::Kind::poisson && first.steps > 1;
  for (const Charge& charge : charges) {
    const auto sampling = sampling_of(charge.cost);
    if (!sampling || sampling->draw != Sampling::Draw::coins) {
      if (!in_cycles || charge.cost.is_nothing()) continue;
      throw PluginError(sampler + ": broke its contract: charges cycles, and step " +
                        std::to_string(charge.step) + " as no cycle");
    }
    const SamplingLaw law = sampling_law(charges, charge.step);
    if (law.steps > 1 && adjacency == Adjacency::add_or_remove_one) {
      throw PrivacyError(sampler +
                         ": draws rows in cycles by their numbers, which change under "
                         "add_or_remove_one where one is missing; use adjacency zero_out or "
                         "replace_one, or sampler poisson");
    }
    const auto steps = charges.subspan(law.first, law.last - law.first + 1);
    if (charge.step % law.steps == 0 && is_whole(law, charges.size()) &&
        (law.steps == 1 || covers(*sampling->of, steps)))
      continue;
    throw PluginError(
        sampler + ": broke its contract: the cycle that is charged at step " +
        std::to_string(charge.step) +
        " has another length than the first, or a step with less noise than is charged");
  }
}

/// Checks that each epoch of random allocation is charged separately, at its first step: the run
/// then keeps the epoch's coins, and tests the batches against the charge (SamplingWatch).
void check_epochs(const std::string& sampler, std::span<const Charge> charges) {
  for (const Charge& charge : charges) {
    if (hides_epoch(charge.cost)) {
      throw PrivacyError(sampler +
                         ": charges random_allocation together with others; batches can be checked "
                         "against it only where it is charged alone");
    }
    if (!is_epoch(charge.cost)) continue;
    const SamplingLaw law = sampling_law(charges, charge.step);
    if (is_whole(law, charges.size()) &&
        covers(*sampling_of(charge.cost)->of, charges.subspan(law.first, law.last - law.first + 1)))
      continue;
    throw PluginError(sampler + ": broke its contract: the epoch that is charged at step " +
                      std::to_string(charge.step) +
                      " has another number of steps, or more noise, than those that it pays for");
  }
}

/// Returns `accountant`, made from `use`, after it has composed all charges.
ComponentPtr<Accountant> accountant_after(ComponentPtr<Accountant> accountant,
                                          const ComponentUse& use, Adjacency adjacency,
                                          std::span<const Charge> beside,
                                          std::span<const Charge> charges) {
  const auto compose = [&](const Charge& charge) {
    if (charge.cost.is_nothing()) return;
    if (const auto why = accountant->refuses(charge.cost)) {
      throw PrivacyError(
          with_alternatives(*why, charge.cost, adjacency, *use.catalog, *use.component));
    }
    accountant->compose(charge.cost, 1);
  };
  use.with_position([&] {
    accountant->start(adjacency);
    for (const Charge& charge : beside) compose(charge);
    for (const Charge& charge : charges) compose(charge);
  });
  return accountant;
}

}  // namespace

std::vector<Charge> sampled_charges(const Manifest& manifest, const Sampler& sampler,
                                    std::span<const Event> releases, const std::string& what) {
  std::vector<Event> costs =
      manifest.sampler.with_position([&] { return sampler.charges(releases); });
  if (costs.size() != releases.size()) {
    throw PluginError(manifest.sampler.component->full_name() + ": gave " +
                      std::to_string(costs.size()) + " charges for " +
                      std::to_string(releases.size()) + " steps");
  }
  // The charges must bound the cost of every prefix, so the first release cannot be free.
  if (!costs.empty() && costs.front().is_nothing() && !releases.front().is_nothing()) {
    throw PluginError(manifest.sampler.component->full_name() +
                      ": broke its contract: charges nothing for the first release");
  }
  std::vector<Charge> charges;
  charges.reserve(costs.size());
  for (std::uint64_t i = 0; i < costs.size(); ++i)
    charges.push_back({i, releases[i], std::move(costs[i]), what});
  manifest.sampler.with_position([&] {
    const std::string& name = manifest.sampler.component->full_name();
    check_epochs(name, charges);
    check_cycles(name, charges, manifest.adjacency);
  });
  return charges;
}

PrivacyAnswer answer_of(const ComponentUse& accountant, const Manifest& manifest,
                        std::span<const Charge> beside, std::span<const Charge> charges) {
  const auto made = accountant_after(make_accountant(accountant), accountant, manifest.adjacency,
                                     beside, charges);
  PrivacyAnswer answer = checked(made->epsilon(manifest.target_delta), accountant.name());
  // An accountant's claim about its own error proves nothing, even if the claimed error is small.
  if (accountant.certifier != nullptr && answer.bound == BoundKind::exact)
    answer.bound = BoundKind::estimate;
  return answer;
}

PrivacyAnswer guard_answer(const Manifest& manifest, std::span<const Charge> beside,
                           std::span<const Charge> charges) {
  const ComponentUse& use = manifest.accountant;
  const auto accountant =
      accountant_after(make_guard(use), use, manifest.adjacency, beside, charges);
  return use.with_position(
      [&] { return checked_guard(accountant->epsilon(manifest.target_delta), use.name()); });
}

PrivacyAnswer guard_answer(const Manifest& manifest, const std::vector<Charge>& charges) {
  return guard_answer(manifest, {}, charges);
}

double calibrated_scale(const Manifest& manifest, const ChargesAtScale& charges_at, double target,
                        std::span<const Charge> beside, double noise) {
  constexpr double kOfOtherProcessors = 1e-10;
  target *= 1.0 - kOfOtherProcessors;
  const ComponentUse& use = manifest.accountant;
  const auto tried_at = [&](double scale) {
    if (manifest.on_trial) manifest.on_trial();
    return charges_at(scale);
  };
  const auto proved_at = [&](double scale) {
    return guard_answer(manifest, beside, tried_at(scale)).value;
  };
  const double least = noise > 0.0 ? exposing_noise(target) / noise : kLeastScale;
  const auto checked_scale = [&](double scale) {
    if (noise > 0.0 && scale <= least)
      use.with_position([&] { refuse_delta_that_pays(manifest.target_delta); });
    return scale;
  };
  if (use.certifier == nullptr) return checked_scale(smallest_scale(proved_at, target, least));
  const auto estimated_at = [&](double scale) {
    auto accountant = accountant_after(make_accountant(*use.component, use.params, nullptr), use,
                                       manifest.adjacency, beside, tried_at(scale));
    return use.with_position(
        [&] { return checked(accountant->epsilon(manifest.target_delta), use.name()).value; });
  };
  return checked_scale(proved_scale(estimated_at, proved_at, target, least));
}

void check_sampler_charges(const Manifest& manifest, std::uint64_t dataset_size,
                           std::span<const double> batch_size, std::span<const Charge> paid,
                           const PrivacyAnswer& epsilon) {
  LeastCost least(manifest.adjacency);
  for (std::size_t t = 0; t < paid.size(); ++t) {
    if (t > 0 && batch_size[t] == batch_size[t - 1] && paid[t].release == paid[t - 1].release) {
      continue;
    }
    const double share = std::min(1.0, batch_size[t] / static_cast<double>(dataset_size));
    least.compose(Event::poisson_sampled(share, paid[t].release), 1);
  }
  const double delta = least.delta(epsilon.value);
  if (!(delta > manifest.target_delta * (1.0 + 1e-6))) return;
  throw PluginError(manifest.sampler.component->full_name() +
                    ": broke its contract: by its charges the run is (" +
                    format_number(epsilon.value) + ", " + format_number(manifest.target_delta) +
                    ")-DP, and by its batch sizes one step alone has a delta of at least " +
                    format_number(delta));
}

}  // namespace privgrad::core
