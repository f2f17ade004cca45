#include "privgrad/trust/least_cost.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

// Margins, each larger than all rounding errors in this file.
constexpr double kLarger = 1.0 + 1e-9;    // a factor for an epsilon
constexpr double kRounding = 1e-11;       // relative to the terms of a difference
constexpr double kCompared = 1.0 + 1e-6;  // a factor for a delta in a comparison
// Below this magnitude, doubles lose digits.
constexpr double kNothing = 1e-290;

constexpr std::size_t kMostParts = 32;

/// Balle and Wang 2018, Theorem 8, rounded down.
double gaussian_delta(double mu, double epsilon) {
  if (mu == 0.0) return 0.0;
  if (std::isinf(mu)) return epsilon < 1e300 ? 1.0 : 0.0;
  // The shift exceeds the rounding errors of both arguments, and the curve decreases with epsilon.
  const double shifted = epsilon * kLarger;
  const double a = 0.5 * mu - shifted / mu;
  const double b = 0.5 * mu + shifted / mu;
  const double first = 0.5 * std::erfc(-a / std::numbers::sqrt2);
  // e^eps Phi(-b). Where doubles underflow, uses phi(a) / b, which is larger: Mills' ratio, and
  // e^eps phi(b) = phi(a).
  const double second = b < 37.0 ? std::exp(shifted) * 0.5 * std::erfc(b / std::numbers::sqrt2)
                                 : std::exp(-0.5 * a * a) / (b * std::sqrt(2.0 * std::numbers::pi));
  return std::max(0.0, first * (1.0 - kRounding) - second * (1.0 + kRounding));
}

double laplace_delta(double inverse_scale, double epsilon) {
  return std::max(0.0, -std::expm1(0.5 * (epsilon * kLarger - inverse_scale)) * (1.0 - kRounding));
}

PluginError too_little(std::string_view name, double epsilon, double delta, double least) {
  return PluginError("the accountant " + std::string(name) + " broke its contract: it answered (" +
                     format_number(epsilon) + ", " + format_number(delta) +
                     "), and at that epsilon the releases have a delta of at least " +
                     format_number(least));
}

}  // namespace

double LeastCost::Part::delta(double epsilon) const {
  if (q == 0.0 || std::isinf(epsilon)) return 0.0;
  // ln(1 + (e^eps - 1) / q), or an upper bound: (e^eps - 1) / q + 1 is at most e^eps / q.
  double inner = epsilon;
  if (q < 1.0) {
    inner = epsilon < 30.0 ? std::log1p(std::expm1(epsilon) / q) : epsilon - std::log(q);
    inner *= kLarger;
  }
  const double one =
      bare ? 1.0
           : std::max(gaussian_delta(std::sqrt(square), inner), laplace_delta(laplace, inner));
  return q * one * (1.0 - kRounding);
}

bool LeastCost::Part::is_at_least(const Part& other) const {
  return q >= other.q && square >= other.square && laplace >= other.laplace &&
         (bare || !other.bare);
}

LeastCost::LeastCost(Adjacency adjacency) : sensitivity_(sensitivity_of_unit_bound(adjacency)) {}

/// \param sensitivity  the sensitivity of a sum of contributions of norm 1.
/// \param adjacent  `sensitivity` divided by the sensitivity under the adjacency in use, to which
///   the rho of a `zcdp` event refers.
void LeastCost::add(const Event& event, double count, double sensitivity, double adjacent,
                    Part& part) {
  std::visit(Overloaded{
                 [&](const GaussianEvent& e) {
                   const double mu = sensitivity / e.noise_multiplier;
                   part.square += count * mu * mu * (1.0 - kRounding);
                 },
                 [&](const ZcdpEvent& e) {
                   part.square += count * 2.0 * e.rho * adjacent * adjacent * (1.0 - kRounding);
                 },
                 [&](const LaplaceEvent& e) {
                   part.laplace =
                       std::max(part.laplace, sensitivity / e.noise_multiplier * (1.0 - kRounding));
                 },
                 [&](const NonPrivateEvent&) { part.bare = true; },
                 [](const auto&) {},
             },
             event.kind());
}

void LeastCost::compose(const Event& event, std::uint64_t count) {
  if (count == 0) return;
  for (const CountedEvent& release : flatten(event)) {
    double q = 1.0;
    const Event* of = &release.event;
    // A sample of a sample contains the example with the product of the probabilities. Of several
    // steps, only the first is considered.
    while (const auto sampling = sampling_of(*of)) {
      q *= sampling->rate;
      const bool is_quotient = sampling->size < sampling->rows || sampling->steps > 1;
      if (is_quotient) q *= 1.0 - kRounding;
      of = sampling->of.get();
    }
    if (q == 1.0) {
      const double times = static_cast<double>(release.count) * static_cast<double>(count);
      for (const CountedEvent& inner : flatten(*of)) {
        add(inner.event, times * static_cast<double>(inner.count), sensitivity_, 1.0, unsampled_);
      }
      continue;
    }
    Part part{.q = std::min(1.0, q)};
    for (const CountedEvent& inner : flatten(*of)) {
      add(inner.event, static_cast<double>(inner.count), 1.0, 1.0 / sensitivity_, part);
    }
    keep(part);
  }
}

/// When the list is full, drops a part that dominates no other; this only weakens the bound.
void LeastCost::keep(const Part& part) {
  for (const Part& one : sampled_) {
    if (one.is_at_least(part)) return;
  }
  std::erase_if(sampled_, [&](const Part& one) { return part.is_at_least(one); });
  if (sampled_.size() < kMostParts) sampled_.push_back(part);
}

double LeastCost::delta(double epsilon) const {
  double most = unsampled_.delta(epsilon);
  for (const Part& part : sampled_) most = std::max(most, part.delta(epsilon));
  return most;
}

PrivacyAnswer checked_epsilon(PrivacyAnswer answer, double delta, const LeastCost& least,
                              std::string_view name) {
  if (answer.bound == BoundKind::estimate) return answer;
  const double at_least = least.delta(answer.value);
  if (at_least > kNothing && at_least > delta * kCompared) {
    throw too_little(name, answer.value, delta, at_least);
  }
  return answer;
}

PrivacyAnswer checked_delta(PrivacyAnswer answer, double epsilon, const LeastCost& least,
                            std::string_view name) {
  if (answer.bound == BoundKind::estimate) return answer;
  const double at_least = least.delta(epsilon);
  if (at_least > kNothing && at_least > answer.value * kCompared) {
    throw too_little(name, epsilon, answer.value, at_least);
  }
  return answer;
}

}  // namespace privgrad::core
