#include "privgrad/plan/remarks.hpp"

#include <cmath>
#include <cstdint>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/influence_facts.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// With this epsilon, one unit may change the probability of an outcome by a factor of e^20, some
/// 485 million, so the bound on an attacker's accuracy is 1 to eight digits.
constexpr double kLargeEpsilon = 20.0;

/// If local iterations follow the smallest budget, a client whose budget pays for no more steps
/// than there are rounds reduces the local iterations of all clients to 1.
std::optional<std::string> slowed_by_one(const Plan& plan) {
  if (!plan.federated || !plan.federated->is_adaptive()) return std::nullopt;
  const Federated& wish = *plan.manifest->federated;
  const FederatedPlan& federated = *plan.federated;
  if (wish.paced_by_largest || wish.rounds < federated.affordable_steps ||
      wish.rounds >= federated.most_affordable_steps)
    return std::nullopt;
  return "the smallest budget of a client pays for " + std::to_string(federated.affordable_steps) +
         " local steps, the largest for " + std::to_string(federated.most_affordable_steps) +
         "; by the smallest, " + std::to_string(wish.rounds) +
         " rounds are enough for all, and nothing is left for " + wish.local_iterations.name() +
         " to choose; federated.paced_by: largest_budget lets the others continue";
}

/// Remarks on noise worse than uniform noise, for example because it was planned for other costs.
std::optional<std::string> worse_than_uniform(const PlanNumbers& plan) {
  constexpr double kRounding = 1e-9;
  const auto facts = influence_facts(plan);
  if (!facts || facts->weighted_noise <= facts->uniform * (1.0 + kRounding)) return std::nullopt;
  return "by its own influence the noise is worse than uniform noise of the same guarantee: the "
         "sum of influence times squared noise is " +
         short_number(facts->weighted_noise, 4) + ", and that of uniform noise (" +
         short_number(*plan.uniform_noise, 4) + ") is " + short_number(facts->uniform, 4) +
         "; use schedule uniform, or form: exact of schedule dynamic";
}

std::optional<std::string> steps_without_premise(const Plan& plan) {
  if (!plan.manifest->steps_minimise_bound || plan.costs_inverse_square || plan.charges.empty())
    return std::nullopt;
  return "steps: auto is the best number by a bound for full batches, whose steps cost 1/sigma^2; "
         "the steps of this plan cost something else, so the number may be a bad choice for them";
}

}  // namespace

std::optional<std::uint64_t> declared_units(const Manifest& manifest) {
  return unit_of(manifest.federated) == PrivacyUnit::client ? manifest.federated->clients
                                                            : declared_size(manifest);
}

std::uint64_t units(const Plan& plan) {
  return plan.unit == PrivacyUnit::client ? plan.manifest->federated->clients : plan.dataset_size;
}

std::optional<std::string> large_delta(const Manifest& manifest, std::uint64_t units) {
  const auto count = static_cast<double>(units);
  if (manifest.noise_off || manifest.target_delta * count < 1.0) return std::nullopt;
  const std::string unit(to_text(unit_of(manifest.federated)));
  return "delta is " + format_number(manifest.target_delta) + " for " + std::to_string(units) +
         " " + unit + "s, and publishing all of one " + unit +
         " drawn at random would keep such a guarantee; choose target_delta well below " +
         short_number(1.0 / count, 3);
}

std::vector<std::string> remarks(const Plan& plan, double epsilon) {
  std::vector<std::string> all;
  if (const auto delta = large_delta(*plan.manifest, units(plan))) {
    all.push_back(*delta +
                  (plan.manifest->allow_large_delta ? " (allow.large_delta accepts it)" : ""));
  }
  if (!plan.manifest->noise_off && std::isfinite(epsilon) && epsilon > kLargeEpsilon) {
    all.push_back("epsilon is " + short_bound(epsilon, 4) +
                  ", and above 20 a guarantee promises little: one " +
                  std::string(to_text(plan.unit)) +
                  " may make an outcome e^20 times as likely and more");
  }
  if (auto slowed = slowed_by_one(plan)) all.push_back(*std::move(slowed));
  if (auto worse = worse_than_uniform(plan)) all.push_back(*std::move(worse));
  if (auto steps = steps_without_premise(plan)) all.push_back(*std::move(steps));
  return all;
}

}  // namespace privgrad::core
