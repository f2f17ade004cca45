// The privacy cost of training several candidates and releasing only the best one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The epsilon of choosing the best run, or the reason why no epsilon is proved.
struct ChoiceCost {
  std::optional<PrivacyAnswer> epsilon;  ///< If absent: not proved; see `why`.
  std::string why;
  std::string accountant;  ///< The accountant that proved `epsilon`; "" from composed_cost().
};

struct CountedPlan {
  const Plan* plan = nullptr;
  std::uint64_t runs = 0;
};

/// The cost of training several plans, each some number of times with fresh noise, and releasing
/// the best run: the composition of all runs, because the choice may depend on every run. Choosing
/// by any rule from the released models is post-processing.
///
/// \param plans  not empty; the first plan's accountant is used.
ChoiceCost composed_cost(const std::vector<CountedPlan>& plans, double delta);

/// The cost of a random number K of runs, each of a uniformly drawn candidate with fresh noise, as
/// the event `repeat_and_select` of the candidates' events. Only the run with the best score is
/// released: K, the other runs and their scores stay secret. This costs far less than the
/// composition of K runs (Liu and Talwar 2019; Papernot and Steinke 2022).
///
/// The first candidate's guarding accountant proves the cost. If that accountant refuses the event,
/// the result is the smallest epsilon that any loaded accountant proves.
///
/// \param expected_runs  the mean of K, >= 1.
/// \param shape  the shape of K's distribution (RepeatAndSelectEvent): 1 for geometric, kPoisson
///   for Poisson.
ChoiceCost random_number_cost(const std::vector<const Plan*>& candidates, double shape,
                              double expected_runs, double delta);

}  // namespace privgrad::core
