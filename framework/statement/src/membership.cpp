#include "privgrad/statement/membership.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/plan/federated_plan.hpp"

namespace privgrad::core {
namespace {

/// The 1 - kWronglyAccused quantile of the normal distribution.
constexpr double kQuantile = 1.6448536269514722;

double below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// The approximate mu of the Gaussian mechanism with this epsilon and delta (Dong, Roth and Su
/// 2022, Corollary 1). It only chooses the epsilon for which a delta is then proved.
double about_mu(double epsilon, double delta) {
  double low = 0.0, high = 1e3;
  for (int i = 0; i < 80; ++i) {
    const double mu = 0.5 * (low + high);
    const double other = below(-0.5 * mu - epsilon / mu);
    const double reached =
        below(0.5 * mu - epsilon / mu) - (other > 0.0 ? std::exp(epsilon) * other : 0.0);
    (reached > delta ? high : low) = mu;
  }
  return high;
}

/// The epsilon whose line touches the trade-off of mu-GDP at kWronglyAccused, where the trade-off
/// has the slope -exp(mu kQuantile - mu^2 / 2). If this slope is flatter than -1, the line is the
/// one with the slope -exp(-epsilon).
double touching_epsilon(double mu) { return std::fabs(mu * kQuantile - 0.5 * mu * mu); }

/// The delta that the guard proves for the first `steps` steps and the releases besides steps.
/// Charges are composed one by one, as in the plan and the ledger.
PrivacyAnswer proved_delta(const Manifest& manifest, const PlanNumbers& numbers,
                           std::uint64_t steps, double epsilon) {
  const std::span<const Charge> all(numbers.charges);
  const auto guard = make_guard(manifest.accountant);
  guard->start(manifest.adjacency);
  for (const auto& charges : {std::span<const Charge>(numbers.beside),
                              all.first(std::min<std::size_t>(steps, all.size()))})
    for (const Charge& charge : charges)
      if (!(charge.cost == Event::nothing())) guard->compose(charge.cost, 1);
  return guard->delta(epsilon);
}

/// The delta that the guard proves for the run. For fed_avg it is the largest delta among the
/// clients, because the client with the largest epsilon at the target delta need not have the
/// largest delta at a different epsilon.
PrivacyAnswer proved_delta(const Plan& plan, const Outcome& outcome, double epsilon) {
  const Manifest& manifest = *plan.manifest;
  PrivacyAnswer largest =
      proved_delta(manifest, outcome.stated(plan), outcome.paid.accounted, epsilon);
  if (!plan.federated || plan.federated->at_server) return largest;
  const auto& clients = plan.federated->clients;
  // No client with the same plan was charged more than the client of the statement. Clients with
  // other plans may have been charged for all their steps.
  std::set<const Plan*> asked{clients[outcome.client.value_or(plan.federated->weakest)].plan.get()};
  for (const ClientPlan& client : clients) {
    if (!asked.insert(client.plan.get()).second) continue;
    PrivacyAnswer answer =
        proved_delta(manifest, *client.plan, client.plan->affordable_steps, epsilon);
    if (answer.bound == BoundKind::estimate) return answer;
    if (answer.value > largest.value) largest = std::move(answer);
  }
  return largest;
}

}  // namespace

double most_found(double wrongly, double epsilon, double delta) {
  // Exceeds the rounding errors of terms up to 1; with larger terms, the result is 1 anyway.
  constexpr double kRounding = 1e-14;
  const double by_accusing = std::exp(epsilon) * wrongly + delta;
  const double by_sparing = 1.0 - std::exp(-epsilon) * (1.0 - delta - wrongly);
  return std::min(1.0, std::min(by_accusing, by_sparing) + kRounding);
}

TestBound least_found(double wrongly, std::span<const ProvedPair> pairs) {
  TestBound least{wrongly, 1.0, pairs.front()};
  for (const ProvedPair& pair : pairs) {
    const double found = most_found(wrongly, pair.epsilon, pair.delta);
    if (found < least.found) least = {wrongly, found, pair};
  }
  return least;
}

double least_missed(const TestBound& bound) { return std::max(0.0, 1.0 - bound.found); }

MembershipTest membership_test(const Plan& plan, const Outcome& outcome) {
  const double epsilon = outcome.epsilon.value, delta = plan.manifest->target_delta;
  std::vector<ProvedPair> pairs{{epsilon, delta}};
  if (std::isfinite(epsilon) && epsilon > 0.0 && !plan.noise_adapts) {
    const double nearer = touching_epsilon(about_mu(epsilon, delta));
    try {
      const PrivacyAnswer answer = proved_delta(plan, outcome, nearer);
      if (answer.bound != BoundKind::estimate) pairs.push_back({nearer, answer.value});
      // the accountant has no delta there, so the stated point remains
    } catch (const NumericError&) {
    }
  }
  const TestBound least = least_found(kWronglyAccused, pairs);
  return {kWronglyAccused, least.found, finite(least.by.epsilon), least.by.delta};
}

}  // namespace privgrad::core
