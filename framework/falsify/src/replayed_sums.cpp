#include "replayed_sums.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"

namespace privgrad::core {
namespace {

bool is_whole(const CorrelatedRecipes& recipes) {
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    const double keep = recipes.keep(step);
    if (keep != 0.0 && keep != 1.0) return false;
    for (const EarlierNoise& one : recipes.earlier(step)) {
      if (one.share != std::floor(one.share)) return false;
    }
  }
  return true;
}

}  // namespace

bool ReplayedSums::are_whole(std::span<const CorrelatedPart> parts) {
  return std::ranges::all_of(parts,
                             [](const CorrelatedPart& part) { return is_whole(part.recipes); });
}

ReplayedSums::ReplayedSums(std::span<const CorrelatedPart> parts, const RandomKey& noise_key,
                           std::size_t elements)
    : elements_(elements) {
  const bool all_whole = are_whole(parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    double least = parts[i].recipes.own_multiplier(0);
    for (std::uint64_t step = 0; step < parts[i].recipes.steps(); ++step)
      least = std::min(least, parts[i].recipes.own_multiplier(step));
    parts_.push_back({.planned = &parts[i],
                      .key = i == 0 ? noise_key : noise_key.derive("part " + std::to_string(i)),
                      .is_whole = all_whole,
                      .sigma_least = least * static_cast<double>(kExactLevels),
                      .past = {}});
  }
}

/// Returns K(from, to): the product of keep over the steps after `from`, up to `to`.
ReplayedSums::Real ReplayedSums::held(const CorrelatedRecipes& recipes, std::uint64_t from,
                                      std::uint64_t to) {
  Real product = 1;
  for (std::uint64_t step = from + 1; step <= to; ++step) product *= recipes.keep(step);
  return product;
}

/// Returns s_t of the step.
std::vector<ReplayedSums::Real> ReplayedSums::sum(const Part& part, std::uint64_t step) {
  std::vector<Real> total(part.past[step].x.size(), 0);
  for (std::uint64_t from = 0; from <= step; ++from) {
    const Real factor = held(part.planned->recipes, from, step);
    if (factor == 0) continue;
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += factor * part.past[from].x[i];
  }
  return total;
}

Replayed ReplayedSums::release(std::size_t part_number, std::uint64_t step_of_run,
                               std::span<const std::int64_t> cells, double width, bool noised) {
  Part& part = parts_[part_number];
  const CorrelatedRecipes& recipes = part.planned->recipes;
  const std::uint64_t step = step_of_run - part.planned->first_step;
  part.past.resize(step + 1);
  Step& now = part.past[step];
  now.x.assign(cells.begin(), cells.end());
  now.released.assign(elements_, 0);
  std::vector<Real> left = sum(part, step);  // turned into q_t below
  Replayed made;
  made.values.reserve(elements_);
  const double scale = recipes.scale(step);
  if (!noised) {
    for (const Real value : left) made.values.push_back(static_cast<float>(scale * width * value));
    return made;
  }
  for (const auto& [from, share] : recipes.earlier(step)) {
    const Real factor = share * held(recipes, from, step);
    const std::vector<Real> before = sum(part, from);
    for (std::size_t i = 0; i < elements_; ++i) {
      left[i] -= factor * before[i];
      now.released[i] += factor * part.past[from].released[i];
    }
    now.error += std::fabs(factor) * part.past[from].error;
  }
  const bool is_windowed = recipes.window() > 0;
  std::vector<RandomKey> keys;
  std::vector<double> sigmas;
  for (const NoiseTerm& term : recipes.noise(step)) {
    keys.push_back(RoundedGaussianStream::own_key(part.key, term.node));
    sigmas.push_back(term.multiplier * static_cast<double>(kExactLevels));
    if (is_windowed) continue;
    // One draw with the joint variance replaces the draws of the step's nodes.
    sigmas.front() = recipes.own_multiplier(step) * static_cast<double>(kExactLevels);
    break;
  }
  double size = 0.0;
  for (const double sigma : sigmas) size += std::fabs(sigma);
  const unsigned shift = release_shift(is_windowed ? size : part.sigma_least);
  std::vector<std::int64_t> whole(elements_);
  for (std::size_t i = 0; i < elements_; ++i) whole[i] = std::llrint(left[i]);
  RoundedGaussianStream::of_own_keys(keys).release(0, sigmas, shift, whole, whole);
  Real largest = 0;
  for (std::size_t i = 0; i < elements_; ++i) {
    now.released[i] += std::ldexp(static_cast<Real>(whole[i]), static_cast<int>(shift));
    largest = std::max(largest, std::fabs(now.released[i]));
  }
  const double coarse = scale * std::ldexp(width, static_cast<int>(shift));
  for (const Real value : now.released) {
    const Real in_coarse = std::ldexp(value, -static_cast<int>(shift));
    made.values.push_back(static_cast<float>(coarse * static_cast<double>(in_coarse)));
  }
  if (part.is_whole) return made;
  // Covers the run's coarse cells, which are at most twice as wide as the cells here, and the 24
  // bits of floats.
  now.error += std::ldexp(Real{3}, static_cast<int>(shift)) + std::ldexp(largest, -22);
  made.near = std::fabs(scale) * width * static_cast<double>(now.error);
  return made;
}

}  // namespace privgrad::core
