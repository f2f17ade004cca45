#include "renyi.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "privgrad/upward.hpp"

namespace rdp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kPi = 3.14159265358979323846;

// exp(-kNegligible) is what the quadratures may leave out: far below one rounding.
constexpr double kNegligible = 42.0;

// Rounding errors of one term of the quadrature apart from those of its exponent, in units of the
// last place. Most of it is for the cancellation in f^a - 1 - a(f - 1) where the series ends.
constexpr double kTermRoundings = 160.0;

// Where a |f - 1| is below this the integrand is summed as a series.
constexpr double kSeriesBelow = 0.05;

// Exponents beyond this are summed relative to the largest.
constexpr double kLargeExponent = 600.0;

// Less noise than this is bounded instead of integrated.
constexpr double kLeastIntegratedSigma = 0.01;

// Below this sigma the second bound on every term of Theorem 27 is the smaller one: the moments
// differ from exp(j (j-1) / (2 s^2)) by less than 3 exp(-22) of it.
constexpr double kLeastSubsetSigma = 0.3;

// More nodes than this are not kept.
constexpr std::int64_t kKeptNodes = 512;

/// e^y - 1 - y >= 0, right to about 50 roundings.
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

/// (1 + u)^a - 1 - a u by its binomial series, for a |u| small.
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

/// The largest step for which the trapezoid rule on exp(-t^2/2) times something bounded in the
/// strip |Im t| < pi sigma misses less than exp(-kNegligible): 2 pi y / h - y^2 / 2 >= kNegligible
/// at the best y inside the strip.
double trapezoid_step(double sigma) {
  const double y = std::min(kPi * sigma, std::sqrt(2.0 * kNegligible));
  return 2.0 * kPi * y / (kNegligible + 0.5 * y * y);
}

}  // namespace

double concentrated_log_moment(double rho, double order) {
  if (rho == 0.0) return 0.0;
  return privgrad::round_up((order - 1.0) * rho * order, 4.0);
}

double laplace_log_moment(double scale, double order) {
  const double excess = order - 1.0;
  const double up = excess / scale;
  const double down = order / scale;
  const double twice = 2.0 * order - 1.0;
  if (up > kLargeExponent) {
    return privgrad::round_up(
        up + std::log(order / twice) + std::log1p(excess / order * std::exp(-up - down)), 8.0);
  }
  // The terms linear in 1/scale cancel: a (a-1) - (a-1) a = 0.
  const double moment_minus_one =
      (order / twice) * exp_minus_linear(up) + (excess / twice) * exp_minus_linear(-down);
  return privgrad::round_up(std::log1p(privgrad::round_up(moment_minus_one, 64.0 + 2.0 * up)), 4.0);
}

SampledGaussian::SampledGaussian(double probability, double sigma)
    : q_(probability),
      log_q_(std::log(probability)),
      sigma_(sigma),
      step_(trapezoid_step(sigma)),
      first_index_(-static_cast<std::int64_t>(std::ceil(std::sqrt(2.0 * kNegligible) / step_))) {}

SampledGaussian::Node SampledGaussian::node(std::int64_t index) const {
  Node node;
  node.t = static_cast<double>(index) * step_;
  const double x = (node.t - 0.5 / sigma_) / sigma_;
  node.u = q_ * std::expm1(x);
  node.log_f = x > kLargeExponent ? log_q_ + x : std::log1p(node.u);
  node.weight = step_ / std::sqrt(2.0 * kPi) * std::exp(-0.5 * node.t * node.t);
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
  const double log_scale = std::log(step_ / std::sqrt(2.0 * kPi));
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

/// ln of the trapezoid sum of f^a, relative to its largest term: for moments beyond the range of
/// a double, to which the terms left out here, -1 - a (f - 1), add up to 0.
double SampledGaussian::log_sum_of_powers(double order,
                                          const std::vector<std::pair<double, double>>& ranges) {
  std::vector<std::pair<double, double>> exponents;  // and their sizes
  double highest = 0.0;
  for (const auto& [lo, hi] : ranges) {
    visit(static_cast<std::int64_t>(std::floor(lo / step_)),
          static_cast<std::int64_t>(std::ceil(hi / step_)), [&](const Node& at) {
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
  return privgrad::round_up(
      highest + std::log(sum * step_ / std::sqrt(2.0 * kPi)) + kUlp * error / sum, 4.0);
}

double SampledGaussian::log_moment(double order) {
  if (sigma_ < kLeastIntegratedSigma) {
    const double full = concentrated_log_moment(0.5 / (sigma_ * sigma_), order);
    const double jensen =
        (order - 1.0) * std::log(2.0) + log_add(order * std::log1p(-q_), order * log_q_ + full);
    return privgrad::round_up(std::min(full, jensen + kUlp * 8.0 * (full + order * -log_q_)), 8.0);
  }
  // The integrand is largest near 0, near max(a, 2) / s, or somewhere between, and falls off at
  // least like a normal density beyond both.
  const double margin = std::sqrt(2.0 * kNegligible);
  const double peak = order / sigma_;
  const double far = std::max(order, 2.0) / sigma_;
  // f^a <= 2^a ((1-q)^a + (q e^x)^a), two normal densities: where this is negligible even against a
  // moment of 1 + q^2/s^2, the valley between the two is left out.
  const double inner = std::sqrt(2.0 * (kNegligible + order * std::log(2.0) - 2.0 * log_q_ +
                                        2.0 * std::log(std::max(1.0, sigma_))));
  std::vector<std::pair<double, double>> ranges{{-margin, far + margin}};
  if (peak > 2.0 * inner + 1.0) ranges = {{-margin, inner}, {peak - inner, far + margin}};
  Sum sum;
  for (const auto& [lo, hi] : ranges) {
    add_range(order, static_cast<std::int64_t>(std::floor(lo / step_)),
              static_cast<std::int64_t>(std::ceil(hi / step_)), sum);
  }
  if (sum.highest > kLargeExponent) return log_sum_of_powers(order, ranges);
  return privgrad::round_up(std::log1p(sum.value + kUlp * sum.error), 4.0);
}

SubsetGaussian::SubsetGaussian(double fraction, double sigma)
    : log_fraction_(std::log(fraction)), sigma_(sigma) {}

/// ln B(2 half), B(l) = E_Q[(dP/dQ - 1)^l] for P = N(1, s^2), Q = N(0, s^2). The integrand is
/// entire; on the line Im t = y its size is at most about exp(y^2) times that on the real one, so a
/// step of pi / sqrt(kNegligible) would do, less where e^(t/s) turns faster than the density.
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
  double log_sum = -kInfinity;  // of what is added to 1
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
  return privgrad::round_up(
      log_sum > 40.0 ? log_sum + std::exp(-log_sum) : std::log1p(std::exp(log_sum)), 8.0);
}

double SubsetGaussian::log_moment(double order) {
  const double below = std::floor(order);
  const auto low = static_cast<std::int64_t>(below);
  const double share = order - below;
  if (share == 0.0) return at_integer(low);
  return privgrad::round_up((1.0 - share) * at_integer(low) + share * at_integer(low + 1), 4.0);
}

}  // namespace rdp
