#include "loss.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pld {
namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kSqrtHalf = 0.70710678118654752440;

// Beyond this many standard deviations, normal densities are too small for normal doubles.
constexpr double kFarthest = 38.0;

struct Normal {
  double above, below;
};

/// Returns both tails of a standard normal at z. The smaller tail is accurate to a few ulps (glibc
/// documents 5 for erfc).
Normal normal_tails(double z) {
  const double small = 0.5 * std::erfc(std::fabs(z) * kSqrtHalf);
  return z >= 0.0 ? Normal{small, 1.0 - small} : Normal{1.0 - small, small};
}

double smaller(const Normal& n) { return std::min(n.above, n.below); }

/// Returns the relative error of a tail at z = a + b, where z is computed in floating point: the
/// absolute value of d ln(tail) / dz is at most |z| + 1 on the side of the smaller tail.
double tail_error(double z, double size_of_terms) {
  return kUlp * (8.0 + 4.0 * (size_of_terms + std::fabs(z)) * (std::fabs(z) + 1.0));
}

/// Returns above(u) - above(v) for u <= v.
double between(const Normal& u, const Normal& v) {
  return u.above + v.above < u.below + v.below ? u.above - v.above : v.below - u.below;
}

/// above(z) / density(z) of a standard normal for z >= 20, by its enveloping asymptotic series
/// (Abramowitz and Stegun 26.2.12): the error is below the first omitted term, which is < 1e-15.
double mills_ratio(double z) {
  const double inverse_square = 1.0 / (z * z);
  double term = 1.0;
  double sum = 1.0;
  for (int k = 1; k <= 10; ++k) {
    term *= -(2.0 * k - 1.0) * inverse_square;
    sum += term;
  }
  return sum / z;
}

Tails everything_above(double threshold_error) {
  return {.p_above = 1.0,
          .p_below = 0.0,
          .q_above = 1.0,
          .q_below = 0.0,
          .threshold_error = threshold_error};
}
Tails everything_below(double threshold_error) { return {.threshold_error = threshold_error}; }

/// Returns ln sinh(y) for y > 0, which does not overflow.
double log_sinh(double y) {
  return y < 1.0 ? std::log(std::sinh(y)) : y - std::log(2.0) + std::log1p(-std::exp(-2.0 * y));
}

double density(double z) { return 0.3989422804014327 * std::exp(-0.5 * z * z); }

/// Returns ln(1 - q + q e^a), without overflow.
double log_mixture(double q, double a) {
  return a > 0.0 ? a + std::log(q + (1.0 - q) * std::exp(-a)) : std::log1p(q * std::expm1(a));
}

class Gaussian final : public LossPair {
 public:
  explicit Gaussian(double sigma) : sigma_(sigma) {}

  // The loss at x is (2x - 1) / (2 sigma^2).
  Tails at(double threshold) const override {
    const double half = 0.5 / sigma_;
    const double z0 = sigma_ * threshold + half;
    const double z1 = sigma_ * threshold - half;
    const Normal n0 = normal_tails(z0);
    const Normal n1 = normal_tails(z1);
    const double size = std::fabs(sigma_ * threshold) + half;
    const double error0 = tail_error(z0, size);
    const double error1 = tail_error(z1, size);
    Tails t;
    t.p_above = n1.above;
    t.p_below = n1.below;
    t.q_above = n0.above;
    t.q_below = n0.below;
    t.difference = between(n1, n0);
    t.relative_error = std::max(error0, error1);
    t.difference_error = error0 * smaller(n0) + error1 * smaller(n1) + 2.0 * kUlp * t.difference;
    t.threshold_error = 8.0 * kUlp * (1.0 + 2.0 * std::fabs(threshold) + half / sigma_);
    return t;
  }

  std::vector<Sample> samples() const override {
    std::vector<Sample> points;
    const double step = 0.25;
    // NOLINTNEXTLINE(clang-analyzer-security.FloatLoopCounter): any cover does
    for (double z = -kFarthest; z <= kFarthest + 1.0 / sigma_; z += step) {
      const double loss = z / sigma_ - 0.5 / (sigma_ * sigma_);
      if (!std::isfinite(loss)) continue;
      points.push_back({loss, density(z - 1.0 / sigma_) * step, density(z) * step});
    }
    return points;
  }

  // delta = above(a) - density(a) above(b) / density(b), a, b = epsilon sigma -+ 1 / (2 sigma)
  // (Balle and Wang 2018, Theorem 8), which never overflows.
  Divergence divergence(double epsilon) const override {
    const double half = 0.5 / sigma_;
    const double a = sigma_ * epsilon - half;
    const double b = sigma_ * epsilon + half;
    if (b < 20.0) return LossPair::divergence(epsilon);
    const double gain = normal_tails(a).above;
    const double cost = density(a) * mills_ratio(b);
    const double error = tail_error(a, b) * (std::min(gain, 1.0) + cost);
    return {std::max(0.0, gain - cost), error};
  }

 private:
  double sigma_;
};

/// (1-q) Q + q P against Q, 0 < q < 1, for pairs whose larger tails also have a small relative
/// error. If a is the loss of (P, Q), the sampled loss is ln(1 - q + q e^a), which increases with
/// a, so the two losses define the same events.
class Sampled final : public LossPair {
 public:
  Sampled(double q, LossPairPtr pair) : q_(q), pair_(std::move(pair)) {}

  Tails at(double threshold) const override {
    double own_error = 8.0 * kUlp * std::fabs(threshold);
    double a = 0.0;
    double slope = 1.0;     // d loss / d a = q e^(a - loss)
    if (threshold > 1.0) {  // expm1 may overflow here
      a = threshold - std::log(q_) + std::log1p((q_ - 1.0) * std::exp(-threshold));
    } else {
      const double gain = std::expm1(threshold);
      // Rounding the threshold and expm1 changes the loss, which is at least ln(1 - q).
      const double most = q_ / (1.0 - q_);
      const double lost = gain < 0.0 ? std::min(-gain / (1.0 + gain), most) : 0.0;
      own_error += 8.0 * kUlp * lost;
      const double e = gain / q_;
      if (!(e > -1.0)) return everything_above(own_error);
      a = std::log1p(e);
      slope = std::min(1.0, q_ * (1.0 + e) / (1.0 + gain) + 8.0 * kUlp);
    }
    const Tails of = pair_->at(a);
    Tails t;
    t.p_above = (1.0 - q_) * of.q_above + q_ * of.p_above;
    t.p_below = (1.0 - q_) * of.q_below + q_ * of.p_below;
    t.q_above = of.q_above;
    t.q_below = of.q_below;
    t.difference = q_ * of.difference;
    t.relative_error = of.relative_error + 4.0 * kUlp;
    t.difference_error = q_ * of.difference_error + 2.0 * kUlp * std::fabs(t.difference);
    // Adds the errors of log1p and of the inner pair.
    t.threshold_error =
        own_error + slope * (of.threshold_error + 8.0 * kUlp * (1.0 + std::fabs(a)));
    return t;
  }

  std::vector<Sample> samples() const override {
    std::vector<Sample> points;
    for (const Sample& s : pair_->samples()) {
      const double loss = log_mixture(q_, s.loss);
      if (std::isfinite(loss)) points.push_back({loss, (1.0 - q_) * s.q + q_ * s.p, s.q});
    }
    return points;
  }

  double anchor(double step) const override {
    if (q_ >= 0.5) return 0.0;
    const double least = infimum().loss;
    double anchor = least;
    for (int i = 0; i < 3; ++i) {
      const Tails t = at(anchor + 0.5 * step);
      if (t.q_below < 0.1) return 0.0;
      anchor = std::log1p(-t.difference / t.q_below);
    }
    return anchor + 1e-6 * (anchor - least);
  }

  bool symmetric() const override { return false; }

  Extreme supremum() const override {
    const Extreme of = pair_->supremum();
    if (std::isinf(of.loss)) return of;
    return {log_mixture(q_, of.loss), of.mass * (q_ + (1.0 - q_) * std::exp(-of.loss))};
  }

  // Near a loss of 0, log1p(y) keeps the digits; elsewhere, the logarithm of a sum of two positive
  // numbers keeps them.
  Extreme infimum() const override {
    const Extreme of = pair_->infimum();
    const double lost = q_ * std::expm1(of.loss);
    const double loss =
        lost > -0.5 ? std::log1p(lost) : std::log((1.0 - q_) + q_ * std::exp(of.loss));
    return {loss, of.mass};
  }

 private:
  double q_;
  LossPairPtr pair_;
};

class SampledGaussianReplaced final : public LossPair {
 public:
  SampledGaussianReplaced(double q, double sigma) : q_(q), sigma_(sigma) {}

  // With t = e^(x / sigma^2) and B = e^(-1 / (2 sigma^2)), the loss is
  // ln((1 - q + q B t) / (1 - q + q B / t)). It increases with x and equals g where
  // ln t = g / 2 + asinh((1 - q) sinh(g / 2) / (q B)).
  Tails at(double threshold) const override {
    const double shift = 1.0 / sigma_;
    const double root = half_distance(threshold);
    const double z = sigma_ * (0.5 * threshold + root);
    const Normal n0 = normal_tails(z);
    const Normal plus = normal_tails(z - shift);
    const Normal minus = normal_tails(z + shift);
    const double size = sigma_ * (std::fabs(threshold) + std::fabs(root)) + shift;
    const double error0 = tail_error(z, size);
    const double error_plus = tail_error(z - shift, size);
    const double error_minus = tail_error(z + shift, size);
    Tails t;
    t.p_above = (1.0 - q_) * n0.above + q_ * plus.above;
    t.p_below = (1.0 - q_) * n0.below + q_ * plus.below;
    t.q_above = (1.0 - q_) * n0.above + q_ * minus.above;
    t.q_below = (1.0 - q_) * n0.below + q_ * minus.below;
    t.difference = q_ * between(plus, minus);
    t.relative_error = std::max({error0, error_plus, error_minus});
    t.difference_error = q_ * (error_plus * smaller(plus) + error_minus * smaller(minus)) +
                         2.0 * kUlp * t.difference;
    // d loss / d ln t = 2 - (1 - q) (1 / u + 1 / v), with u the quotient's numerator and v its
    // denominator: v <= 1 and u = e^g v for g >= 0.
    const double slope = std::min(2.0, 2.0 * q_ + 2.0 * std::fabs(threshold));
    t.threshold_error = 16.0 * kUlp *
                        (std::fabs(threshold) +
                         slope * (1.0 + std::fabs(threshold) + std::fabs(root) + shift * shift));
    return t;
  }

  std::vector<Sample> samples() const override {
    std::vector<Sample> points;
    const double step = 0.25;
    const double shift = 1.0 / sigma_;
    // NOLINTNEXTLINE(clang-analyzer-security.FloatLoopCounter): any cover does
    for (double z = -kFarthest - shift; z <= kFarthest + shift; z += step) {
      const double n0 = density(z) * step;
      const double plus = density(z - shift) * step;
      const double minus = density(z + shift) * step;
      const double up = z * shift - 0.5 * shift * shift;
      const double down = -z * shift - 0.5 * shift * shift;
      const double loss = log_mixture(q_, up) - log_mixture(q_, down);
      if (!std::isfinite(loss)) continue;
      points.push_back({loss, (1.0 - q_) * n0 + q_ * plus, (1.0 - q_) * n0 + q_ * minus});
    }
    return points;
  }

 private:
  /// Returns asinh((1 - q) sinh(g / 2) / (q B)), where 1 / B may overflow.
  double half_distance(double g) const {
    if (g == 0.0) return 0.0;
    const double log_argument =
        std::log((1.0 - q_) / q_) + log_sinh(0.5 * std::fabs(g)) + 0.5 / (sigma_ * sigma_);
    const double result =
        log_argument > 30.0 ? log_argument + std::log(2.0) : std::asinh(std::exp(log_argument));
    return g < 0.0 ? -result : result;
  }

  double q_, sigma_;
};

class Laplace final : public LossPair {
 public:
  explicit Laplace(double scale) : scale_(scale), top_(1.0 / scale) {}

  // The loss at x is (|x - 1| - |x|) / scale: top up to x = 0, then decreasing, -top from x = 1 on.
  Tails at(double threshold) const override {
    const double threshold_error = 8.0 * kUlp * (std::fabs(threshold) + top_);
    if (threshold >= top_) return everything_below(threshold_error);
    if (threshold < -top_) return everything_above(threshold_error);
    const double x = std::clamp(0.5 * (1.0 - scale_ * threshold), 0.0, 1.0);
    Tails t;
    t.p_below = 0.5 * std::exp(-x / scale_);
    t.p_above = 1.0 - t.p_below;
    t.q_above = 0.5 * std::exp((x - 1.0) / scale_);
    t.q_below = 1.0 - t.q_above;
    t.difference = t.p_above - t.q_above;
    t.relative_error = kUlp * (8.0 + 4.0 * top_);
    t.difference_error = t.relative_error * (t.p_below + t.q_above) + 2.0 * kUlp;
    t.threshold_error = threshold_error;
    return t;
  }

  std::vector<Sample> samples() const override {
    const double end = 0.5 * std::exp(-top_);
    std::vector<Sample> points{{top_, 0.5, end}, {-top_, end, 0.5}};
    const int cells = 64;
    for (int i = 0; i < cells; ++i) {
      const double x = (i + 0.5) / cells;
      const double weight = 0.5 / scale_ / cells;
      points.push_back({(1.0 - 2.0 * x) / scale_, weight * std::exp(-x / scale_),
                        weight * std::exp((x - 1.0) / scale_)});
    }
    return points;
  }

  Divergence divergence(double epsilon) const override {
    if (epsilon > top_ * (1.0 + 4.0 * kUlp)) return {0.0, 0.0};
    const double value = epsilon < top_ ? -std::expm1(0.5 * (epsilon - top_)) : 0.0;
    return {value, 4.0 * kUlp * (value + epsilon + top_)};
  }

  double atom_unit() const override { return top_; }

  Extreme supremum() const override { return {top_, 0.5}; }  // reached by every x <= 0
  Extreme infimum() const override { return {-top_, 0.5}; }  // reached by every x >= 1

 private:
  double scale_, top_;
};

class DiscreteGaussian final : public LossPair {
 public:
  DiscreteGaussian(double sigma, double shift) : sigma_(sigma), shift_(shift) {
    const auto terms = static_cast<std::size_t>(std::ceil(kFarthest * sigma)) + 2;
    above_.resize(terms + 1);
    long double sum = 0.0L;
    for (std::size_t k = terms; k > 0; --k) {
      const auto z = static_cast<long double>(k) / static_cast<long double>(sigma);
      sum += std::exp(-0.5L * z * z);
      above_[k] = static_cast<double>(sum);
    }
    total_ = static_cast<double>(1.0L + 2.0L * sum);
    above_[0] = static_cast<double>(1.0L + sum);
    for (double& tail : above_) tail /= total_;
    // About sigma terms of a tail's sum are of comparable size; the other terms are far smaller.
    error_ = 8.0 * kUlp + static_cast<double>(terms) *
                              static_cast<double>(std::numeric_limits<long double>::epsilon());
  }

  // The loss at x is shift (shift - 2x) / (2 sigma^2), which decreases with x.
  Tails at(double threshold) const override {
    const double c = 0.5 * (shift_ - 2.0 * sigma_ * sigma_ * threshold / shift_);
    const double largest = std::ceil(c) - 1.0;  // the last x whose loss is above the threshold
    const Normal p = up_to(largest);
    const Normal q = up_to(largest - shift_);
    Tails t;
    t.p_above = p.above;
    t.p_below = p.below;
    t.q_above = q.above;
    t.q_below = q.below;
    t.difference = p.above + q.above < p.below + q.below ? p.above - q.above : q.below - p.below;
    t.relative_error = error_;
    t.difference_error = error_ * (smaller(p) + smaller(q)) + 2.0 * kUlp * t.difference;
    t.threshold_error = 8.0 * kUlp * (std::fabs(threshold) + shift_ * shift_ / (sigma_ * sigma_));
    return t;
  }

  std::vector<Sample> samples() const override {
    std::vector<Sample> points;
    const double stride = std::max(1.0, std::floor(sigma_ / 8.0));
    const double end = std::floor(kFarthest * sigma_ / stride) * stride;
    // NOLINTNEXTLINE(clang-analyzer-security.FloatLoopCounter): whole numbers are exact
    for (double x = -end; x <= end + shift_; x += stride) {
      const double zp = x / sigma_;
      const double zq = (x - shift_) / sigma_;
      points.push_back({shift_ * (shift_ - 2.0 * x) / (2.0 * sigma_ * sigma_),
                        stride * std::exp(-0.5 * zp * zp) / total_,
                        stride * std::exp(-0.5 * zq * zq) / total_});
    }
    return points;
  }

  double atom_unit() const override {
    const double spacing = shift_ / (sigma_ * sigma_);
    return std::fmod(shift_, 2.0) == 0.0 ? spacing : 0.5 * spacing;
  }

 private:
  double at_least(double k) const {  // P(X >= k) for k >= 0
    return k < static_cast<double>(above_.size()) ? above_[static_cast<std::size_t>(k)] : 0.0;
  }
  /// Returns P(X <= k) as `above`, because the loss decreases with x, and 1 - P(X <= k) as `below`.
  Normal up_to(double k) const {
    if (k < 0.0) return {at_least(-k), 1.0 - at_least(-k)};
    return {1.0 - at_least(k + 1.0), at_least(k + 1.0)};
  }

  double sigma_, shift_;
  double total_ = 1.0;
  double error_ = 0.0;         // relative error of a tail
  std::vector<double> above_;  // P(X >= k)
};

class Reversed final : public LossPair {
 public:
  explicit Reversed(LossPairPtr pair) : pair_(std::move(pair)) {}

  Tails at(double threshold) const override {
    Tails t = pair_->at(-threshold);
    std::swap(t.p_above, t.q_below);
    std::swap(t.p_below, t.q_above);
    return t;  // p_above - q_above is unchanged
  }

  std::vector<Sample> samples() const override {
    std::vector<Sample> points = pair_->samples();
    for (Sample& s : points) s = {-s.loss, s.q, s.p};
    return points;
  }

  double anchor(double step) const override { return -pair_->anchor(step); }

  Extreme supremum() const override {
    const Extreme least = pair_->infimum();
    return {-least.loss, least.mass};
  }

  bool symmetric() const override { return pair_->symmetric(); }

 private:
  LossPairPtr pair_;
};

}  // namespace

Divergence LossPair::divergence(double epsilon) const {
  const Tails t = at(epsilon);
  // An event at an inexact threshold misses at most the threshold's error times the mass between
  // the two thresholds, which is at most the mass above a threshold that is lower by twice the
  // error.
  const double missed = t.threshold_error * at(epsilon - 2.0 * t.threshold_error).p_above;
  if (epsilon > 700.0) {
    // e^epsilon may overflow. Q(A) is at most e^(-epsilon - 1) P(A) if all losses in A are above
    // epsilon + 1.
    const Tails beyond = at(epsilon + 1.0 + 1e-9);
    const double most = t.p_above * (1.0 + 2.0 * t.relative_error) + missed;
    const double least = 0.6 * beyond.p_above;
    return {0.5 * (most + least), 0.5 * (most - least) * (1.0 + 8.0 * kUlp)};
  }
  const double gain = std::expm1(epsilon) * t.q_above;
  const double whole = std::exp(epsilon) * t.q_above;
  double value = t.difference - gain;
  double error = t.difference_error + 4.0 * kUlp * (std::fabs(t.difference) + gain) +
                 2.0 * t.relative_error * gain;
  // For large losses, computing the difference of the tails directly has no advantage.
  const double plain = 2.0 * t.relative_error * (t.p_above + whole) + 4.0 * kUlp * whole;
  if (plain < error) {
    value = t.p_above - whole;
    error = plain;
  }
  return {std::max(0.0, value), error + missed};
}

LossPairPtr gaussian(double sigma) { return std::make_shared<Gaussian>(sigma); }

LossPairPtr sampled(double q, LossPairPtr pair) {
  return std::make_shared<Sampled>(q, std::move(pair));
}

LossPairPtr sampled_gaussian_replaced(double q, double sigma) {
  return std::make_shared<SampledGaussianReplaced>(q, sigma);
}

LossPairPtr laplace(double scale) { return std::make_shared<Laplace>(scale); }

LossPairPtr discrete_gaussian(double sigma, double shift) {
  return std::make_shared<DiscreteGaussian>(sigma, shift);
}

LossPairPtr reversed(LossPairPtr pair) { return std::make_shared<Reversed>(std::move(pair)); }

}  // namespace pld
