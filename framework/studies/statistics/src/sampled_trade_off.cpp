#include "privgrad/statistics/sampled_trade_off.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

namespace privgrad::core {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
/// The tail beyond this many standard deviations is below 1e-20.
constexpr double kTail = 9.5;
constexpr std::ptrdiff_t kLeastHalf = 1 << 10, kMostHalf = 1 << 19;
/// The number of points of the stored curves; their error does not accumulate over steps.
constexpr std::ptrdiff_t kCurvePoints = 1 << 12;
/// The grid's width, in standard deviations of a step's loss. A grid adds at most width^2 / 4 to
/// the variance, a relative 1e-4.
constexpr double kWidthInDeviations = 0.02;
constexpr double kLargestLoss = 600.0;
constexpr double kLogOfTail = -30.0;  // 1e-13
constexpr double kMostFactor = 8.0;

/// P[a < N(0, 1) < b], without cancellation in either tail.
double normal_mass(double a, double b) {
  const double root = std::sqrt(0.5);
  if (a > 0.0) return 0.5 * (std::erfc(a * root) - std::erfc(b * root));
  return 0.5 * (std::erfc(-b * root) - std::erfc(-a * root));
}

/// log(1 - q + q e^x)
double log_mixture(double q, double x) {
  if (q >= 1.0) return x;
  if (x > 0.0) return x + std::log(q + (1.0 - q) * std::exp(-x));
  return std::log1p(q * std::expm1(x));
}

/// One release: its distributions for a canary on the two sides of its coin.
class Release {
 public:
  Release(const SampledRelease& release, CoinSides sides)
      : q_(release.probability), z_(release.noise_multiplier), sides_(sides) {}

  bool opposites() const { return sides_ == CoinSides::opposites; }
  double least() const { return (opposites() ? -1.0 : 0.0) - kTail * z_; }
  double most() const { return 1.0 + kTail * z_; }

  /// log(dP/dQ), which increases with the observation.
  double loss(double y) const {
    const double square = z_ * z_;
    const double towards = log_mixture(q_, (y - 0.5) / square);
    return opposites() ? towards - log_mixture(q_, (-y - 0.5) / square) : towards;
  }

  /// The observation with this loss; -infinity if all losses are above it.
  double seen(double loss) const {
    const double square = z_ * z_;
    if (!opposites()) {
      const double over = std::expm1(loss) / q_ + 1.0;  // (e^loss - 1 + q) / q
      return over <= 0.0 ? -kUnbounded : square * std::log(over) + 0.5;
    }
    if (loss < 0.0) return -seen(-loss);
    // With u = e^(y/z^2), b u^2 - a u - b e^loss = 0, where a = (1 - q)(e^loss - 1) and
    // b = q e^(-1/(2 z^2)).
    const double e = std::exp(loss);
    const double a = (1.0 - q_) * std::expm1(loss) / q_ * std::exp(0.5 / square);  // a / b
    if (!std::isfinite(a * a)) return square * std::log(a);
    return square * std::log(0.5 * (a + std::sqrt(a * a + 4.0 * e)));
  }

  std::pair<double, double> masses(double from, double to) const {
    const auto around = [&](double mean) {
      return normal_mass((from - mean) / z_, (to - mean) / z_);
    };
    const double nobody = around(0.0), there = around(1.0);
    const double p = (1.0 - q_) * nobody + q_ * there;
    if (!opposites()) return {p, nobody};
    return {p, (1.0 - q_) * nobody + q_ * around(-1.0)};
  }

  /// Densities at y, up to a factor.
  std::pair<double, double> densities(double y) const {
    const auto around = [&](double mean) {
      return std::exp(-0.5 * (y - mean) * (y - mean) / (z_ * z_));
    };
    const double p = (1.0 - q_) * around(0.0) + q_ * around(1.0);
    if (!opposites()) return {p, around(0.0)};
    return {p, (1.0 - q_) * around(0.0) + q_ * around(-1.0)};
  }

 private:
  double q_, z_;
  CoinSides sides_;
};

/// The range and variation of losses, by quadrature; used only to choose a grid.
struct Spread {
  double reach = 0.0;      ///< The range of all releases together.
  double deviation = 0.0;  ///< Root mean square of the single releases' deviations.
};

/// Orders of moments, for Chernoff's bound.
constexpr double kOrders[] = {0.25, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0};

Spread spread_of(std::span<const SampledRelease> releases, CoinSides sides) {
  constexpr int kPoints = 2000;
  double up_p[std::size(kOrders)] = {}, up_q[std::size(kOrders)] = {};
  double down_p[std::size(kOrders)] = {}, down_q[std::size(kOrders)] = {};
  Spread spread;
  double variances = 0.0, steps = 0.0;
  for (const SampledRelease& each : releases) {
    const Release release(each, sides);
    std::vector<double> loss, p, q;
    double all_p = 0.0, all_q = 0.0, mean = 0.0, square = 0.0;
    for (int i = 0; i <= kPoints; ++i) {
      const double y = release.least() + (release.most() - release.least()) * i / kPoints;
      const auto [at_p, at_q] = release.densities(y);
      loss.push_back(release.loss(y));
      p.push_back(at_p);
      q.push_back(at_q);
      all_p += at_p;
      all_q += at_q;
    }
    for (int i = 0; i <= kPoints; ++i) {
      mean += q[i] / all_q * loss[i];
      square += q[i] / all_q * loss[i] * loss[i];
    }
    const auto n = static_cast<double>(each.count);
    variances += n * std::max(square - mean * mean, 0.0);
    steps += n;
    spread.reach = std::max({spread.reach, loss.back(), -loss.front()});
    for (std::size_t k = 0; k < std::size(kOrders); ++k) {
      double moments[4] = {};
      for (int i = 0; i <= kPoints; ++i) {
        const double grown = std::exp(kOrders[k] * loss[i]), shrunk = 1.0 / grown;
        moments[0] += p[i] / all_p * grown;
        moments[1] += q[i] / all_q * grown;
        moments[2] += p[i] / all_p * shrunk;
        moments[3] += q[i] / all_q * shrunk;
      }
      up_p[k] += n * std::log(moments[0]);
      up_q[k] += n * std::log(moments[1]);
      down_p[k] += n * std::log(moments[2]);
      down_q[k] += n * std::log(moments[3]);
    }
  }
  spread.deviation = std::sqrt(variances / steps);
  for (const double* logs : {up_p, up_q, down_p, down_q}) {
    double least = kUnbounded;
    for (std::size_t k = 0; k < std::size(kOrders); ++k)
      if (!std::isnan(logs[k])) least = std::min(least, (logs[k] - kLogOfTail) / kOrders[k]);
    if (std::isfinite(least)) spread.reach = std::max(spread.reach, least);
  }
  return spread;
}

/// a e^x, even if one factor overflows or underflows.
double times_exp(double a, double x) { return a > 0.0 ? std::exp(std::log(a) + x) : 0.0; }

/// Masses under P and Q at losses (i - half) width, i from 0 to 2 half.
struct Atoms {
  Atoms(double step, std::ptrdiff_t points)
      : width(step),
        half(points),
        p(2 * static_cast<std::size_t>(points) + 1),
        q(2 * static_cast<std::size_t>(points) + 1) {}

  double loss(std::ptrdiff_t k) const { return static_cast<double>(k) * width; }
  void add(std::ptrdiff_t k, double at_p, double at_q) {
    p[static_cast<std::size_t>(k + half)] += at_p;
    q[static_cast<std::size_t>(k + half)] += at_q;
  }

  /// Adds masses whose likelihood ratio is between the ratios at points k and k + 1.
  void add_between(std::ptrdiff_t k, double at_p, double at_q) {
    const double all = (at_p - times_exp(at_q, loss(k))) / -std::expm1(-width);
    const double above = std::clamp(all, 0.0, at_p);
    const double above_q = std::min(at_q, times_exp(above, -loss(k + 1)));
    add(k, at_p - above, at_q - above_q);
    add(k + 1, above, above_q);
  }
  void add_above(std::ptrdiff_t k, double at_p, double at_q) {
    const double there = std::min(at_p, times_exp(at_q, loss(k)));
    add(k, there, at_q);
    p_only += at_p - there;
  }
  void add_below(std::ptrdiff_t k, double at_p, double at_q) {
    const double there = std::min(at_q, times_exp(at_p, -loss(k)));
    add(k, at_p, there);
    q_only += at_q - there;
  }

  double width;
  std::ptrdiff_t half;
  std::vector<double> p, q;
  double p_only = 0.0, q_only = 0.0;
};

Atoms atoms_of(const Release& release, double width, std::ptrdiff_t half) {
  Atoms atoms(width, half);
  // Leaves out the last point of the grid, which coincides with the first point of the transform.
  const auto most =
      static_cast<std::ptrdiff_t>(std::min(static_cast<double>(half) - 1.0, kLargestLoss / width));
  const auto clamped = [&](double loss) {
    const double k =
        std::clamp(loss / width, -static_cast<double>(most), static_cast<double>(most));
    return static_cast<std::ptrdiff_t>(std::floor(k));
  };
  const std::ptrdiff_t first = clamped(release.loss(release.least()));
  const std::ptrdiff_t last = std::min(most, clamped(release.loss(release.most())) + 1);
  double from = -kUnbounded;
  for (std::ptrdiff_t k = first; k <= last; ++k) {
    const double to = release.seen(atoms.loss(k));
    const auto [p, q] = release.masses(from, to);
    if (k == first) {
      atoms.add_below(k, p, q);
    } else if (p > 0.0 || q > 0.0) {
      atoms.add_between(k - 1, p, q);
    }
    from = to;
  }
  const auto [p, q] = release.masses(from, kUnbounded);
  atoms.add_above(last, p, q);
  return atoms;
}

using Complex = std::complex<double>;

/// A Fourier transform in place, unscaled; the length is a power of two.
void transform(std::vector<Complex>& values, bool inverse) {
  const std::size_t n = values.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(values[i], values[j]);
  }
  std::vector<Complex> roots(n / 2);
  for (std::size_t k = 0; k < roots.size(); ++k) {
    const double angle = 2.0 * M_PI * static_cast<double>(k) / static_cast<double>(n);
    roots[k] = {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
  }
  for (std::size_t length = 2; length <= n; length <<= 1) {
    const std::size_t stride = n / length;
    for (std::size_t begin = 0; begin < n; begin += length) {
      for (std::size_t k = 0; k < length / 2; ++k) {
        Complex& low = values[begin + k];
        Complex& high = values[begin + k + length / 2];
        const Complex& root = roots[k * stride];
        const Complex turned{high.real() * root.real() - high.imag() * root.imag(),
                             high.real() * root.imag() + high.imag() * root.real()};
        high = low - turned;
        low += turned;
      }
    }
  }
}

Complex power(Complex base, std::uint64_t exponent) {
  Complex result{1.0, 0.0};
  for (; exponent > 0; exponent >>= 1, base *= base)
    if ((exponent & 1) != 0) result *= base;
  return result;
}

/// Multiplies `product` by the transform of `masses`, raised to the power `count`.
void multiply(std::vector<Complex>& product, const std::vector<double>& masses, std::ptrdiff_t half,
              std::uint64_t count) {
  std::vector<Complex> values(product.size());
  for (std::ptrdiff_t k = -half; k <= half; ++k)
    values[static_cast<std::size_t>(k < 0 ? k + 2 * half : k % (2 * half))] +=
        masses[static_cast<std::size_t>(k + half)];
  transform(values, false);
  for (std::size_t i = 0; i < product.size(); ++i) product[i] *= power(values[i], count);
}

std::vector<double> masses_of(std::vector<Complex> product, std::ptrdiff_t half) {
  transform(product, true);
  std::vector<double> masses(2 * static_cast<std::size_t>(half) + 1);
  for (std::ptrdiff_t k = -half; k < half; ++k) {
    const double mass = product[static_cast<std::size_t>(k < 0 ? k + 2 * half : k)].real() /
                        static_cast<double>(product.size());
    masses[static_cast<std::size_t>(k + half)] = std::max(0.0, mass);
  }
  return masses;
}

/// The logarithm of E[e^(order * loss)] under these masses, for Chernoff's bound.
double log_moment(const Atoms& atoms, const std::vector<double>& masses, double order) {
  double sum = 0.0;
  for (std::size_t i = 0; i < masses.size(); ++i) {
    if (masses[i] > 0.0)
      sum += masses[i] * std::exp(order * atoms.loss(static_cast<std::ptrdiff_t>(i) - atoms.half));
  }
  return std::log(sum);
}

}  // namespace

LossLaw::LossLaw(std::span<const SampledRelease> releases, CoinSides sides, unsigned fineness) {
  const Spread spread = spread_of(releases, sides);
  const double wanted = spread.reach / (kWidthInDeviations * spread.deviation);
  half_ = kLeastHalf;
  while (half_ < kMostHalf && static_cast<double>(half_) < wanted) half_ *= 2;
  half_ *= static_cast<std::ptrdiff_t>(fineness);
  width_ = spread.reach / static_cast<double>(half_ - 1);

  std::vector<Complex> p(2 * static_cast<std::size_t>(half_), Complex{1.0, 0.0}), q = p;
  double log_finite_p = 0.0, log_finite_q = 0.0, steps = 0.0;
  double logs[std::size(kOrders)][4] = {};
  for (const SampledRelease& each : releases) {
    const Atoms atoms = atoms_of(Release(each, sides), width_, half_);
    multiply(p, atoms.p, half_, each.count);
    multiply(q, atoms.q, half_, each.count);
    const auto n = static_cast<double>(each.count);
    log_finite_p += n * std::log1p(-atoms.p_only);
    log_finite_q += n * std::log1p(-atoms.q_only);
    steps += n;
    for (std::size_t k = 0; k < std::size(kOrders); ++k) {
      for (int which = 0; which < 4; ++which) {
        const double order = which % 2 == 0 ? kOrders[k] : -kOrders[k];
        logs[k][which] += n * log_moment(atoms, which < 2 ? atoms.p : atoms.q, order);
      }
    }
  }
  p_ = masses_of(std::move(p), half_);
  q_ = masses_of(std::move(q), half_);
  p_only_ = -std::expm1(log_finite_p);
  q_only_ = -std::expm1(log_finite_q);
  for (int which = 0; which < 4; ++which) {
    double least = 0.0;  // bounds the logarithm of the mass that wraps around
    for (std::size_t k = 0; k < std::size(kOrders); ++k) {
      const double log = logs[k][which] - kOrders[k] * width_ * static_cast<double>(half_ - 1);
      if (!std::isnan(log)) least = std::min(least, log);
    }
    slack_ += std::exp(least);
  }
  // Transforms have errors of about 1e-15 in each coefficient; powers multiply these by the
  // exponent.
  slack_ += 1e-10 + 1e-14 * steps;
}

double LossLaw::delta(double epsilon) const {
  double one = p_only_, other = q_only_;
  const auto begin = static_cast<std::ptrdiff_t>(std::floor(epsilon / width_));
  for (std::ptrdiff_t k = std::max<std::ptrdiff_t>(0, begin); k <= half_; ++k) {
    const double less = -std::expm1(epsilon - static_cast<double>(k) * width_);
    if (less <= 0.0) continue;
    one += p_[static_cast<std::size_t>(half_ + k)] * less;
    other += q_[static_cast<std::size_t>(half_ - k)] * less;
  }
  return std::max(one, other);
}

double LossLaw::epsilon(double delta_allowed) const {
  if (delta(0.0) <= delta_allowed) return 0.0;
  double low = 0.0, high = width_ * static_cast<double>(half_);
  if (delta(high) > delta_allowed) return kUnbounded;
  while (high - low > 1e-8 * high) {
    const double middle = 0.5 * (low + high);
    (delta(middle) > delta_allowed ? low : high) = middle;
  }
  return low;
}

GuessCurve LossLaw::curve() const {
  // Takes means over the sides of the coin. A guess of one side at a loss is right with the loss's
  // probability under P, and wrong with its probability under Q. The other side is guessed at the
  // opposite loss: right under Q, wrong under P.
  const std::ptrdiff_t together = std::max<std::ptrdiff_t>(1, 2 * half_ / kCurvePoints);
  Atoms coarse(width_ * static_cast<double>(together), half_ / together + 1);
  for (std::ptrdiff_t k = -half_; k <= half_; ++k) {
    const auto here = static_cast<std::size_t>(half_ + k);
    const auto opposite = static_cast<std::size_t>(half_ - k);
    const std::ptrdiff_t below = (k < 0 ? k - together + 1 : k) / together;
    coarse.add_between(below, 0.5 * (p_[here] + q_[opposite]), 0.5 * (q_[here] + p_[opposite]));
  }
  GuessCurve curve;
  curve.slack_ = slack_;
  double right = 0.5 * (p_only_ + q_only_), wrong = 0.0;
  for (std::size_t i = coarse.p.size(); i-- > 0;) {
    curve.right_.push_back(right);
    curve.wrong_.push_back(wrong);
    right += coarse.p[i];
    wrong += coarse.q[i];
  }
  curve.right_.push_back(right);
  curve.wrong_.push_back(wrong);
  return curve;
}

double GuessCurve::least_probability(double y) const {
  const double right = y - slack_;  // the rest of y may be an error of the masses
  if (right <= 0.0) return 0.0;
  const auto above = std::ranges::lower_bound(right_, right);
  if (above == right_.begin()) return 0.0;
  if (above == right_.end()) return std::max(0.0, wrong_.back() - slack_);
  const auto i = static_cast<std::size_t>(above - right_.begin());
  const double share = (right - right_[i - 1]) / (right_[i] - right_[i - 1]);
  return std::max(0.0, wrong_[i - 1] + share * (wrong_[i] - wrong_[i - 1]) - slack_);
}

double GuessCurve::expected_accuracy(double share) const {
  for (std::size_t i = 1; i < right_.size(); ++i) {
    const double made = right_[i] + wrong_[i];
    if (made < share && i + 1 < right_.size()) continue;
    const double before = right_[i - 1] + wrong_[i - 1];
    const double part =
        made > before ? std::clamp((share - before) / (made - before), 0.0, 1.0) : 1;
    const double right = right_[i - 1] + part * (right_[i] - right_[i - 1]);
    return std::clamp(right / share, 0.5, 1.0);
  }
  return 0.5;
}

SampledFamily::SampledFamily(std::vector<SampledRelease> releases, CoinSides sides)
    : releases_(std::move(releases)), sides_(sides) {}

std::vector<SampledRelease> SampledFamily::divided(double factor) const {
  std::vector<SampledRelease> divided = releases_;
  for (SampledRelease& release : divided) release.noise_multiplier /= factor;
  return divided;
}

const GuessCurve& SampledFamily::at(double factor) const {
  const auto known = curves_.find(factor);
  if (known != curves_.end()) return known->second;
  return curves_.emplace(factor, LossLaw(divided(factor), sides_).curve()).first->second;
}

namespace {

/// \returns the largest multiple of `step` up to which holds() is true.
template <class Predicate>
double largest_factor(double step, const Predicate& holds) {
  double low = 0.0, high = 1.0;
  while (holds(high)) {
    if (high >= kMostFactor) return high;
    low = high;
    high *= 2.0;
  }
  while (high - low > step) {
    const double middle = 0.5 * (low + high);
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

double SampledFamily::one_run_factor(const Guesses& guesses, double level, double step) const {
  return largest_factor(step, [&](double factor) {
    const GuessCurve& curve = at(factor);
    return excludes(
        guesses, [&](double y) { return curve.least_probability(y); }, level);
  });
}

double SampledFamily::repeated_factor(const Guesses& guesses, double level) const {
  const double right = proportion_above(guesses.correct, guesses.canaries, level);
  if (right <= 0.5) return 0.0;
  // At this confidence, a guess in every run is wrong with probability at most 1 - right. If this
  // is less than the curve allows, the factor is excluded.
  return largest_factor(kFactorStep, [&](double factor) {
    return at(factor).least_probability(right) > 1.0 - right;
  });
}

double SampledFamily::epsilon(double factor, double delta) const {
  if (factor <= 0.0) return 0.0;
  const std::vector<SampledRelease> releases = divided(factor);
  const double coarse = LossLaw(releases, sides_).epsilon(delta);
  const double fine = LossLaw(releases, sides_, 2).epsilon(delta);
  if (!std::isfinite(fine)) return 0.0;  // beyond the grid no claim is made
  return std::max(0.0, fine * (1.0 - 1e-7) - std::fabs(coarse - fine));
}

}  // namespace privgrad::core
