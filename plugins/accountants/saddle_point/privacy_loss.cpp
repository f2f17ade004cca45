#include "privacy_loss.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "privgrad/error.hpp"

namespace saddle_point {
namespace {

using namespace privgrad;

// Discretisation errors are below e^-37 of the whole and, for a step that occurs n times, below
// e^-37 / sqrt(n): the loss of such a step is about 1/sqrt(n) of the sum's scale.
constexpr double kDigits = 37.0;

constexpr std::size_t kMostPoints = std::size_t{1} << 19;

// The points of this many steps are stored between calls; all others are recomputed.
constexpr std::size_t kMostKept = 4096;

// Points are processed in groups of this many, so that compilers can use vector instructions
// although sums must not be reordered.
constexpr std::size_t kLanes = 4;

// The recurrence e^{i(tau+h)L} = e^{i tau L} e^{ihL} restarts after this many steps, which bounds
// the growth of its rounding errors.
constexpr std::size_t kAnchor = 32;

double digits(const SampledSteps& step) { return kDigits + 0.5 * std::log(step.count); }

/// Returns the distance from its mode up to which a Gaussian matters, in units of sigma.
double reach(const SampledSteps& step) { return std::sqrt(2.0 * digits(step)) + 1.0; }

/// A line's distance from the real line, as the angle by which the shift rotates e^{z / sigma^2}.
struct Angle {
  explicit Angle(double angle)
      : theta(angle),
        cos(std::cos(angle)),
        sin(std::sin(angle)),
        versine(2.0 * std::sin(0.5 * angle) * std::sin(0.5 * angle)) {}
  double theta, cos, sin, versine;
};

/// Computes the loss l at a point u = z / sigma.
class LogRatio {
 public:
  explicit LogRatio(const SampledSteps& step)
      : q_(step.q),
        log_q_(std::log(step.q)),
        log_odds_(std::log(step.q) - std::log1p(-step.q)),
        slope_(1.0 / step.sigma),
        shift_(0.5 / (step.sigma * step.sigma)) {}

  double operator()(double u) const {
    const double x = slope_ * u - shift_;
    if (near_zero(x)) {
      const double part = q_ * std::expm1(x);
      return part > -0.5 ? std::log1p(part) : std::log((1.0 - q_) + q_ * std::exp(x));
    }
    return log_q_ + x + std::log1p(std::exp(-x - log_odds_));
  }

  /// Returns the loss at u + i sigma theta, |theta| < pi.
  Complex operator()(double u, const Angle& angle) const {
    const double x = slope_ * u - shift_;
    if (near_zero(x)) {
      const double rest = std::expm1(x);
      const double re = q_ * (rest * angle.cos - angle.versine);  // q (e^{x + i theta} - 1)
      const double im = q_ * (rest + 1.0) * angle.sin;
      if (re > -0.5) {
        return {0.5 * std::log1p(2.0 * re + (re * re + im * im)), std::atan2(im, 1.0 + re)};
      }
      const double power = q_ * std::exp(x);  // rest + 1 loses digits here
      const Complex sum((1.0 - q_) + power * angle.cos, power * angle.sin);
      return {std::log(std::abs(sum)), std::arg(sum)};
    }
    const double t = std::exp(-x - log_odds_);
    return {log_q_ + x + 0.5 * std::log1p(t * (2.0 * angle.cos + t)),
            angle.theta + std::atan2(-t * angle.sin, 1.0 + t * angle.cos)};
  }

  /// Whether l is computed as ln(1 + q (e^x - 1)), which keeps the digits of values near 0 but may
  /// overflow for large x.
  bool near_zero(double x) const { return x <= 1.0 || x + log_odds_ <= 0.0; }

  /// Return dl / du and d^2 l / du^2.
  double slope(double u) const {
    return slope_ / (1.0 + std::exp(-(slope_ * u - shift_) - log_odds_));
  }
  double bend(double u) const { return slope(u) * (slope_ - slope(u)); }

 private:
  double q_, log_q_, log_odds_, slope_, shift_;
};

/// The loss, and ln(dP / dN(0, sigma^2)), at one point.
struct Point {
  Complex loss, density;
};

Point point(Pair pair, const LogRatio& ratio, double u, const Angle& angle) {
  const Complex forward = ratio(u, angle);
  switch (pair) {
    case Pair::remove:
      return {forward, forward};
    case Pair::add:
      return {-forward, 0.0};
    case Pair::replace:
      break;
  }
  return {forward - std::conj(ratio(-u, angle)), forward};
}

std::pair<double, double> point(Pair pair, const LogRatio& ratio, double u) {
  const double forward = ratio(u);
  switch (pair) {
    case Pair::remove:
      return {forward, forward};
    case Pair::add:
      return {-forward, 0.0};
    case Pair::replace:
      break;
  }
  return {forward - ratio(-u), forward};
}

/// Returns e^{i tau L} - 1 for L = re + i im, without cancellation.
Complex rotation(double tau, double re, double im) {
  const double shrink = std::expm1(-tau * im);
  const double half = 0.5 * tau * re;
  const double sin = std::sin(half), cos = std::cos(half);  // computed together
  const double versine = 2.0 * sin * sin;
  return {shrink * (1.0 - versine) - versine, (1.0 + shrink) * (2.0 * sin * cos)};
}

/// Visits points u = k spacing, and skips stretches where an exponent is negligible.
class Walk {
 public:
  /// \param steepest  an upper bound on the slope of the exponent without its term -u^2/2.
  Walk(double low, double high, double spacing, double steepest)
      : k_(std::floor(low / spacing)), high_(high), spacing_(spacing), steepest_(steepest) {}
  bool inside() const { return k_ * spacing_ < high_; }
  double u() const { return k_ * spacing_; }
  void next() { ++k_; }
  /// Skips points, given that the exponent at u() is `missing` > 0 below the relevant range.
  void skip(double missing) {
    const double slope = steepest_ + std::max(0.0, -u());
    k_ += std::max(1.0, std::floor(missing / slope / spacing_));
  }

 private:
  double k_, high_, spacing_, steepest_;
};

/// Returns ln(1 + a).
Complex log1p(Complex a) {
  const double re = a.real();
  const double im = a.imag();
  // Near a = -1 the first form would keep only half of the digits.
  const double log_size = re > -0.5 ? 0.5 * std::log1p(2.0 * re + (re * re + im * im))
                                    : std::log(std::hypot(1.0 + re, im));
  return {log_size, std::atan2(im, 1.0 + re)};
}

/// Computes the sum over j of w_j (e^{i tau L_j} - 1) for equally spaced tau, with one complex
/// multiplication per point: with V = w (e^{i tau L} - 1), the next V is
/// V e^{ihL} + w (e^{ihL} - 1).
class Rotor {
 public:
  void start(std::span<const double> weight_re, std::span<const double> weight_im,
             std::span<const double> loss_re, std::span<const double> loss_im, double step) {
    weight_re_ = weight_re;
    weight_im_ = weight_im;
    loss_re_ = loss_re;
    loss_im_ = loss_im;
    for (auto* column : {&turn_re_, &turn_im_, &add_re_, &add_im_, &at_re_, &at_im_}) {
      column->resize(loss_re.size());
    }
    for (std::size_t j = 0; j < loss_re.size(); ++j) {
      const Complex turn = rotation(step, loss_re[j], loss_im[j]);
      const Complex add = Complex(weight_re[j], weight_im[j]) * turn;
      turn_re_[j] = 1.0 + turn.real();
      turn_im_[j] = turn.imag();
      add_re_[j] = add.real();
      add_im_[j] = add.imag();
    }
  }

  void turn_to(double tau) {
    for (std::size_t j = 0; j < loss_re_.size(); ++j) {
      const Complex at =
          Complex(weight_re_[j], weight_im_[j]) * rotation(tau, loss_re_[j], loss_im_[j]);
      at_re_[j] = at.real();
      at_im_[j] = at.imag();
    }
  }

  Complex sum_and_turn() {
    std::array<double, kLanes> sum_re{};
    std::array<double, kLanes> sum_im{};
    for (std::size_t j = 0; j < loss_re_.size(); j += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double re = at_re_[j + lane];
        const double im = at_im_[j + lane];
        const double turn_re = turn_re_[j + lane];
        const double turn_im = turn_im_[j + lane];
        sum_re[lane] += re;
        sum_im[lane] += im;
        at_re_[j + lane] = (re * turn_re - im * turn_im) + add_re_[j + lane];
        at_im_[j + lane] = (re * turn_im + im * turn_re) + add_im_[j + lane];
      }
    }
    return {(sum_re[0] + sum_re[1]) + (sum_re[2] + sum_re[3]),
            (sum_im[0] + sum_im[1]) + (sum_im[2] + sum_im[3])};
  }

 private:
  std::span<const double> weight_re_, weight_im_, loss_re_, loss_im_;
  std::vector<double> turn_re_, turn_im_, add_re_, add_im_, at_re_, at_im_;
};

std::size_t padded(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

void require_few(std::size_t points) {
  if (points > kMostPoints) {
    throw NumericError(
        "saddle_point: the tilted density of one step is too wide to be integrated; use pld");
  }
}

}  // namespace

PrivacyLoss::PrivacyLoss(Pair pair, double gaussian_square, std::vector<SampledSteps> steps)
    : pair_(pair),
      gaussian_square_(gaussian_square),
      steps_(std::move(steps)),
      lines_(steps_.size()),
      log_mgf_(steps_.size()) {}

/// Returns an upper bound on d/dx (ln(dP/dN(0, sigma^2)) + tL), x = z / sigma^2, for t up to s.
double PrivacyLoss::push(double s) const {
  switch (pair_) {
    case Pair::remove:
      return std::max(s, 0.0) + 1.0;
    case Pair::add:
      return 1.0;
    case Pair::replace:
      break;
  }
  return 2.0 * std::max(s, 0.0) + 1.0;
}

/// Returns the range of u that contains all modes of the density of P and of its tilts from 0 to s.
PrivacyLoss::Range PrivacyLoss::modes(const SampledSteps& step, double s) const {
  if (pair_ != Pair::add || s <= 0.0) {
    return {pair_ == Pair::replace ? -1.0 / step.sigma : 0.0, push(s) / step.sigma};
  }
  // The exponent is concave, and for small q its only mode can be far nearer than -s.
  const LogRatio ratio(step);
  double low = -s / step.sigma;
  double high = 0.0;
  for (int i = 0; i < 60 && high - low > 0.5; ++i) {
    const double middle = 0.5 * (low + high);
    (middle + s * ratio.slope(middle) < 0.0 ? low : high) = middle;
  }
  return {low, 0.0};
}

/// Bounds the curvature of the tilted density's exponent at its mode from below; 1 for a Gaussian.
double PrivacyLoss::curvature(const SampledSteps& step, double s) const {
  // l is convex, and so is s l for a positive power s
  if (pair_ != Pair::add || s <= 0.0) return 1.0;
  return 1.0 + s * LogRatio(step).bend(modes(step, s).low);
}

PrivacyLoss::Range PrivacyLoss::extent(const SampledSteps& step, double s) const {
  const Range inner = modes(step, s);
  return {inner.low - reach(step), inner.high + reach(step)};
}

void PrivacyLoss::build(const SampledSteps& step, double s, RealLine& line) const {
  // The half-width of the strip. The strip reaches up to the branch points of l for `remove`, and
  // half as far if a negative power of the ratio occurs. Its half-width is at most 6, because
  // beyond that the Gaussian grows faster than the rule converges.
  const double bend = curvature(step, s);
  const double half =
      std::min((pair_ == Pair::remove ? 3.0 : 1.5) * step.sigma, 6.0 / std::sqrt(bend));
  const double spacing = 2.0 * kPi * half / (digits(step) + 0.5 * bend * half * half);
  const auto [low, high] = extent(step, s);
  const LogRatio ratio(step);
  const double log_scale = std::log(spacing / std::sqrt(2.0 * kPi));
  const double negligible = -digits(step) - 20.0;
  line = {.covers = s, .loss = {}, .log_weight = {}, .weight = {}};
  for (Walk walk(low, high, spacing, push(s) / step.sigma); walk.inside();) {
    const double u = walk.u();
    const auto [loss, density] = point(pair_, ratio, u);
    // For a tilt t between -1 (which gives Q) and s, the weight of the point is at most the larger
    // of its weights at -1 and at s.
    const double most = density - 0.5 * u * u + std::max(-loss, s * loss);
    if (most < negligible) {
      walk.skip(negligible - most);
      continue;
    }
    walk.next();
    require_few(line.loss.size());
    line.loss.push_back(loss);
    line.log_weight.push_back(density - 0.5 * u * u + log_scale);
    line.weight.push_back(std::exp(line.log_weight.back()));
  }
}

Cumulant PrivacyLoss::cumulant(const RealLine& line, double s) const {
  double top = -kInfinity;
  for (std::size_t j = 0; j < line.loss.size(); ++j) {
    top = std::max(top, line.log_weight[j] + s * line.loss[j]);
  }
  double rest = 0.0;  // E[e^{sL} - 1], scaled
  double first = 0.0;
  double second = 0.0;
  if (top < 600.0) {
    // Subtracting 1 from each term keeps K(s) accurate where it is far smaller than 1.
    for (std::size_t j = 0; j < line.loss.size(); ++j) {
      const double loss = line.loss[j];
      const double power = s * loss;
      double term = 0.0;  // weight * e^{sL}
      if (power < 600.0) {
        const double growth = line.weight[j] * std::expm1(power);
        rest += growth;
        term = growth + line.weight[j];
      } else {
        term = std::exp(line.log_weight[j] + power);
        rest += term;
      }
      first += term * loss;
      second += term * loss * loss;
    }
    // If the sum is near -1, subtracting 1 has cost its digits.
    if (rest > -0.5) {
      const double total = 1.0 + rest;
      const double mean = first / total;
      return {std::log1p(rest), mean, std::max(0.0, second / total - mean * mean)};
    }
    rest = first = second = 0.0;
  }
  for (std::size_t j = 0; j < line.loss.size(); ++j) {
    const double term = std::exp(line.log_weight[j] + s * line.loss[j] - top);
    rest += term;
    first += term * line.loss[j];
    second += term * line.loss[j] * line.loss[j];
  }
  const double mean = first / rest;
  return {top + std::log(rest), mean, std::max(0.0, second / rest - mean * mean)};
}

Cumulant PrivacyLoss::cumulant(double s) {
  Cumulant sum{0.5 * gaussian_square_ * s * (s + 1.0), gaussian_square_ * (s + 0.5),
               gaussian_square_};
  for (std::size_t t = 0; t < steps_.size(); ++t) {
    if (lines_[t].covers < s) build(steps_[t], std::max(2.0, 1.3 * s), lines_[t]);
    const Cumulant one = cumulant(lines_[t], s);
    sum.value += steps_[t].count * one.value;
    sum.slope += steps_[t].count * one.slope;
    sum.curvature += steps_[t].count * one.curvature;
  }
  return sum;
}

double PrivacyLoss::largest_tilt() const noexcept {
  double largest = 1e18;
  if (pair_ == Pair::add) return largest;  // the loss is bounded
  for (const SampledSteps& step : steps_) {
    // From c = -2 sigma^2 ln q on, the case in which the example takes part dominates E[e^{cL}].
    // Another 45 sigma of tilt correspond to a loss that is exceeded with probability e^-1000.
    largest = std::min(largest,
                       2.0 - 2.0 * step.sigma * step.sigma * std::log(step.q) + 45.0 * step.sigma);
  }
  return largest;
}

double PrivacyLoss::most_variation() const {
  // Total variation adds up under composition, and mixing multiplies it by q.
  const double distance = pair_ == Pair::replace ? 2.0 : 1.0;
  const auto variation = [](double shift) { return std::erf(0.5 * shift / std::numbers::sqrt2); };
  double sum = variation(std::sqrt(gaussian_square_));
  for (const SampledSteps& step : steps_) {
    sum += step.count * step.q * variation(distance / step.sigma);
  }
  return sum * (1.0 + 1e-10);
}

double PrivacyLoss::supremum() const {
  if (pair_ != Pair::add || gaussian_square_ > 0.0) return kInfinity;
  double sum = 0.0;
  for (const SampledSteps& step : steps_) sum -= step.count * std::log1p(-step.q);
  return sum * (1.0 + (16.0 + static_cast<double>(steps_.size())) * kUlp);
}

double PrivacyLoss::bulk() {
  // Returns K' at the s whose tilt turns P into the distribution without the example.
  return cumulant(pair_ == Pair::remove ? -1.0 : pair_ == Pair::add ? 0.0 : -0.5).slope;
}

void PrivacyLoss::tilt(double c) {
  tilt_ = c;
  for (std::size_t t = 0; t < steps_.size(); ++t) {
    if (lines_[t].covers < c) build(steps_[t], std::max(2.0, 1.3 * c), lines_[t]);
    log_mgf_[t] = cumulant(lines_[t], c).value;
  }
  tilted_.resize(std::min(steps_.size(), kMostKept));
  for (std::size_t t = 0; t < tilted_.size(); ++t) build(steps_[t], log_mgf_[t], tilted_[t]);
}

void PrivacyLoss::build(const SampledSteps& step, double log_mgf, ComplexLine& line) const {
  // The line lies v above the real line (below it for `add`), on the side on which e^{i tau L}
  // decays. The theorem's strip extends by v on both sides: to the real line, where the integrand
  // is a density times a number of modulus 1, and to 2v, where a Gaussian has grown by e^{2 v^2}.
  const double bend = curvature(step, tilt_);
  const double v =
      std::min((pair_ == Pair::remove ? 1.5 : 0.75) * step.sigma, 1.7 / std::sqrt(bend));
  const double spacing = 2.0 * kPi * v / (digits(step) + 2.0 * bend * v * v);
  const auto [low, high] = extent(step, tilt_);
  const LogRatio ratio(step);
  const double signed_v = pair_ == Pair::add ? -v : v;
  const Angle angle(signed_v / step.sigma);
  const double log_scale = std::log(spacing / std::sqrt(2.0 * kPi)) + 0.5 * v * v - log_mgf;
  const double negligible = -digits(step) - 5.0;
  line.absolute_loss = 0.0;
  std::complex<long double> sum = 0.0L;
  for (auto* column : {&line.weight_re, &line.weight_im, &line.loss_re, &line.loss_im}) {
    column->clear();
  }
  // On this line exponents are at most 1 / cos(theta / 2) times as steep as on the real line.
  for (Walk walk(low, high, spacing, 1.5 * push(tilt_) / step.sigma); walk.inside();) {
    const double u = walk.u();
    const Point here = point(pair_, ratio, u, angle);
    const Complex power = here.density + tilt_ * here.loss;
    const double log_size = log_scale - 0.5 * u * u + power.real();
    if (log_size < negligible) {  // between two modes, and outside them
      walk.skip(negligible - log_size);
      continue;
    }
    walk.next();
    require_few(line.loss_re.size());
    const double size = std::exp(log_size);
    const double phase = power.imag() - u * signed_v;
    line.weight_re.push_back(size * std::cos(phase));
    line.weight_im.push_back(size * std::sin(phase));
    line.loss_re.push_back(here.loss.real());
    line.loss_im.push_back(here.loss.imag());
    line.absolute_loss += size * std::abs(here.loss);
    sum += std::complex<long double>(line.weight_re.back(), line.weight_im.back());
  }
  // Compares the sum of the weights with 1; at other tau the error may be larger.
  line.relative_error = 4.0 * std::max(kUlp, static_cast<double>(std::abs(sum - 1.0L)));
  for (auto* column : {&line.weight_re, &line.weight_im, &line.loss_re, &line.loss_im}) {
    column->resize(padded(column->size()), 0.0);
  }
}

void PrivacyLoss::add_error(const SampledSteps& step, const ComplexLine& line) const {
  absolute_loss_ += step.count * line.absolute_loss;
  loss_error_ += step.count * line.absolute_loss * line.relative_error;
}

const PrivacyLoss::ComplexLine& PrivacyLoss::tilted(std::size_t t, ComplexLine& spare) const {
  if (t < tilted_.size()) return tilted_[t];
  build(steps_[t], log_mgf_[t], spare);
  return spare;
}

Complex PrivacyLoss::gaussian_part(double tau) const {
  return gaussian_square_ * Complex(-0.5 * tau * tau, tau * (tilt_ + 0.5));
}

void PrivacyLoss::log_characteristic(std::span<const double> taus, std::span<Complex> out) const {
  for (std::size_t k = 0; k < taus.size(); ++k) out[k] = gaussian_part(taus[k]);
  absolute_loss_ = gaussian_square_ * (std::abs(tilt_ + 0.5) + 1.0);
  loss_error_ = 4.0 * kUlp * absolute_loss_;
  ComplexLine spare;
  for (std::size_t t = 0; t < steps_.size(); ++t) {
    const ComplexLine& line = tilted(t, spare);
    add_error(steps_[t], line);
    for (std::size_t k = 0; k < taus.size(); ++k) {
      Complex sum = 0.0;
      for (std::size_t j = 0; j < line.loss_re.size(); ++j) {
        sum += Complex(line.weight_re[j], line.weight_im[j]) *
               rotation(taus[k], line.loss_re[j], line.loss_im[j]);
      }
      out[k] += steps_[t].count * log1p(sum);
    }
  }
}

void PrivacyLoss::log_characteristic(double step, std::size_t first, std::span<Complex> out) const {
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = gaussian_part(step * static_cast<double>(first + k));
  }
  absolute_loss_ = gaussian_square_ * (std::abs(tilt_ + 0.5) + 1.0);
  loss_error_ = 4.0 * kUlp * absolute_loss_;
  ComplexLine spare;
  Rotor rotor;
  for (std::size_t t = 0; t < steps_.size(); ++t) {
    const ComplexLine& line = tilted(t, spare);
    add_error(steps_[t], line);
    rotor.start(line.weight_re, line.weight_im, line.loss_re, line.loss_im, step);
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (k % kAnchor == 0) rotor.turn_to(step * static_cast<double>(first + k));
      out[k] += steps_[t].count * log1p(rotor.sum_and_turn());
    }
  }
}

}  // namespace saddle_point
