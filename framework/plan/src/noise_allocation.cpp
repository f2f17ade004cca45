#include "noise_allocation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>

namespace privgrad::core {
namespace {

/// A noise multiplier, squared, and its marginal cost in epsilon.
struct Knot {
  double square = 0.0, cost = 0.0;
};

double slope(const Knot& a, const Knot& b) { return (a.cost - b.cost) / (b.square - a.square); }

/// The marginal cost as a convex, decreasing function of the squared noise: the knots' lower
/// hull.
class MarginalCost {
 public:
  /// \param knots  the knots by increasing noise.
  explicit MarginalCost(const std::vector<Knot>& knots) {
    for (const Knot& knot : knots) {
      while (!hull_.empty() && hull_.back().cost <= knot.cost) hull_.pop_back();
      while (hull_.size() > 1 &&
             slope(hull_[hull_.size() - 2], hull_.back()) <= slope(hull_.back(), knot)) {
        hull_.pop_back();
      }
      hull_.push_back(knot);
    }
  }

  bool is_known() const { return hull_.size() > 1; }

  /// The cost: a power of the noise between knots and beyond the last, constant below the first.
  double at(double square) const {
    if (square >= hull_.back().square) return hull_.back().cost * hull_.back().square / square;
    if (square <= hull_.front().square) return hull_.front().cost;
    const auto next = std::ranges::upper_bound(hull_, square, {}, &Knot::square);
    const Knot& a = *(next - 1);
    const double power = std::log(next->cost / a.cost) / std::log(next->square / a.square);
    return a.cost * std::pow(square / a.square, power);
  }

  /// The squared noise at which the cost decreases by `weight` per unit. A chord's slope is used as
  /// the slope at the geometric mean of its ends, which is exact for a cost proportional to
  /// 1/square; between two such points, interpolates with a power.
  double square_at_slope(double weight) const {
    const std::size_t chords = hull_.size() - 1;
    const auto slope_of = [&](std::size_t i) { return slope(hull_[i], hull_[i + 1]); };
    const auto middle = [&](std::size_t i) {
      return std::sqrt(hull_[i].square * hull_[i + 1].square);
    };
    if (weight >= slope_of(0)) {
      return std::max(hull_.front().square, middle(0) * std::sqrt(slope_of(0) / weight));
    }
    if (weight <= slope_of(chords - 1))
      return middle(chords - 1) * std::sqrt(slope_of(chords - 1) / weight);
    std::size_t low = 0, high = chords - 1;  // slope_of(low) > weight > slope_of(high)
    while (high - low > 1) {
      const std::size_t half = low + (high - low) / 2;
      (slope_of(half) >= weight ? low : high) = half;
    }
    const double share =
        std::log(slope_of(low) / weight) / std::log(slope_of(low) / slope_of(high));
    return middle(low) * std::pow(middle(high) / middle(low), share);
  }

 private:
  std::vector<Knot> hull_;  // cost and slope decrease
};

/// The marginal cost of one charge. It is measured with several copies of the charge if one copy
/// raises the accountant's answer by less than 1 %.
/// \param copies  in: the initial number; out: the number that was needed.
double cost_of_one(const Charge& charge, std::vector<Charge> beside, double without,
                   const CostOfCharges& cost_of, std::size_t& copies) {
  constexpr double kRise = 0.01;  // rise of epsilon; far above any accountant's rounding errors
  const std::size_t most = beside.size();
  beside.insert(beside.end(), copies, charge);
  for (;;) {
    const double rise = cost_of(beside) - without;  // may be infinite
    if (rise >= kRise * without || copies >= most) return rise / static_cast<double>(copies);
    beside.insert(beside.end(), copies, charge);
    copies *= 2;
  }
}

MarginalCost marginal_cost(double uniform, std::size_t steps, const std::vector<Charge>& charges,
                           const ChargesOfNoise& charges_of, const CostOfCharges& cost_of,
                           KeptNumbers& kept) {
  constexpr int kOctaves = 3;  // range of noise on each side of uniform noise
  constexpr int kOfAnOctave = 3;
  constexpr double kNone = 1e-300, kInfinite = 1e300;
  double without = 0.0;
  std::size_t copies = 1;
  std::vector<Knot> knots;
  for (int i = -kOctaves * kOfAnOctave; i <= kOctaves * kOfAnOctave; ++i) {
    const double noise = uniform * std::exp2(static_cast<double>(i) / kOfAnOctave);
    const double cost = kept.scale([&] {
      if (without == 0.0) without = cost_of(charges);
      const Charge charge = charges_of(std::vector(steps, noise)).front();
      return std::clamp(cost_of_one(charge, charges, without, cost_of, copies), kNone, kInfinite);
    });
    knots.push_back({noise * noise, cost});
  }
  return MarginalCost(knots);
}

/// The first step of each block; its charge also pays for the block's other steps.
std::vector<std::size_t> blocks_of(std::span<const Charge> charges) {
  std::vector<std::size_t> firsts;
  for (std::size_t t = 0; t < charges.size(); ++t) {
    if (t == 0 || charges[t].cost != Event::nothing()) firsts.push_back(t);
  }
  return firsts;
}

}  // namespace

bool costs_inverse_square(std::span<const Charge> charges, std::span<const double> noise) {
  constexpr double kRounding = 1e-12;
  double first = 0.0;
  for (std::size_t t = 0; t < charges.size(); ++t) {
    const auto* gaussian = std::get_if<GaussianEvent>(&charges[t].cost.kind());
    if (gaussian == nullptr) return false;
    const double factor = gaussian->noise_multiplier / noise[t];
    if (t == 0) first = factor;
    if (std::abs(factor - first) > kRounding * first) return false;
  }
  return !charges.empty();
}

std::vector<double> noise_by_cost(std::span<const double> influence, double uniform,
                                  const ChargesOfNoise& charges_of, const CostOfCharges& cost_of,
                                  KeptNumbers& kept) {
  const std::size_t steps = influence.size();
  const std::vector<Charge> charges = charges_of(std::vector(steps, uniform));
  const std::vector<std::size_t> firsts = blocks_of(charges);
  const MarginalCost cost = marginal_cost(uniform, steps, charges, charges_of, cost_of, kept);
  if (!cost.is_known()) return std::vector(steps, uniform);

  std::vector<double> weights;
  for (std::size_t b = 0; b < firsts.size(); ++b) {
    const std::size_t end = b + 1 < firsts.size() ? firsts[b + 1] : steps;
    double sum = 0.0;
    for (std::size_t t = firsts[b]; t < end; ++t) sum += influence[t];
    weights.push_back(sum);
  }
  const double budget = static_cast<double>(weights.size()) * cost.at(uniform * uniform);
  const auto spent = [&](double log_factor) {
    double sum = 0.0;
    for (const double weight : weights)
      sum += cost.at(cost.square_at_slope(weight * std::exp2(log_factor)));
    return sum;
  };
  double low = -1000.0, high = 1000.0;  // a larger factor of the influence requires less noise
  for (int i = 0; i < 60; ++i) {
    const double middle = low + (high - low) / 2.0;
    (spent(middle) <= budget ? low : high) = middle;
  }

  std::vector<double> noise(steps);
  for (std::size_t b = 0; b < firsts.size(); ++b) {
    const std::size_t end = b + 1 < firsts.size() ? firsts[b + 1] : steps;
    const double square = cost.square_at_slope(weights[b] * std::exp2(low));
    std::fill(noise.begin() + static_cast<std::ptrdiff_t>(firsts[b]),
              noise.begin() + static_cast<std::ptrdiff_t>(end), std::sqrt(square));
  }
  return noise;
}

}  // namespace privgrad::core
