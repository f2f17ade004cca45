#include "renyi.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <cmath>
#include <limits>

#include "privgrad/upward.hpp"

namespace rdp {
namespace {

using namespace privgrad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kPi = 3.14159265358979323846;

// The quadratures may omit a relative exp(-kNegligible), which is far below one rounding error.
constexpr double kNegligible = 42.0;

// The rounding error of one term of the quadrature, without its exponent, in units of the last
// place. Most of it comes from the cancellation in f^a - 1 - a(f - 1) just above the range of the
// series.
constexpr double kTermRoundings = 160.0;

// The integrand is computed as a series if a |f - 1| is below this.
constexpr double kSeriesBelow = 0.05;

// If exponents exceed this, terms are summed relative to the largest term.
constexpr double kLargeExponent = 600.0;

// With less noise than this, the moments are bounded instead of integrated.
constexpr double kLeastIntegratedSigma = 0.01;

// Below this sigma, the second bound on each term j of Theorem 27 (see SubsetGaussian) is smaller
// than the first: the moments differ from exp(j (j-1) / (2 sigma^2)) by less than a relative
// 3 exp(-22).
constexpr double kLeastSubsetSigma = 0.3;

// The most nodes that are stored.
constexpr std::int64_t kKeptNodes = 512;

/// Returns e^y - 1 - y >= 0, accurate to about 50 roundings.
double exp_minus_linear(double y) {
  if (std::fabs(y) > 0.1) return std::expm1(y) - y;
  double term = 0.5 * y * y;
  double sum = term;
  for (int k = 3; std::fabs(term) > 1e-18 * sum; ++k) {
    term *= y / k;
    sum += term;
  }
  return sum;
}

/// Returns (1 + u)^a - 1 - a u by its binomial series, for a |u| small.
double power_series(double order, double excess, double u) {
  double term = 0.5 * order * excess * u * u;
  double sum = term;
  for (int k = 3; std::fabs(term) > 1e-18 * sum; ++k) {
    term *= u * (order - k + 1) / k;
    sum += term;
  }
  return sum;
}

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == -kInfinity ? a : a + std::log1p(std::exp(b - a));
}

double log_binomial(double n, double k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

/// Returns the largest step for which the trapezoid rule on exp(-t^2/2) times something bounded in
/// the strip |Im t| < pi sigma has an error below exp(-kNegligible):
/// 2 pi y / h - y^2 / 2 >= kNegligible at the best y inside the strip.
double trapezoid_step(double sigma) {
  const double y = std::min(kPi * sigma, std::sqrt(2.0 * kNegligible));
  return 2.0 * kPi * y / (kNegligible + 0.5 * y * y);
}

}  // namespace

double concentrated_log_moment(double rho, double order) {
  if (rho == 0.0) return 0.0;
  return round_up((order - 1.0) * rho * order, 4.0);
}

double laplace_log_moment(double scale, double order) {
  const double excess = order - 1.0;
  const double up = excess / scale;
  const double down = order / scale;
  const double twice = 2.0 * order - 1.0;
  if (up > kLargeExponent) {
    return round_up(
        up + std::log(order / twice) + std::log1p(excess / order * std::exp(-up - down)), 8.0);
  }
  // The terms linear in 1/scale cancel: a (a-1) - (a-1) a = 0.
  const double moment_minus_one =
      (order / twice) * exp_minus_linear(up) + (excess / twice) * exp_minus_linear(-down);
  return round_up(std::log1p(round_up(moment_minus_one, 64.0 + 2.0 * up)), 4.0);
}

SampledGaussian::SampledGaussian(double probability, double sigma)
    : SampledGaussian(probability, sigma, trapezoid_step(sigma),
                      trapezoid_step(sigma) / std::sqrt(2.0 * kPi)) {}

SampledGaussian SampledGaussian::discrete(double probability, double sigma, double sensitivity) {
  const double multiplier = sigma / sensitivity;
  const double step = 1.0 / sigma;
  if (step <= trapezoid_step(multiplier)) return {probability, multiplier};
  // Summing the omitted terms too would make the sum larger, and so each weight smaller.
  long double sum = 1.0L;
  const auto terms = static_cast<std::int64_t>(std::sqrt(2.0 * kNegligible) * sigma) + 1;
  for (std::int64_t k = 1; k <= terms; ++k) {
    const double t = static_cast<double>(k) * step;
    sum += 2.0L * static_cast<long double>(std::exp(-0.5 * t * t));
  }
  return {probability, multiplier, step, static_cast<double>(1.0L / sum)};
}

SampledGaussian::SampledGaussian(double probability, double sigma, double step, double weight)
    : q_(probability),
      log_q_(std::log(probability)),
      sigma_(sigma),
      step_(step),
      weight_(weight),
      first_index_(-static_cast<std::int64_t>(std::ceil(std::sqrt(2.0 * kNegligible) / step_))) {}

SampledGaussian::Node SampledGaussian::node(std::int64_t index) const {
  Node node;
  node.t = static_cast<double>(index) * step_;
  const double x = (node.t - 0.5 / sigma_) / sigma_;
  node.u = q_ * std::expm1(x);
  node.log_f = x > kLargeExponent ? log_q_ + x : std::log1p(node.u);
  node.weight = weight_ * std::exp(-0.5 * node.t * node.t);
  return node;
}

template <class Visit>
void SampledGaussian::visit(std::int64_t first, std::int64_t last, Visit&& body) {
  for (std::int64_t index = first; index <= last; ++index) {
    const std::int64_t place = index - first_index_;
    if (place < 0 || place >= kKeptNodes) {
      body(node(index));
      continue;
    }
    while (static_cast<std::int64_t>(nodes_.size()) <= place) {
      nodes_.push_back(node(first_index_ + static_cast<std::int64_t>(nodes_.size())));
    }
    body(nodes_[static_cast<std::size_t>(place)]);
  }
}

void SampledGaussian::add_range(double order, std::int64_t first, std::int64_t last, Sum& sum) {
  const double excess = order - 1.0;
  const double log_scale = std::log(weight_);
  visit(first, last, [&](const Node& at) {
    const double half_square = 0.5 * at.t * at.t;
    const double power = order * at.log_f;
    sum.highest = std::max(sum.highest, power - half_square);
    double term = 0.0;
    if (order * std::fabs(at.u) < kSeriesBelow) {
      term = at.weight * power_series(order, excess, at.u);
    } else if (at.log_f < 30.0 && excess * at.log_f < kLargeExponent) {
      // f^a - 1 - a u = f (f^(a-1) - 1) - (a-1) u
      term = at.weight * ((1.0 + at.u) * std::expm1(excess * at.log_f) - excess * at.u);
    } else if (excess * at.log_f < kLargeExponent) {
      term =
          std::exp(at.log_f - half_square + log_scale) * (std::expm1(excess * at.log_f) - excess) +
          at.weight * excess;
    } else {
      term = std::exp(power - half_square + log_scale);
    }
    const double exponent_size =
        std::max(0.0, power) + half_square + order * (std::fabs(at.t) + 0.5 / sigma_) / sigma_;
    sum.value += term;
    sum.error += term * (kTermRoundings + 4.0 * exponent_size);
  });
}

/// Returns ln of the trapezoid sum of f^a, summed relative to its largest term: for moments beyond
/// the range of a double. The omitted terms, -1 - a (f - 1), do not affect such moments.
double SampledGaussian::log_sum_of_powers(double order, const std::vector<Range>& ranges) {
  std::vector<std::pair<double, double>> exponents;  // each with the size of its terms
  double highest = 0.0;
  for (const auto& [first, last] : ranges) {
    visit(first, last, [&](const Node& at) {
      const double exponent = order * at.log_f - 0.5 * at.t * at.t;
      exponents.emplace_back(exponent, order * std::fabs(at.log_f) + at.t * at.t +
                                           order * (std::fabs(at.t) + 0.5 / sigma_) / sigma_);
      highest = std::max(highest, exponent);
    });
  }
  double sum = 0.0;
  double error = 0.0;
  for (const auto& [exponent, size] : exponents) {
    const double term = std::exp(exponent - highest);
    sum += term;
    error += term * (kTermRoundings + 4.0 * size);
  }
  return round_up(highest + std::log(sum * weight_) + kUlp * error / sum, 4.0);
}

double SampledGaussian::log_moment(double order) {
  if (sigma_ < kLeastIntegratedSigma) {
    const double full = concentrated_log_moment(0.5 / (sigma_ * sigma_), order);
    const double jensen =
        (order - 1.0) * std::log(2.0) + log_add(order * std::log1p(-q_), order * log_q_ + full);
    return round_up(std::min(full, jensen + kUlp * 8.0 * (full + order * -log_q_)), 8.0);
  }
  // The integrand is largest near 0, near max(a, 2) / s, or somewhere between, and outside decays
  // at least like a normal density.
  const double margin = std::sqrt(2.0 * kNegligible);
  const double peak = order / sigma_;
  const double far = std::max(order, 2.0) / sigma_;
  // f^a <= 2^a ((1-q)^a + (q e^x)^a), a sum of two normal densities. The valley between them is
  // omitted where this bound is negligible even against q^2/s^2, by which small moments exceed 1.
  const double inner = std::sqrt(2.0 * (kNegligible + order * std::log(2.0) - 2.0 * log_q_ +
                                        2.0 * std::log(std::max(1.0, sigma_))));
  const auto down = [&](double t) { return static_cast<std::int64_t>(std::floor(t / step_)); };
  const auto up = [&](double t) { return static_cast<std::int64_t>(std::ceil(t / step_)); };
  std::vector<Range> ranges{{down(-margin), up(far + margin)}};
  if (peak > 2.0 * inner + 1.0) {
    ranges = {{down(-margin), up(inner)},
              {std::max(up(inner) + 1, down(peak - inner)), up(far + margin)}};
  }
  Sum sum;
  for (const auto& [first, last] : ranges) add_range(order, first, last, sum);
  if (sum.highest > kLargeExponent) return log_sum_of_powers(order, ranges);
  return round_up(std::log1p(sum.value + kUlp * sum.error), 4.0);
}

namespace {

/// Adds up upper bounds on an integral over pieces of an interval.
struct Quadrature {
  double value = 0.0;
  double error = 0.0;  ///< In units of the last place.

  /// \param weight  a bound on one piece, or one term of its quadrature.
  /// \param roundings  the rounding error of `weight`, in units of its last place.
  void add(double weight, double roundings) {
    value += weight;
    error += weight * roundings;
  }
};

/// Computes f^a - 1 - a (f - 1) >= 0 for f = 1 - q + q e^loss.
class ExcessPower {
 public:
  ExcessPower(double q, double order) : q_(q), order_(order), excess_(order - 1.0) {}

  double log_f(double loss) const {
    return loss > 0.0 ? loss + std::log(q_ + (1.0 - q_) * std::exp(-loss))
                      : std::log1p(q_ * std::expm1(loss));
  }
  double operator()(double loss) const {
    const double log_f = this->log_f(loss);
    const double u = loss < 30.0 ? q_ * std::expm1(loss) : std::expm1(log_f);
    if (order_ * std::fabs(u) < kSeriesBelow) return power_series(order_, excess_, u);
    // f^a - 1 - a u = f (f^(a-1) - 1) - (a-1) u
    return (1.0 + u) * std::expm1(excess_ * log_f) - excess_ * u;
  }
  /// Returns the maximum over the losses from `low` to `high`: f^a - 1 - a (f - 1) is convex in f,
  /// and 0 at f = 1.
  double most(double low, double high) const { return std::max((*this)(low), (*this)(high)); }
  /// Bounds the absolute value for complex losses of real part <= high: |f(x + i y)| <= f(x).
  double beyond(double /*low*/, double high) const {
    return std::exp(std::min(700.0, order_ * log_f(high))) + 1.0 +
           order_ * (q_ + std::exp(std::log(q_) + high));
  }

 private:
  double q_, order_, excess_;
};

/// Computes f^a divided by its value at the largest loss.
class ScaledPower {
 public:
  ScaledPower(double q, double order, double top)
      : of_(q, order), order_(order), log_top_(of_.log_f(top)) {}
  double operator()(double loss) const { return std::exp(order_ * (of_.log_f(loss) - log_top_)); }
  double most(double /*low*/, double high) const { return (*this)(high); }
  double beyond(double /*low*/, double high) const { return (*this)(high); }
  double log_top() const { return order_ * log_top_; }

 private:
  ExcessPower of_;
  double order_, log_top_;
};

/// Integrates e^(-(s + l) / 2) F(l) / 4 over the losses l from -s to s, panel by panel.
template <class Function>
class Panels {
 public:
  Panels(const Function& f, double q, double order, double s)
      : f_(f), q_(q), order_(order), s_(s) {}

  /// \param enough  a panel whose bound is at most this contributes the bound and is not
  ///   integrated.
  void add(double low, double high, double enough, Quadrature& sum) const {
    const double width = high - low;
    const double bound = 0.25 * width * std::exp(-0.5 * (s_ + low)) * f_.most(low, high);
    if (bound <= enough) return sum.add(bound, kRoundings);
    if (0.5 * width <= half_width(high)) return integrate(low, high, sum);
    const double middle = 0.5 * (low + high);
    add(middle, high, enough, sum);
    add(low, middle, enough, sum);
  }

 private:
  static constexpr double kRoundings = 64.0;
  // The sum of the semiaxes, in half widths of a panel, of the ellipse whose foci are the panel's
  // ends.
  static constexpr double kRho = 12.0;
  static constexpr double kReach = 0.5 * (kRho + 1.0 / kRho);

  /// Returns a half width that keeps the ellipse in the strip |Im l| < pi and limits the growth of
  /// F in it: the logarithm of f^a has the slope a q e^l / f, which increases.
  double half_width(double high) const {
    const double far = high + 0.5 * kReach;
    const double slope = order_ / (1.0 + (1.0 - q_) / q_ * std::exp(-far));
    return std::min(0.5, 1.0 / slope);
  }

  /// Gauss's rule of 16 points is exact for polynomials of degree 31. A function bounded by M in
  /// the ellipse is approximated by such a polynomial to within 2 M rho^-31 / (rho - 1) (Bernstein;
  /// Trefethen 2013, Theorem 8.2), so the error of the integral over [-1, 1] is at most 4 times
  /// that.
  void integrate(double low, double high, Quadrature& sum) const {
    using Rule = boost::math::quadrature::gauss<double, 16>;
    const double middle = 0.5 * (low + high);
    const double half = 0.5 * (high - low);
    const auto at = [&](double loss, double weight) {
      const double term = 0.25 * half * weight * std::exp(-0.5 * (s_ + loss)) * f_(loss);
      sum.add(term, kTermRoundings + 8.0 * (order_ + 1.0) * (s_ + 1.0));
    };
    for (std::size_t i = 0; i < Rule::abscissa().size(); ++i) {
      at(middle - half * Rule::abscissa()[i], Rule::weights()[i]);
      at(middle + half * Rule::abscissa()[i], Rule::weights()[i]);
    }
    const double first = middle - half * kReach;
    const double most =
        0.25 * half * std::exp(-0.5 * (s_ + first)) * f_.beyond(first, middle + half * kReach);
    sum.add(8.0 * most * std::pow(kRho, -31.0) / (kRho - 1.0), kRoundings);
  }

  const Function& f_;
  double q_, order_, s_;
};

/// Returns E_Q[F(l)] over the losses l of Laplace noise before sampling: atoms at -s and s, whose
/// masses under Q are 1/2 and e^-s / 2, and between them the density e^(-(s + l) / 2) / 4.
template <class Function>
Quadrature laplace_mean(const Function& f, double q, double order, double s) {
  constexpr double kEnough = 1e-20;
  Quadrature sum;
  const double roundings = kTermRoundings + 8.0 * (order + 1.0) * (s + 1.0);
  sum.add(0.5 * f(-s), roundings);
  sum.add(0.5 * std::exp(-s) * f(s), roundings);
  Panels<Function>(f, q, order, s).add(-s, s, kEnough * sum.value, sum);
  return sum;
}

}  // namespace

SampledLaplace::SampledLaplace(double probability, double scale)
    : q_(probability), top_(1.0 / scale) {}

double SampledLaplace::log_moment(double order) const {
  const ExcessPower excess(q_, order);
  if (order * excess.log_f(top_) > kLargeExponent) {
    const ScaledPower power(q_, order, top_);
    const Quadrature sum = laplace_mean(power, q_, order, top_);
    return round_up(power.log_top() + std::log(sum.value) + kUlp * sum.error / sum.value, 8.0);
  }
  const Quadrature sum = laplace_mean(excess, q_, order, top_);
  return round_up(std::log1p(sum.value + kUlp * sum.error), 4.0);
}

double SampledLaplace::pure_epsilon() const {
  return round_up(ExcessPower(q_, 2.0).log_f(top_), 16.0);
}

SubsetGaussian::SubsetGaussian(double fraction, double sigma)
    : log_fraction_(std::log(fraction)), sigma_(sigma) {}

/// Returns ln B(2 half), B(l) = E_Q[(dP/dQ - 1)^l] for P = N(1, s^2), Q = N(0, s^2). The integrand
/// is entire; on the line Im t = y its absolute value is at most about exp(y^2) times its value on
/// the real line, so a step of pi / sqrt(kNegligible) suffices, or less where e^(t/s) oscillates
/// faster than the density.
double SubsetGaussian::log_central_moment(std::int64_t half) {
  while (static_cast<std::int64_t>(log_central_.size()) < half) {
    const double power = 2.0 * static_cast<double>(log_central_.size() + 1);
    const double step = std::min(0.4, 0.4 * sigma_);
    const double margin = std::sqrt(2.0 * kNegligible) + std::sqrt(power);
    const auto first = static_cast<std::int64_t>(std::floor(-margin / step));
    const auto last = static_cast<std::int64_t>(std::ceil((power / sigma_ + margin) / step));
    double sum = -kInfinity;
    std::vector<double> exponents;
    double highest = -kInfinity;
    for (std::int64_t index = first; index <= last; ++index) {
      const double t = static_cast<double>(index) * step;
      const double x = (t - 0.5 / sigma_) / sigma_;
      const double log_distance = x > 40.0 ? x : std::log(std::fabs(std::expm1(x)));
      const double exponent = power * log_distance - 0.5 * t * t;
      exponents.push_back(exponent);
      highest = std::max(highest, exponent);
    }
    double scaled = 0.0;
    for (const double exponent : exponents) scaled += std::exp(exponent - highest);
    sum = highest + std::log(scaled * step / std::sqrt(2.0 * kPi));
    const double size = power * (power / sigma_ + margin + 1.0 / sigma_) / sigma_ + 64.0;
    log_central_.push_back(sum + 8.0 * kUlp * size);
  }
  return log_central_[static_cast<std::size_t>(half - 1)];
}

double SubsetGaussian::at_integer(std::int64_t order) {
  if (order <= 1) return 0.0;
  constexpr std::int64_t kExactUpTo = 256;
  const double n = static_cast<double>(order);
  const double log_e2 = 1.0 / (sigma_ * sigma_);  // eps(2)
  const double log_b2 = log_e2 > 40.0 ? log_e2 : std::log(std::expm1(log_e2));
  double log_sum = -kInfinity;  // ln of the terms that are added to 1
  double largest = 0.0;
  for (std::int64_t j = 2; j <= order; ++j) {
    const double k = static_cast<double>(j);
    double log_term = std::log(2.0) + k * (k - 1.0) / 2.0 * log_e2;
    if (j == 2 || (order <= kExactUpTo && sigma_ >= kLeastSubsetSigma)) {
      const double log_b =
          j == 2 ? log_b2 : 0.5 * (log_central_moment(j / 2) + log_central_moment((j + 1) / 2));
      log_term = std::min(log_term, std::log(4.0) + log_b);
    }
    log_term += log_binomial(n, k) + k * log_fraction_;
    largest = std::max(largest, std::fabs(log_term) + k * k * log_e2 + k * -log_fraction_ +
                                    4.0 * std::lgamma(n + 1.0));
    log_sum = log_add(log_sum, log_term);
  }
  log_sum += 8.0 * kUlp * (largest + n);
  return round_up(log_sum > 40.0 ? log_sum + std::exp(-log_sum) : std::log1p(std::exp(log_sum)),
                  8.0);
}

double SubsetGaussian::log_moment(double order) {
  const double below = std::floor(order);
  const auto low = static_cast<std::int64_t>(below);
  const double share = order - below;
  if (share == 0.0) return at_integer(low);
  return round_up((1.0 - share) * at_integer(low) + share * at_integer(low + 1), 4.0);
}

}  // namespace rdp
