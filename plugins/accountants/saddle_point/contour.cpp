#include "contour.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <boost/math/tools/minima.hpp>
#include <cmath>

namespace saddle_point {
namespace {

// The target errors, relative to the value: e^-30 for discretisation, e^-32 for the truncated
// part.
constexpr double kContourDigits = 30.0;
constexpr double kNegligible = 1e-14;
constexpr double kDigitsGivenAway = 3.0;

// A logarithm whose exponential is below the smallest positive double.
constexpr double kLogNothing = -750.0;

// The relative error of delta at which refining stops.
constexpr double kSharp = 1e-10;

// Above this error, Chernoff's bound may be the better one.
constexpr double kLoose = 1e-2;
constexpr double kLittle = 1e-9;
constexpr int kRefinements = 3;
constexpr int kMostIterations = 60;
constexpr int kMostRounds = 40;

// After this many nodes of the trapezoidal rule without decay, panels are cheaper.
constexpr std::size_t kMostNodes = 1024;
constexpr std::size_t kMostPanels = 400;
constexpr std::size_t kProbes = 48;

// The largest oscillation, in radians, that a panel's coarser rule resolves to the last digit.
constexpr double kMostPhase = 12.0;

using Kronrod = boost::math::quadrature::gauss_kronrod<double, 31>;
using Gauss = boost::math::quadrature::gauss<double, 15>;

/// Returns ln of max over x of (1 - e^{-x}) e^{-cx}: c^c / (1 + c)^{1 + c}.
double log_chernoff_factor(double c) {
  return c <= 0.0 ? 0.0 : -c * std::log1p(1.0 / c) - std::log1p(c);
}

/// Returns a fading factor that is 1 up to half of `end`, 0 from `end` on, and numerically smooth:
/// its Fourier transform is below e^-36 beyond 288 / end.
double fade(double tau, double end) {
  return std::isinf(end) ? 1.0 : 0.5 * std::erfc(24.0 * (tau / end - 0.75));
}
constexpr double kFadeReach = 288.0;

struct Saddle {
  double c = 0.0;
  Cumulant at;
};

/// Returns the function whose root is the saddle point of e^{K(c) - epsilon c} / |c (c + 1)|. The
/// function increases on each of the three intervals between and beyond the two poles.
double excess(double c, const Cumulant& at, double epsilon) {
  return at.slope - epsilon - 1.0 / c - 1.0 / (c + 1.0);
}

/// Returns the saddle point with -1 < c < 0. It need not be exact, because every c in this range is
/// a valid contour.
Saddle left_saddle(PrivacyLoss& loss, double epsilon) {
  double low = -1.0;
  double high = 0.0;
  double c = -0.5;
  Cumulant at = loss.cumulant(c);
  for (int i = 0; i < 60 && high - low > 0.02 * std::min(-c, 1.0 + c); ++i) {
    (excess(c, at, epsilon) < 0.0 ? low : high) = c;
    c = 0.5 * (low + high);
    at = loss.cumulant(c);
  }
  return {c, at};
}

/// Iterates `newton`, which returns the step from a c > 0 towards the wanted point, inside a
/// narrowing bracket, until the step is too small to affect the integrand.
template <class Newton>
Saddle follow(PrivacyLoss& loss, double guess, const Newton& newton) {
  double low = 0.0;
  double high = kInfinity;
  Saddle here{guess, {}};
  for (int i = 0; i < kMostIterations; ++i) {
    here.at = loss.cumulant(here.c);
    const double step = newton(here);
    if (step == 0.0) return here;
    (step > 0.0 ? low : high) = here.c;
    const double scale = std::min(here.c, 1.0 / std::sqrt(here.at.curvature));
    if (std::abs(step) < 0.05 * scale || high < low * (1.0 + 1e-9)) return here;
    double next =
        std::clamp(here.c + step, here.c / 8.0, std::min(here.c * 4.0, loss.largest_tilt()));
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    here.c = next;
  }
  return here;
}

/// Returns the saddle point with c > 0.
Saddle right_saddle(PrivacyLoss& loss, double epsilon) {
  const Cumulant zero = loss.cumulant(0.0);
  const double above = epsilon - zero.slope;
  const double guess = 0.5 * (above + std::sqrt(above * above + 6.0 * zero.curvature)) /
                       std::max(zero.curvature, 1e-300);
  return follow(loss, std::clamp(guess, 1e-18, loss.largest_tilt()), [&](const Saddle& here) {
    // the integrand is negligible, so every c is good enough
    if (here.at.value - here.c * epsilon < kLogNothing) return 0.0;
    const double c = here.c;
    return -excess(c, here.at, epsilon) /
           (here.at.curvature + 1.0 / (c * c) + 1.0 / ((c + 1.0) * (c + 1.0)));
  });
}

/// If the steps in which the example takes part are rare but informative, the tilted loss at the
/// saddle point is a mixture of widely separated sums, and the period of the trapezoidal rule must
/// span them. A smaller c leaves fewer sums and loses about one leading digit, so c is reduced as
/// long as the spread decreases.
Saddle narrowed(PrivacyLoss& loss, double epsilon, Saddle here) {
  const auto exponent = [&](const Saddle& s) {
    return s.at.value - s.c * epsilon - std::log(s.c) - std::log1p(s.c);
  };
  const double most = exponent(here) + kDigitsGivenAway;
  for (int i = 0; i < kMostIterations; ++i) {
    const double c = 0.93 * here.c;
    const Saddle next{c, loss.cumulant(c)};
    if (exponent(next) > most || next.at.curvature > 0.8 * here.at.curvature) break;
    here = next;
  }
  return here;
}

/// Returns the epsilon whose saddle point is c.
double epsilon_at(const Saddle& here) {
  return here.at.slope - 1.0 / here.c - 1.0 / (here.c + 1.0);
}

/// Returns the second derivative of the whole exponent at c.
double curvature_at(double c, const Cumulant& at) {
  return at.curvature + 1.0 / (c * c) + 1.0 / ((c + 1.0) * (c + 1.0));
}

/// Returns the saddle point of the epsilon for delta, by the saddle-point approximation.
Saddle saddle_of_delta(PrivacyLoss& loss, double delta) {
  const double target = std::log(delta);
  const double spread = std::sqrt(std::max(loss.cumulant(0.0).curvature, 1e-300));
  const double guess = std::sqrt(1.0 - 2.0 * target) / spread;
  return follow(loss, std::clamp(guess, 1e-18, loss.largest_tilt()), [&](const Saddle& here) {
    const double c = here.c;
    const double curvature = curvature_at(c, here.at);
    const double log_delta = here.at.value - c * epsilon_at(here) - std::log(c) - std::log1p(c) -
                             0.5 * std::log(2.0 * kPi * curvature);
    return (log_delta - target) / (c * curvature);
  });
}

}  // namespace

Contour::Contour(PrivacyLoss& loss, double epsilon, int refinement) {
  const Cumulant zero = loss.cumulant(0.0);
  const double spread = std::sqrt(zero.curvature);
  // If epsilon is far below the mean loss, delta is nearly 1. The poles are then close together for
  // a contour to their right, but the strip between the poles is wide.
  const bool left = spread > 3.0 && zero.slope - epsilon > 1.5 * spread;
  Saddle saddle = left ? left_saddle(loss, epsilon) : right_saddle(loss, epsilon);
  radius_ = 3.0 * std::sqrt(saddle.at.curvature);
  if (!left) saddle = narrowed(loss, epsilon, saddle);
  c_ = saddle.c;
  at_c_ = saddle.at;
  nodes_.push_back({});
  if (at_c_.value - c_ * epsilon < kLogNothing) return;
  loss.tilt(c_);

  const double finer = std::pow(2.0, refinement);
  // Even the coarse rule, with twice the step, has a sufficient period.
  const double step = kPi / aliasing_period(loss, epsilon) / finer;
  const double width = 9.0 / std::sqrt(at_c_.curvature);  // for a Gaussian integrand
  const std::size_t most = kMostNodes * static_cast<std::size_t>(finer);
  auto end = static_cast<std::size_t>(std::min(width / step, 512.0 * finer)) + 8;
  fade_begin_ = fade_end_ = kInfinity;
  while (true) {
    add_trapezoid(loss, step, end);
    if (decayed(epsilon) && !rises_again(loss, epsilon)) return;
    if (end >= most) break;
    end = std::min(end + end / 4 + 8, most);
  }
  add_panels(loss, epsilon, std::abs(epsilon - loss.bulk()), finer);
}

/// Returns a period so long that the images of delta, shifted by its multiples, vanish at epsilon.
double Contour::aliasing_period(PrivacyLoss& loss, double epsilon) const {
  const double curvature = curvature_at(c_, at_c_);
  const double digits =
      kContourDigits +
      std::max(0.0, std::log(std::abs(c_ * (c_ + 1.0)) * std::sqrt(2.0 * kPi * curvature)));
  const double lowest = c_ > 0.0 ? 0.0 : -1.0;
  const double highest = c_ > 0.0 ? std::max(1.2 * c_, loss.largest_tilt()) : 0.0;
  // By Chernoff's inequality at the order `other`, the image of delta at distance x, divided by
  // e^{K(c) - c epsilon}, is at most e^{bound - |other - c| x}. Returns the x for which this is
  // e^-digits.
  const auto reach = [&](double other) {
    const double bound = loss.cumulant(other).value - at_c_.value - (other - c_) * epsilon;
    return (bound + digits + (c_ > 0.0 ? log_chernoff_factor(other) : 0.0)) / std::abs(other - c_);
  };
  const auto best = [&](double direction, double most) {
    double distance = std::min(std::sqrt(2.0 * digits / curvature), most);
    double found = reach(c_ + direction * distance);
    for (int i = 0; i < 20; ++i) {
      distance *= 0.5;
      const double next = reach(c_ + direction * distance);
      if (!(next < found) && std::isfinite(found)) break;
      found = next;
    }
    return found;
  };
  return std::max(best(1.0, highest - c_), best(-1.0, c_ - lowest));
}

Complex Contour::integrand(const Node& node, double epsilon) const {
  const Complex s(c_, node.tau);
  const double size = std::exp(node.log_phi.real());
  const double phase = node.log_phi.imag() - node.tau * epsilon;
  return Complex(size * std::cos(phase), size * std::sin(phase)) / (s * (s + 1.0));
}

Contour::Sum Contour::sum(double epsilon) const {
  Sum total;
  for (const Node& node : nodes_) {
    const Complex s(c_, node.tau);
    const Complex value = integrand(node, epsilon);
    const double size = node.weight * std::abs(value);
    total.fine += node.weight * value.real();
    total.coarse += node.coarse * value.real();
    total.slope -= node.weight * (s * value).real();
    total.size += size;
    total.moment += size * node.tau;
    total.pole += node.weight / std::abs(s * (s + 1.0));
  }
  return total;
}

/// \returns whether the integrand has decayed to nothing, or to its rounding error, at the last
///   nodes. From there it decays at least like 1 / tau^2, unless it rises_again().
bool Contour::decayed(double epsilon) {
  double most = 0.0;
  for (std::size_t k = nodes_.size() - std::min<std::size_t>(nodes_.size(), 6); k < nodes_.size();
       ++k) {
    most = std::max(most, std::abs(integrand(nodes_[k], epsilon)));
  }
  tail_ = most * nodes_.back().tau;
  return tail_ <= negligible(epsilon);
}

/// Returns the size below which an integrand is negligible: a share of the sum so far, at least its
/// rounding error.
///
/// \param epsilon  the constructor's epsilon.
double Contour::negligible(double epsilon) {
  for (; begun_.nodes < nodes_.size(); ++begun_.nodes) {
    const Node& node = nodes_[begun_.nodes];
    const Complex s(c_, node.tau);
    begun_.fine += node.weight * integrand(node, epsilon).real();
    begun_.pole += node.weight / std::abs(s * (s + 1.0));
  }
  return std::max(kNegligible * std::abs(begun_.fine), 0.1 * kUlp * begun_.pole);
}

/// Rare steps with about the same loss m make the loss nearly a lattice: after phi has fallen to
/// nearly 0, it has further peaks near multiples of 2 pi / m, as wide as the peak at 0. Peaks
/// farther away than 100 times that width are too low for double precision.
/// \returns whether such peaks matter; adds the other peaks to the tail.
bool Contour::rises_again(PrivacyLoss& loss, double epsilon) {
  const double spacing = 3.0 / std::sqrt(at_c_.curvature);
  const auto first = static_cast<std::size_t>(nodes_.back().tau / spacing) + 1;
  std::vector<Complex> log_phi(kProbes);
  loss.log_characteristic(spacing, first, log_phi);
  double peaks = 0.0;
  for (std::size_t k = 0; k < kProbes; ++k) {
    const Node probe{spacing * static_cast<double>(first + k), spacing, 0.0, log_phi[k]};
    peaks += spacing * std::abs(integrand(probe, epsilon));
  }
  tail_ += peaks;
  return peaks > negligible(epsilon);
}

/// Extends the trapezoidal rule to the nodes below `end`.
void Contour::add_trapezoid(PrivacyLoss& loss, double step, std::size_t end) {
  const std::size_t first = nodes_.size();
  nodes_[0].weight = 0.5 * step;
  nodes_[0].coarse = step;
  std::vector<Complex> log_phi(end - first);
  loss.log_characteristic(step, first, log_phi);
  for (std::size_t k = first; k < end; ++k) {
    nodes_.push_back(
        {step * static_cast<double>(k), step, k % 2 == 0 ? 2.0 * step : 0.0, log_phi[k - first]});
  }
  absolute_loss_ = loss.absolute_loss();
  loss_error_ = loss.loss_error();
}

/// Makes room for the panels, which integrate the part removed here.
void Contour::fade_out() {
  fade_begin_ = nodes_.back().tau;
  for (Node& node : nodes_) {
    const double share = fade(node.tau, fade_begin_);
    node.weight *= share;
    node.coarse *= share;
  }
  begun_ = {};  // its sums used the old weights
}

/// \returns whether the panel is accurate; otherwise nothing is added.
bool Contour::add_panel(PrivacyLoss& loss, double epsilon, double begin, double end,
                        double tolerance) {
  // The abscissas >= 0, ascending; every second one belongs to Gauss's rule.
  const auto& abscissas = Kronrod::abscissa();
  const std::size_t half = abscissas.size() - 1;
  const double middle = 0.5 * (begin + end);
  const double scale = 0.5 * (end - begin);
  std::vector<double> taus;
  std::vector<Node> panel;
  for (std::size_t i = 0; i < 2 * half + 1; ++i) {
    const std::size_t rank = i < half ? half - i : i - half;
    const double tau = middle + (i < half ? -scale : scale) * abscissas[rank];
    const double share = 1.0 - fade(tau, fade_begin_);
    const double gauss = rank % 2 == 0 ? Gauss::weights()[rank / 2] : 0.0;
    // The coarse rule also ends earlier, so the comparison shows the effect of truncation.
    panel.push_back({tau,
                     scale * share * fade(tau, fade_end_) * Kronrod::weights()[rank],
                     scale * share * fade(tau, 0.75 * fade_end_) * gauss,
                     {}});
    taus.push_back(tau);
  }
  std::vector<Complex> log_phi(taus.size());
  loss.log_characteristic(taus, log_phi);
  double difference = 0.0;
  for (std::size_t i = 0; i < panel.size(); ++i) {
    panel[i].log_phi = log_phi[i];
    const double share = 1.0 - fade(taus[i], fade_begin_);
    const std::size_t rank = i < half ? half - i : i - half;
    const double gauss = rank % 2 == 0 ? Gauss::weights()[rank / 2] : 0.0;
    difference +=
        scale * share * (Kronrod::weights()[rank] - gauss) * integrand(panel[i], epsilon).real();
  }
  if (std::abs(difference) > tolerance) return false;
  panels_error_ += std::abs(difference);
  nodes_.insert(nodes_.end(), panel.begin(), panel.end());
  return true;
}

/// Integrates from the end of the trapezoidal rule to the place at which the integrand is
/// negligible.
/// \param distance  the distance of epsilon from the only place where the loss is concentrated: the
///   frequency at which the rest of the integrand oscillates. Delta has no finer detail.
void Contour::add_panels(PrivacyLoss& loss, double epsilon, double distance, double finer) {
  fade_out();
  fade_end_ = std::max(finer * kFadeReach / distance, 4.0 * fade_begin_);
  const double longest = kMostPhase / distance;
  const Sum before = sum(epsilon);
  const double tolerance =
      std::max(kSharp * 1e-3 * std::abs(before.fine), 4.0 * kUlp * before.pole);
  double begin = 0.5 * fade_begin_;
  double length = std::min(0.25 * fade_begin_, longest);
  for (std::size_t panels = 0; panels < kMostPanels; ++panels) {
    if (begin >= fade_end_) {
      tail_ = 0.0;
      return;
    }
    if (!add_panel(loss, epsilon, begin, begin + length, tolerance)) {
      length *= 0.5;
      continue;
    }
    begin += length;
    length = std::min(1.5 * length, longest);
    if (decayed(epsilon)) return;
  }
  exhausted_ = true;
}

/// Returns the rounding error of K(c) - c epsilon; K(c) is a sum of positive terms.
double Contour::rounding(double epsilon) const {
  return 16.0 * kUlp *
         (std::abs(at_c_.value) + std::abs(c_) * (std::abs(epsilon) + absolute_loss_) + 16.0);
}

double Contour::log_chernoff(double epsilon) const {
  return at_c_.value - c_ * epsilon + log_chernoff_factor(c_) + rounding(epsilon);
}

Contour::Value Contour::at(double epsilon) const {
  const double scale = at_c_.value - c_ * epsilon;
  if (scale < kLogNothing) return {scale, scale, -c_, 0.0, 0.0};
  const Sum total = sum(epsilon);
  const double exponent = rounding(epsilon);
  // The rounding errors along the line: of the phases tau L, and of phi where it is small.
  const double along = (loss_error_ + 4.0 * kUlp * std::abs(epsilon)) * total.moment +
                       4.0 * kUlp * (total.size + total.pole);
  const double rounded = along + exponent * std::abs(total.fine);
  const double error = std::abs(total.fine - total.coarse) + panels_error_ + tail_ + rounded;
  const double size = c_ > 0.0 ? total.fine : -total.fine;
  const double most = scale + std::log((std::max(size, 0.0) + 4.0 * error) / kPi) + exponent;
  if (!(size > 2.0 * rounded)) return {most, std::nan(""), 0.0, kInfinity, kInfinity};
  return {most, scale + std::log(size / kPi), total.slope / total.fine, error / size,
          rounded / size};
}

namespace {

/// Searches for the smallest value of f(c, K(c)) over c > 0, starting from a guess.
template <class Function>
double smallest(PrivacyLoss& loss, double near, const Function& f) {
  const auto at = [&](double log_c) {
    const double c = std::exp(log_c);
    return f(c, loss.cumulant(c).value);
  };
  const double centre = std::log(std::min(near, loss.largest_tilt()));
  const double high = std::min(centre + 3.0, std::log(loss.largest_tilt()));
  return boost::math::tools::brent_find_minima(at, centre - 5.0, high, 26).second;
}

/// Return ln delta and the epsilon that Chernoff's inequality proves at the best c.
double chernoff_delta(PrivacyLoss& loss, double epsilon, double near) {
  return smallest(loss, near, [&](double c, double cumulant) {
    const double rounding = 16.0 * kUlp * (std::abs(cumulant) + c * std::abs(epsilon) + 4.0);
    return cumulant - c * epsilon + log_chernoff_factor(c) + rounding;
  });
}
double chernoff_epsilon(PrivacyLoss& loss, double delta, double near) {
  const double target = std::log(delta);
  return std::max(0.0, smallest(loss, near, [&](double c, double cumulant) {
                    const double rounding = 16.0 * kUlp * (std::abs(cumulant) - target + 4.0);
                    return (cumulant + log_chernoff_factor(c) - target + rounding) / c;
                  }));
}

}  // namespace

Bounds delta_of(PrivacyLoss& loss, double epsilon) {
  Bounds best{0.0, std::min(1.0, epsilon >= 0.0 ? loss.most_variation() : 1.0), kInfinity};
  if (epsilon >= loss.supremum()) return {0.0, 0.0, 0.0};
  for (int refinement = 0; refinement < kRefinements; ++refinement) {
    const Contour contour(loss, epsilon, refinement);
    const auto value = contour.at(epsilon);
    if (!contour.gives_rest()) {
      const double most = std::min(contour.log_chernoff(epsilon), value.most);
      best.upper = std::min(best.upper, std::exp(most) * (1.0 + 4.0 * kUlp));
    }
    if (std::isnan(value.log)) break;  // delta is below the rounding error of the sum
    const double part = std::exp(value.log);
    const double delta = contour.gives_rest() ? 1.0 - part : part;
    const double error = (value.error * part + 4.0 * kUlp * delta) / delta;
    const bool helped = error < 0.3 * best.relative_error;
    if (error < best.relative_error) {
      // A large error may be mostly rounding, whose estimate may be off by a factor.
      const double margin = error > kLittle ? 4.0 * error : error;
      best.lower = std::max(0.0, delta * (1.0 - margin));
      best.upper = std::min(best.upper, delta * (1.0 + margin));
      best.relative_error = margin;
    }
    // Finer steps do not reduce rounding errors.
    if (value.error <= kSharp + 2.0 * value.rounding || !helped || contour.exhausted()) break;
  }
  if (best.relative_error > kLoose) {
    const double near = right_saddle(loss, epsilon).c;
    best.upper = std::min(best.upper, std::exp(chernoff_delta(loss, epsilon, near)));
  }
  // Below the smallest double the only possible upper bound is the smallest double.
  constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
  if (best.upper <= kSmallest) best.relative_error = 0.0;
  best.upper = std::clamp(best.upper, kSmallest, 1.0);
  best.lower = std::min(best.lower, best.upper);
  return best;
}

namespace {

struct Root {
  double epsilon = 0.0;
  Contour::Value value;
  double miss = 0.0;  // distance of the logarithm from its target
};

/// The interval known to contain the root.
struct Bracket {
  double low = 0.0;         // delta(low) > delta, if proved
  double high = kInfinity;  // delta(high) <= delta
  bool low_is_proved = false;

  bool holds(double epsilon) const { return epsilon > low && epsilon < high; }
  /// Returns the next point to try: `wanted`, if it is inside the bracket.
  double next(double wanted, double step) const {
    if (holds(wanted)) return wanted;
    if (!low_is_proved) return low;
    return std::isinf(high) ? low + step : 0.5 * (low + high);
  }
};

/// Newton's iteration for ln delta, or for ln(1 - delta), on one contour. It stays within
/// contour.radius() of `start`, where the contour is accurate.
Root newton(const Contour& contour, double start, double delta, const Bracket& bracket) {
  const double target = contour.gives_rest() ? std::log1p(-delta) : std::log(delta);
  const double least = std::max(start - contour.radius(), bracket.low);
  const double most = std::min(start + contour.radius(), bracket.high);
  Root root{start, {}};
  for (int i = 0; i < kMostIterations; ++i) {
    root.value = contour.at(root.epsilon);
    root.miss = std::abs(target - root.value.log);
    const double step = (target - root.value.log) / root.value.slope;
    if (!std::isfinite(step)) {
      root.value.error = kInfinity;
      break;
    }
    const double next = std::clamp(root.epsilon + step, least, most);
    // The remaining error is rounding, which root.miss includes.
    if (std::abs(next - root.epsilon) <= 4.0 * kUlp * std::abs(next)) break;
    if (i + 1 < kMostIterations) root.epsilon = next;
  }
  return root;
}

}  // namespace

Bounds epsilon_of(PrivacyLoss& loss, double delta) {
  if (loss.most_variation() <= delta) return {0.0, 0.0, 0.0};
  const double target = std::log(delta);
  const Saddle start = saddle_of_delta(loss, delta);
  Bounds best{0.0, kInfinity, kInfinity};
  Bracket bracket;
  double epsilon = std::max(0.0, epsilon_at(start));
  int refinement = 0;
  for (int round = 0; round < kMostRounds && refinement < kRefinements; ++round) {
    const Contour contour(loss, epsilon, refinement);
    const auto here = contour.at(epsilon);
    if (std::isnan(here.log)) {
      if (contour.gives_rest() || here.most > target) break;  // only rounding remains
      bracket.high = epsilon;
      best.upper = std::min(best.upper, epsilon);
      epsilon = bracket.next(0.5 * epsilon, contour.radius());
      continue;
    }
    const double excess = contour.gives_rest() ? std::log1p(-delta) - here.log : here.log - target;
    if (excess + here.error <= 0.0) {
      if (epsilon == 0.0) return {0.0, 0.0, 0.0};
      bracket.high = std::min(bracket.high, epsilon);
    } else if (excess > here.error) {
      bracket.low = std::max(bracket.low, epsilon);
      bracket.low_is_proved = true;
    }
    const Root root = newton(contour, epsilon, delta, bracket);
    const double away = std::abs(root.epsilon - epsilon);
    if (!std::isfinite(root.value.error)) {
      epsilon = bracket.next(0.5 * (epsilon + root.epsilon), contour.radius());
      continue;
    }
    if (!bracket.holds(root.epsilon) && away > 0.0) {
      epsilon = bracket.next(root.epsilon, contour.radius());
      continue;
    }
    const double relative = (root.value.error > kLittle ? 4.0 : 1.0) * root.value.error + root.miss;
    // ln delta is nearly linear over such distances; the last factor more than compensates for the
    // difference.
    const double error =
        relative / std::abs(root.value.slope) * (1.0 + 10.0 * relative) + 4.0 * kUlp * root.epsilon;
    const bool helped = relative < 0.3 * best.relative_error;
    if (relative < std::min(kLoose, best.relative_error)) {
      best = {std::max(0.0, root.epsilon - error), std::max(0.0, root.epsilon + error), relative};
    }
    if (relative <= kSharp + 2.0 * root.value.rounding) return best;
    // A contour for exactly this place may be more accurate than the present one; otherwise a finer
    // contour is needed.
    if (away > 0.01 * root.epsilon) {
      epsilon = bracket.next(root.epsilon, contour.radius());
    } else {
      if (!helped || contour.exhausted()) break;
      ++refinement;
    }
  }
  if (best.relative_error > kLoose) {
    best.upper = std::min(best.upper, chernoff_epsilon(loss, delta, start.c));
  }
  best.upper = std::min(best.upper, loss.supremum());
  best.lower = std::min(best.lower, best.upper);
  return best;
}

}  // namespace saddle_point
