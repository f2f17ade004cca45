#include "privgrad/trust/correlated_recipes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"
#include "windowed_cost.hpp"

namespace privgrad::core {
namespace {

bool is_independent(const ReleaseRecipe& recipe) {
  return recipe.keep == 0.0 && recipe.scale == 1.0 && recipe.earlier.empty();
}

/// Checks the recipes without storing them: most runs do not need them.
bool all_independent(const Aggregator& aggregator, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (!is_independent(aggregator.recipe(step))) return false;
  }
  return true;
}

void check_number(std::uint64_t step, const char* what, double value) {
  if (std::isfinite(value)) return;
  throw PluginError("the aggregator's recipe of step " + std::to_string(step) + " has " + what +
                    " of " + format_number(value) + ", expected a finite number");
}

}  // namespace

std::optional<CorrelatedRecipes> CorrelatedRecipes::of(const Aggregator& aggregator,
                                                       std::uint64_t steps) {
  const std::uint64_t window = aggregator.window();
  if (window == 0 && all_independent(aggregator, steps)) return std::nullopt;
  return of([&](std::uint64_t step) { return aggregator.recipe(step); }, steps, window);
}

CorrelatedRecipes CorrelatedRecipes::of(
    const std::function<ReleaseRecipe(std::uint64_t)>& recipe_of_step, std::uint64_t steps,
    std::uint64_t window) {
  if (window > kMostNoiseWindow) {
    throw PluginError("the aggregator's window is " + std::to_string(window) +
                      " steps, allowed are at most " + std::to_string(kMostNoiseWindow));
  }
  CorrelatedRecipes result;
  result.window_ = window;
  for (std::uint64_t step = 0; step < steps; ++step) result.add(step, recipe_of_step(step));
  for (std::uint64_t step = 0; step < steps; ++step) {
    const double own = result.own_multiplier_[step];
    if (own > 0.0 && std::isfinite(own)) continue;
    throw PrivacyError("step " + std::to_string(step) + " has a noise multiplier of " +
                       format_number(own) +
                       " for what is new in it, which protects nothing; expected a finite number "
                       "above 0");
  }
  if (window > 0) {
    result.require_window();
  } else {
    result.refuse_repeated_nodes();
  }
  return result;
}

void CorrelatedRecipes::add(std::uint64_t step, ReleaseRecipe recipe) {
  check_number(step, "a keep", recipe.keep);
  check_number(step, "a scale", recipe.scale);
  double squares = 0.0;
  for (const NoiseTerm& term : recipe.noise) squares += term.multiplier * term.multiplier;
  std::ranges::sort(recipe.earlier, [](const auto& a, const auto& b) { return a.step > b.step; });
  for (std::size_t i = 0; i < recipe.earlier.size(); ++i) {
    const auto& [from, share] = recipe.earlier[i];
    check_number(step, "a share", share);
    if (from >= step || (i > 0 && recipe.earlier[i - 1].step == from)) {
      throw PluginError("the aggregator's recipe of step " + std::to_string(step) +
                        " continues step " + std::to_string(from) +
                        (from >= step ? ", which is not before it" : " twice"));
    }
    last_use_[from] = step;
  }
  keep_.push_back(recipe.keep);
  scale_.push_back(recipe.scale);
  // With a window, only the first node of a step has new noise.
  own_multiplier_.push_back(window_ == 0           ? std::sqrt(squares)
                            : recipe.noise.empty() ? 0.0
                                                   : recipe.noise.front().multiplier);
  last_use_.push_back(step);
  earlier_.insert(earlier_.end(), recipe.earlier.begin(), recipe.earlier.end());
  earlier_begins_.push_back(earlier_.size());
  noise_.insert(noise_.end(), recipe.noise.begin(), recipe.noise.end());
  noise_begins_.push_back(noise_.size());
}

/// The noise of a repeated node would cancel or average out, and the noise of two rows would not be
/// independent.
void CorrelatedRecipes::refuse_repeated_nodes() const {
  std::vector<std::uint64_t> nodes;
  nodes.reserve(noise_.size());
  for (const NoiseTerm& term : noise_) nodes.push_back(term.node);
  std::ranges::sort(nodes);
  const auto twice = std::ranges::adjacent_find(nodes);
  if (twice == nodes.end()) return;
  throw PrivacyError("noise node " + std::to_string(*twice) +
                     " is used twice; to continue the noise of an earlier step, a recipe names "
                     "that step");
}

/// The rule for repeated nodes: a step begins with a node of its own, and every other node that it
/// names is the first node of a step within the window, named once.
void CorrelatedRecipes::require_window() const {
  std::unordered_set<std::uint64_t> firsts;
  for (std::uint64_t step = 0; step < steps(); ++step) {
    const auto refuse = [&](const std::string& what) {
      throw PrivacyError(
          "step " + std::to_string(step) + " " + what +
          "; with a window of noise, a step names a new node and then first nodes of "
          "the last " +
          std::to_string(window_) + " steps, and keeps, continues and scales nothing");
    };
    if (keep_[step] != 0.0 || scale_[step] != 1.0 || !earlier(step).empty())
      refuse("keeps, continues or scales a release");
    const auto terms = noise(step);
    if (!firsts.insert(terms.front().node).second)
      refuse("begins with noise node " + std::to_string(terms.front().node) +
             ", which an earlier step has named");
    std::vector<std::uint64_t> ages;
    for (const NoiseTerm& term : terms.subspan(1)) {
      check_number(step, "a multiplier", term.multiplier);
      const std::uint64_t age = this->age(step, term);
      if (age == 0 || std::ranges::find(ages, age) != ages.end())
        refuse("names noise node " + std::to_string(term.node) +
               (age == 0 ? ", which is not of a step in the window" : " twice"));
      ages.push_back(age);
    }
  }
}

std::uint64_t CorrelatedRecipes::age(std::uint64_t step, const NoiseTerm& term) const {
  for (std::uint64_t age = 1; age <= std::min(step, window_); ++age) {
    if (noise(step - age).front().node == term.node) return age;
  }
  return 0;
}

double CorrelatedRecipes::remembered_steps() const {
  double most = 0.0;
  for (const double keep : keep_) most = std::max(most, std::fabs(keep));
  if (most > 1.0) return std::numeric_limits<double>::infinity();
  const auto all = static_cast<double>(steps());
  return most < 1.0 ? std::min(all, 1.0 / (1.0 - most)) : all;
}

std::uint64_t CorrelatedRecipes::most_kept() const {
  std::vector<std::uint64_t> forgotten(steps(), 0);  // how many each step uses last
  std::uint64_t kept = 0;
  std::uint64_t most = 0;
  for (std::uint64_t step = 0; step < steps(); ++step) {
    if (last_use_[step] > step) {
      ++kept;
      ++forgotten[last_use_[step]];
    }
    most = std::max(most, kept -= forgotten[step]);
  }
  return most;
}

std::optional<double> CorrelatedRecipes::noise_relative_to(const CorrelatedRecipes& other) const {
  const auto same_earlier = [](const EarlierNoise& a, const EarlierNoise& b) {
    return a.step == b.step && a.share == b.share;
  };
  if (window_ != other.window_) return std::nullopt;
  if (window_ > 0) return windowed_noise_relative_to(other);
  if (keep_ != other.keep_ || earlier_begins_ != other.earlier_begins_ ||
      !std::ranges::equal(earlier_, other.earlier_, same_earlier)) {
    return std::nullopt;
  }
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (std::uint64_t step = 0; step < steps(); ++step) {
    const double factor = own_multiplier_[step] / other.own_multiplier_[step];
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  if (most > least * (1.0 + 1e-12)) return std::nullopt;
  return least;
}

/// Compares every entry of N, not only the diagonal; the margin in windowed_cost() only covers
/// rounding in the last digit.
std::optional<double> CorrelatedRecipes::windowed_noise_relative_to(
    const CorrelatedRecipes& other) const {
  if (noise_begins_ != other.noise_begins_) return std::nullopt;
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    const NoiseTerm &here = noise_[i], &there = other.noise_[i];
    if (here.node != there.node || (here.multiplier == 0.0) != (there.multiplier == 0.0))
      return std::nullopt;
    if (here.multiplier == 0.0) continue;
    const double factor = here.multiplier / there.multiplier;
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  if (!(least > 0.0) || most > least * (1.0 + kSameFactor)) return std::nullopt;
  return least;
}

namespace {

/// Computes the rows R of one part, and a bound on their rounding errors.
class RowWriter {
 public:
  RowWriter(const CorrelatedRecipes& recipes, std::uint64_t first_step,
            std::span<const double> bounds)
      : recipes_(recipes), first_step_(first_step), bounds_(bounds) {}

  /// Adds the release of one step of the run, if the part has a release in it.
  void add(std::uint64_t step_of_run, SquaredSensitivity& sensitivity) {
    if (step_of_run < first_step_) return;
    // If the shares add up to 1 except for rounding, the remainder is only an error, and is bounded
    // as one.
    constexpr double kNegligible = 0x1p-40;
    const std::uint64_t step = step_of_run - first_step_;
    most_held_ = std::fabs(recipes_.keep(step)) * most_held_ + bound(step);
    const auto earlier = recipes_.earlier(step);
    std::size_t continued = 0;
    double left = 1.0;      // 1 - sum of the shares of the noise of step u and later
    double held = 1.0;      // K(u, step)
    double rounding = 0.0;  // bound on the error of `left`
    for (std::uint64_t u = step;; --u) {
      if (continued < earlier.size() && earlier[continued].step == u) {
        const double share = earlier[continued++].share;
        const double difference = left - share;
        // The exact error of a subtraction (Moller 1965, Knuth): 0 if the shares are integers.
        const double back = difference - left;
        rounding += std::fabs((left - (difference - back)) - (share + back));
        left = difference;
      }
      if (continued == earlier.size() && std::fabs(left) <= kNegligible) {
        rounding += std::fabs(left);
        break;
      }
      const double entry = held * left * bound(u);
      if (entry < 0.0) takes_away_ = true;
      sensitivity.add_entry(first_step_ + u, entry);
      held *= recipes_.keep(u);
      if (u == 0 || held == 0.0) break;
    }
    const double noise = recipes_.own_multiplier(step);
    sensitivity.end_release(noise);
    const double missed = rounding * most_held_ / noise;
    rounding_squares_ += missed * missed;
  }

  double rounding_squares() const { return rounding_squares_; }
  bool takes_away() const { return takes_away_; }

 private:
  double bound(std::uint64_t step) const { return bounds_.empty() ? 1.0 : bounds_[step]; }

  const CorrelatedRecipes& recipes_;
  std::uint64_t first_step_;
  std::span<const double> bounds_;
  double most_held_ = 0.0;  // the running sum of a row that takes part in every step
  double rounding_squares_ = 0.0;
  bool takes_away_ = false;  // whether an entry below 0 was found
};

CorrelatedCost cost_of(std::vector<RowWriter> parts, const Participation& participation,
                       std::uint64_t steps) {
  SquaredSensitivity sensitivity(participation);
  CorrelatedCost cost;
  cost.worst_after.reserve(steps);
  // Covers, for each part, the rounding of the products K, of three nested sums of at most one term
  // per step, of a bound, and of squares.
  const double room = 1.0 + static_cast<double>(parts.size() * (steps + 5)) * 0x1p-50;
  for (std::uint64_t step = 0; step < steps; ++step) {
    double rounding_squares = 0.0;
    for (RowWriter& part : parts) {
      part.add(step, sensitivity);
      rounding_squares += part.rounding_squares();
    }
    // By the triangle inequality.
    const double root = std::sqrt(sensitivity.worst()) + std::sqrt(rounding_squares);
    cost.worst_after.push_back(root * root * room);
  }
  cost.of_groups.assign(sensitivity.of_groups().begin(), sensitivity.of_groups().end());
  cost.is_attained = parts.size() == 1 && !parts.front().takes_away();
  return cost;
}

}  // namespace

CorrelatedCost cost_of(std::span<const CorrelatedPart> parts, const Participation& participation) {
  if (parts.size() == 1 && parts.front().recipes.window() > 0)
    return windowed_cost(parts.front().recipes, participation);
  std::vector<RowWriter> rows;
  for (const CorrelatedPart& part : parts)
    rows.emplace_back(part.recipes, part.first_step, part.bounds);
  return cost_of(std::move(rows), participation,
                 parts.front().first_step + parts.front().recipes.steps());
}

CorrelatedCost cost_of(const CorrelatedRecipes& recipes, const Participation& participation) {
  if (recipes.window() > 0) return windowed_cost(recipes, participation);
  return cost_of({RowWriter(recipes, 0, {})}, participation, recipes.steps());
}

CorrelatedCost with_noise_times(CorrelatedCost cost, double factor) {
  const double squared = factor * factor;
  for (double& value : cost.of_groups) value /= squared;
  // Covers two more rounding errors, for which worst_after may have no room left.
  for (double& value : cost.worst_after) value = value / squared * (1.0 + 0x1p-50);
  return cost;
}

double NoiseVariance::next() {
  const std::uint64_t step = step_++;
  if (recipes_.window() > 0) {
    double variance = 0.0;
    for (const NoiseTerm& term : recipes_.noise(step))
      variance += term.multiplier * term.multiplier;
    return variance;
  }
  for (Kept& kept : kept_) kept.carried *= recipes_.keep(step);
  // Covariances of z_t with the kept noise: z_t is a sum over some of the kept terms, plus new
  // noise.
  std::vector<double> weights(kept_.size(), 0.0);
  for (const auto& [from, share] : recipes_.earlier(step)) {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].step == from) weights[i] = share * kept_[i].carried;
    }
  }
  const auto covariance = [&](std::size_t i, std::size_t j) {
    return kept_[std::max(i, j)].covariances[std::min(i, j)];
  };
  std::vector<double> covariances(kept_.size() + 1, 0.0);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    for (std::size_t j = 0; j < kept_.size(); ++j) {
      if (weights[j] != 0.0) covariances[i] += weights[j] * covariance(i, j);
    }
  }
  const double own = recipes_.own_multiplier(step);
  double variance = own * own;
  for (std::size_t i = 0; i < kept_.size(); ++i) variance += weights[i] * covariances[i];
  covariances.back() = variance;
  kept_.push_back({.step = step, .covariances = std::move(covariances), .carried = 1.0});
  // Drop the terms that no later step continues.
  for (std::size_t i = kept_.size(); i-- > 0;) {
    if (recipes_.last_use(kept_[i].step) > step) continue;
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t j = i; j < kept_.size(); ++j) {
      auto& row = kept_[j].covariances;
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return variance;
}

}  // namespace privgrad::core
