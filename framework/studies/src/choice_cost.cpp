#include "privgrad/studies/choice_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "privgrad/manifest/utf8.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"

namespace privgrad::core {
namespace {

/// More than all roundings of the few operations behind an answer.
constexpr double kUpwards = 1.0 + 1e-12;

/// The gating accountant of the first candidate, after `repeats` runs of each plan.
ComponentPtr<Accountant> after(const ComponentUse& use, Adjacency adjacency,
                               const std::vector<const Plan*>& plans, std::uint64_t repeats) {
  auto accountant = make_guard(use);
  accountant->start(adjacency);
  for (const Plan* plan : plans) {
    for (const CountedEvent& part : flatten(plan->event)) {
      if (const auto why = accountant->refuses(part.event)) {
        throw PrivacyError(
            with_alternatives(*why, part.event, adjacency, *use.catalog, *use.component));
      }
      accountant->compose(part.event, part.count * repeats);
    }
  }
  return accountant;
}

/// The reason why no cost can be proved for these plans; "" if there is none.
std::string obstacle(const std::vector<const Plan*>& plans) {
  for (const Plan* plan : plans) {
    if (plan->manifest->noise_off) return "an arm is without privacy";
    if (plan->manifest->adjacency != plans.front()->manifest->adjacency) {
      return "the arms have different adjacencies";
    }
  }
  return "";
}

template <class Compute>
ChoiceCost proved(const std::vector<const Plan*>& plans, Compute compute) {
  ChoiceCost cost;
  cost.why = obstacle(plans);
  if (!cost.why.empty()) return cost;
  try {
    PrivacyAnswer answer = compute();
    if (answer.bound == BoundKind::estimate) {
      cost.why = "the accountant has an estimate only";
    } else if (!std::isfinite(answer.value)) {
      cost.why = "the accountant proves no finite epsilon";
    } else {
      cost.epsilon = std::move(answer);
    }
  } catch (const PrivacyError& problem) {
    cost.why = shown_line(problem.what());
  } catch (const NumericError& problem) {
    cost.why = shown_line(problem.what());
  }
  return cost;
}

double upper(const PrivacyAnswer& answer) {
  if (answer.bound == BoundKind::estimate) {
    throw PrivacyError("the accountant has an estimate only");
  }
  return answer.value;
}

/// The smallest ln(e^e2 + (1/g - 1) delta(e2)) that is found: each is a valid choice of e2.
double smallest_log_ratio(const std::function<double(double)>& delta_of, double expected_runs,
                          double longest) {
  const auto at = [&](double epsilon) {
    return std::log(std::exp(epsilon) + (expected_runs - 1.0) * delta_of(epsilon));
  };
  constexpr int kPoints = 40;
  double best = at(0.0);
  for (int i = 1; i <= kPoints; ++i) {
    best = std::min(best, at(longest * i / kPoints));
  }
  return best;
}

}  // namespace

ChoiceCost fixed_grid_cost(const std::vector<const Plan*>& candidates, std::uint64_t repeats,
                           double delta) {
  return proved(candidates, [&] {
    const Manifest& first = *candidates.front()->manifest;
    const auto accountant = after(first.accountant, first.adjacency, candidates, repeats);
    return checked(accountant->epsilon(delta), first.accountant.name());
  });
}

double random_number_epsilon(const std::function<double(double)>& epsilon_of,
                             const std::function<double(double)>& delta_of, RunCount count,
                             double expected_runs, double delta) {
  const double one = epsilon_of(delta / (expected_runs * kUpwards));
  if (!std::isfinite(one)) return one;
  const double log_c = count == RunCount::geometric
                           ? 2.0 * smallest_log_ratio(delta_of, expected_runs, one)
                           : expected_runs * delta_of(0.0);
  return (one + log_c) * kUpwards;
}

ChoiceCost random_number_cost(const std::vector<const Plan*>& candidates, RunCount count,
                              double expected_runs, double delta) {
  return proved(candidates, [&] {
    const Manifest& first = *candidates.front()->manifest;
    const std::string& name = first.accountant.name();
    std::vector<ComponentPtr<Accountant>> accountants;
    accountants.reserve(candidates.size());
    for (const Plan* plan : candidates) {
      accountants.push_back(after(first.accountant, first.adjacency, {plan}, 1));
    }
    const auto largest = [&](auto answer_of) {
      double most = 0.0;
      for (const auto& accountant : accountants) {
        most = std::max(most, upper(checked(answer_of(*accountant), name)));
      }
      return most;
    };
    const auto epsilon_of = [&](double at) {
      return largest([&](const Accountant& a) { return a.epsilon(at); });
    };
    const auto delta_of = [&](double at) {
      return std::min(1.0, largest([&](const Accountant& a) { return a.delta(at); }));
    };
    return PrivacyAnswer{
        .value = random_number_epsilon(epsilon_of, delta_of, count, expected_runs, delta),
        .bound = BoundKind::upper,
        .lower = {},
        .note = ""};
  });
}

}  // namespace privgrad::core
