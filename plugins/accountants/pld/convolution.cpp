// File length: the composition and the bounds on its rounding errors belong together.
#include "convolution.hpp"

#include <algorithm>
#include <cmath>
#include <kissfft/kissfft.hh>
#include <limits>
#include <utility>

#include "lattice.hpp"
#include "privgrad/error.hpp"

namespace pld {
namespace {

using namespace privgrad;

constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns r such that a transform x -> X has an error of at most r ||X||_2 in the 2-norm (Higham
/// 2002, Theorem 24.2), and of at most r ||x||_1 in each X_f, because each stage applies one
/// product and a few sums on the way from x_j to X_f. Each factor of two in the size costs a
/// twiddle factor, whose angle of up to 2 pi carries two roundings (14 units of rounding), a
/// product, and three sums; 24 units (12 ulps) cover all of these.
double transform_error(std::size_t size) {
  return 12.0 * kUlp * (std::log2(static_cast<double>(size)) + 1.0);
}

/// The masses of a lattice under the tilted measure, in the form of the transform's input.
struct Tilted {
  std::vector<double> weight;
  double log_moment = 0.0;  ///< ln sum of mass * e^(tilt * loss), for the weights as stored.
};

/// A lattice's losses, without the offset, and the logarithms of its masses (-infinity if <= 0).
struct Logarithms {
  Logarithms(const Lattice& lattice, double step) {
    loss.reserve(lattice.index.size());
    log_mass.reserve(lattice.index.size());
    for (std::size_t j = 0; j < lattice.index.size(); ++j) {
      loss.push_back(static_cast<double>(lattice.index[j]) * step);
      log_mass.push_back(lattice.mass[j] > 0.0 ? std::log(lattice.mass[j]) : -kInfinity);
    }
  }
  double largest_exponent(double order) const {
    double top = -kInfinity;
    for (std::size_t j = 0; j < loss.size(); ++j)
      top = std::max(top, log_mass[j] + order * loss[j]);
    return top;
  }
  std::vector<double> loss, log_mass;
};

/// \param direction  +1 rounds every weight up, -1 down.
Tilted tilt_masses(const Logarithms& lattice, double tilt, double direction) {
  Tilted result;
  const std::size_t count = lattice.loss.size();
  result.weight.resize(count);
  const double top = lattice.largest_exponent(tilt);
  if (!std::isfinite(top)) return result;
  long double sum = 0.0L;
  for (std::size_t j = 0; j < count; ++j) {
    const double log_mass = lattice.log_mass[j];
    if (std::isinf(log_mass)) continue;
    const double exponent = tilt * lattice.loss[j];
    // The rounding errors of the product, the logarithm and their sum affect the exponent.
    const double error =
        2.0 * kUlp * (2.0 + std::fabs(exponent) + std::fabs(log_mass) + std::fabs(top));
    result.weight[j] = std::exp(log_mass + exponent - top) * std::max(0.0, 1.0 + direction * error);
    sum += static_cast<long double>(result.weight[j]);
  }
  const auto total = static_cast<double>(sum);
  if (total == 0.0) return result;
  result.log_moment = top + std::log(total);
  for (double& w : result.weight) w /= total;
  return result;
}

/// Returns an upper bound on ln E e^(order * loss) of a lattice.
double log_moment_bound(const Logarithms& lattice, double order) {
  const double top = lattice.largest_exponent(order);
  if (!std::isfinite(top)) return -kInfinity;
  double sum = 0.0;
  double size = 0.0;
  for (std::size_t j = 0; j < lattice.loss.size(); ++j) {
    const double log_mass = lattice.log_mass[j];
    if (std::isinf(log_mass)) continue;
    const double exponent = order * lattice.loss[j];
    const double term = std::exp(log_mass + exponent - top);
    sum += term;
    size += term * (std::fabs(log_mass) + std::fabs(exponent) + std::fabs(top));
  }
  const auto count = static_cast<double>(lattice.loss.size());
  return top + std::log(sum) + 4.0 * kUlp * (count + size / sum + std::fabs(top) + 1.0);
}

double sum_of_squares(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double v : x) sum += v * v;
  return sum;
}

/// Returns a bound on the sum over m = 1 .. size of kernel(m h)^2,
/// kernel(t) = e^(-tilt t) (1 - e^(-t)). The square increases and then decreases, so h times
/// the sum is at most its integral plus h times its maximum; the integral is a beta function,
/// B(2 tilt, 3).
double kernel_square_sum(double tilt, double step, std::size_t size) {
  const double integral = 1.0 / (2.0 * tilt * (2.0 * tilt + 1.0) * (tilt + 1.0));
  const double peak = tilt > 0.0 ? std::exp(2.0 * log_peak(tilt)) : 1.0;
  return std::min(static_cast<double>(size), (integral / step + peak) * (1.0 + 1e-6));
}

struct Totals {
  // In extended precision, so that rounding errors of sums over many steps are negligible.
  long double upper_log_scale = 0.0L, lower_log_scale = 0.0L;
  long double upper_high = 0.0L, lower_far = 0.0L, lower_low = 0.0L;  // logarithms of moments
  double at_infinity = 0.0, missing = 0.0;
  double steps = 0.0;
  double log_scale_error = 0.0;

  void record(const Bracket& bracket, const Logarithms& upper, const Logarithms& lower,
              double upper_moment, double lower_moment, const Layout& layout, double count) {
    if (bracket.lower.index.empty()) {
      lower_log_scale = -std::numeric_limits<long double>::infinity();  // the lower bound is then 0
    } else {
      lower_log_scale += count * lower_moment;
      lower_far += count * log_moment_bound(lower, layout.far_order);
      lower_low += count * log_moment_bound(lower, layout.low_order);
    }
    upper_log_scale += count * upper_moment;
    upper_high += count * log_moment_bound(upper, layout.high_order);
    at_infinity += count * bracket.upper.at_infinity;
    missing -= count * bracket.lower.at_infinity;
    const double size = std::fabs(upper_moment) + std::fabs(lower_moment);
    log_scale_error += 8.0 * kUlp * count * (2.0 + size);
    for (const long double sum : {upper_log_scale, lower_log_scale}) {
      if (std::isfinite(sum)) log_scale_error += 1e-18 * static_cast<double>(std::fabs(sum));
    }
    steps += count;
  }
};

/// One step on the grid, in its form for each of the two bounds.
struct Factors {
  Factor upper, lower;
};

/// The product of the factors at the window's frequencies 0 .. size / 2.
struct Product {
  std::vector<Complex> upper, lower;
  /// Products of max(|factor|^2, 1/4). Omitting one factor then at most doubles their square root.
  std::vector<double> upper_majorant, lower_majorant;
  double transform_error = 0.0;  // sum over steps of count * (largest error of a factor)
};

/// Composes by fast transforms of the whole window.
class Composer {
 public:
  explicit Composer(const Layout& layout)
      : layout_(layout),
        fourier_(layout.size, false),
        in_(layout.size),
        out_(layout.size),
        error_(transform_error(layout.size)) {
    product_.upper.assign(layout.size / 2 + 1, Complex(1.0, 0.0));
    product_.lower = product_.upper;
    product_.upper_majorant.assign(product_.upper.size(), 1.0);
    product_.lower_majorant = product_.upper_majorant;
  }

  void multiply(const Factors& step) {
    const std::uint64_t times = step.upper.count;
    const auto count = static_cast<double>(times);
    std::ranges::fill(in_, Complex{});
    scatter(step.upper, Complex(1.0, 0.0));
    scatter(step.lower, Complex(0.0, 1.0));
    // Rarely sampled steps have nearly all of their mass at loss 0, whose transform is a constant:
    // it is added afterwards, so that it does not contribute to the transform's rounding errors.
    const Complex at_zero = in_[0];
    in_[0] = {};
    fourier_.transform(in_.data(), out_.data());

    const std::size_t size = layout_.size;
    for (std::size_t k = 0; k < product_.upper.size(); ++k) {
      const Complex z = out_[k];
      const Complex mirror = std::conj(out_[k == 0 ? 0 : size - k]);
      const Complex upper = at_zero.real() + 0.5 * (z + mirror);
      const Complex difference = 0.5 * (z - mirror);
      const Complex lower(at_zero.imag() + difference.imag(), -difference.real());
      include(upper, times, product_.upper[k], product_.upper_majorant[k]);
      include(lower, times, product_.lower[k], product_.lower_majorant[k]);
    }
    double rest = 0.0;
    for (const Complex& z : in_) rest += std::fabs(z.real()) + std::fabs(z.imag());
    // 4 ulp cover the two roundings when the constant is added.
    product_.transform_error += count * (error_ * rest + 4.0 * kUlp);
  }

  const Product& product() const { return product_; }
  double relative_error() const { return error_; }

  /// Computes the tilted masses for the two bounds, on the points of the window.
  void back(std::int64_t first, std::vector<double>& upper, std::vector<double>& lower) {
    const std::size_t size = layout_.size;
    // Exchanging real and imaginary parts before and after a transform gives the inverse transform.
    for (std::size_t k = 0; k < product_.upper.size(); ++k) {
      const Complex u = product_.upper[k];
      const Complex l = product_.lower[k];
      in_[k] = Complex(u.imag() + l.real(), u.real() - l.imag());
      if (k != 0) in_[size - k] = Complex(l.real() - u.imag(), u.real() + l.imag());
    }
    fourier_.transform(in_.data(), out_.data());
    upper.resize(size);
    lower.resize(size);
    const double scale = 1.0 / static_cast<double>(size);
    for (std::size_t j = 0; j < size; ++j) {
      // The true masses are not negative, so cutting off negative noise reduces the error.
      const Complex z = out_[position(first + static_cast<std::int64_t>(j))];
      upper[j] = std::max(0.0, z.imag() * scale);
      lower[j] = std::max(0.0, z.real() * scale);
    }
  }

 private:
  std::size_t position(std::int64_t index) const {
    const auto size = static_cast<std::int64_t>(layout_.size);
    return static_cast<std::size_t>(((index % size) + size) % size);
  }

  static void include(Complex factor, std::uint64_t count, Complex& product, double& majorant) {
    const double size = std::max(0.25, std::norm(factor));
    if (count == 1) {
      product *= factor;
      if (std::norm(product) < kVanishing) product = {};
      majorant *= size;
    } else {
      product *= power(factor, count);
      majorant *= power(size, count);
    }
    if (majorant < kVanishing) majorant = kVanishing;
  }

  void scatter(const Factor& factor, Complex unit) {
    for (std::size_t j = 0; j < factor.index.size(); ++j) {
      in_[position(factor.index[j])] += factor.weight[j] * unit;
    }
  }

  Layout layout_;
  kissfft<double> fourier_;
  std::vector<Complex> in_, out_;
  double error_;
  Product product_;
};

/// tail[k] = sum over j > k of mass[j] kernel(S_j - S_k), S_j = j step, by a recursion of positive
/// terms: kernel(t + h) = e^(-tilt h) (kernel(t) + e^(-(tilt + 1) t) (1 - e^(-h))). The recursion
/// runs in extended precision, because a term from m points away has been rounded m times.
std::vector<double> tail_sums(const std::vector<double>& mass, double tilt, double step) {
  const long double h = step;
  const long double decay = std::exp(-tilt * h);
  const long double fast = std::exp(-(tilt + 1.0L) * h);
  const long double gap = -std::expm1(-h);
  std::vector<double> tail(mass.size());
  long double sum = 0.0L;
  long double inner = 0.0L;  // sum over j > k of mass[j] e^(-(tilt + 1) (S_j - S_(k+1)))
  for (std::size_t k = mass.size(); k-- > 0;) {
    sum = decay * (sum + gap * inner);
    tail[k] = static_cast<double>(sum);
    inner = mass[k] + fast * inner;
  }
  return tail;
}

/// The sum of the steps' anchors, and of their absolute values.
struct Offset {
  double value = 0.0, size = 0.0;
};

/// Discretises one step, and adds its contributions to the totals.
Factors factors_of(const Step& step, const Scout& scout, std::size_t position, const Layout& layout,
                   double all_steps, Totals& totals) {
  Bracket bracket =
      discretise(*step.above, *step.below,
                 {.step = layout.step,
                  .offset = step.above->anchor(layout.step),
                  .tilt = layout.tilt,
                  .log_weight = std::max(0.0, scout.log_moment(position, layout.tilt)),
                  .top_cut = std::max(layout.cut / all_steps, 1e-318),
                  .bottom_cut = 1e-12 / all_steps});
  const Logarithms upper(bracket.upper, layout.step);
  const Logarithms lower(bracket.lower, layout.step);
  Tilted up = tilt_masses(upper, layout.tilt, +1.0);
  Tilted down = tilt_masses(lower, layout.tilt, -1.0);
  totals.record(bracket, upper, lower, up.log_moment, down.log_moment, layout,
                static_cast<double>(step.count));
  return {{std::move(bracket.upper.index), std::move(up.weight), step.count},
          {std::move(bracket.lower.index), std::move(down.weight), step.count}};
}

/// Returns the loss at index 0 of the composition, and the sum of its terms' absolute values, which
/// bounds its rounding errors.
Offset offset_of(const std::vector<Step>& steps, const Layout& layout) {
  long double offset = 0.0L;
  double size = 0.0;
  for (const Step& step : steps) {
    const auto count = static_cast<double>(step.count);
    const double anchor = step.above->anchor(layout.step);
    offset += static_cast<long double>(count) * anchor;
    size += count * std::fabs(anchor);
  }
  return {static_cast<double>(offset), size};
}

double root_of_kernel_squares(const Layout& layout) {
  return std::sqrt(kernel_square_sum(layout.tilt, layout.step, layout.size));
}

/// The largest effect of the transforms' errors on a tail sum.
struct TransformNoise {
  double upper = 0.0, lower = 0.0;
};

/// \param steps  the number of steps, counting repetitions.
/// \param upper, lower  the masses after the inverse transform.
TransformNoise transform_noise(const Composer& composer, double steps, const Layout& layout,
                               const std::vector<double>& upper, const std::vector<double>& lower) {
  const Product& product = composer.product();
  // Replacing one factor after the other by its exact value changes the product, at each frequency,
  // by at most the error of the factor times all other factors, computed or exact. Rounding adds a
  // relative error to the powers; the inverse transform's error is bounded in the 2-norm.
  const double growth = std::exp(std::min(700.0, 2.0 * product.transform_error));
  const double own = composer.relative_error() + 4.0 * kUlp * (steps + 2.0);
  const auto noise_of_factors = [&](const std::vector<double>& majorant) {
    double sum = 0.0;
    for (std::size_t k = 0; k < majorant.size(); ++k) {
      sum += (k == 0 ? 1.0 : 2.0) * majorant[k];  // both halves of the spectrum
    }
    return 2.0 * growth * product.transform_error *
           std::sqrt(sum / static_cast<double>(layout.size));
  };
  const double upper_noise = noise_of_factors(product.upper_majorant);
  const double lower_noise = noise_of_factors(product.lower_majorant);
  // Both sums were transformed back together. The exact sums are at most the computed ones
  // (cut off at 0) plus the rounding noise; 1e-120 is more than all underflows together.
  const double norm = std::sqrt(sum_of_squares(upper) + sum_of_squares(lower));
  const double shared = 2.0 * own * (norm + upper_noise + lower_noise) + 1e-120;
  const double kernel = root_of_kernel_squares(layout);
  return {(upper_noise + shared) * kernel, (lower_noise + shared) * kernel};
}

/// The most distinct steps whose factors, of some 2000 points each, are stored. Compositions of
/// more steps are processed one step at a time.
constexpr std::size_t kMostKept = 1024;

/// Sets the scale of the upper bound, `outside` and `at_infinity`; `up` is a Curve::Bound.
/// \param high_end  the end of the layout's losses, relative to the offset.
void set_upper(auto& up, const Totals& product, const Layout& layout, double high_end) {
  up.log_scale = static_cast<double>(product.upper_log_scale) + product.log_scale_error;
  // A Chernoff bound, whose exponent has a relative rounding error.
  const auto upper_high = static_cast<double>(product.upper_high);
  const double above = upper_high - layout.high_order * high_end;
  up.at_infinity = product.at_infinity * (1.0 + 1e-9);
  up.outside =
      up.at_infinity +
      std::exp(std::min(
          0.0, above + 1e-14 * (std::fabs(upper_high) + layout.high_order * std::fabs(high_end)) +
                   product.steps * 1e-15));
}

/// Sets the scale of the lower bound, `outside`, and the bounds on masses that wrap into the
/// window: `absolute` for the masses below the window, `far_log` and `far_order` for those above.
/// \param low_end  the beginning of the layout's losses, relative to the offset.
/// \param length  the length of the range of the layout's losses.
void set_lower(auto& low, const Totals& product, const Layout& layout, double low_end,
               double length) {
  low.log_scale = static_cast<double>(product.lower_log_scale) - product.log_scale_error;
  low.outside = product.missing * (1.0 + 1e-6);
  const auto lower_low = static_cast<double>(product.lower_low - product.lower_log_scale);
  const auto lower_far = static_cast<double>(product.lower_far - product.lower_log_scale);
  const auto lower_size =
      static_cast<double>(std::fabs(product.lower_low) + std::fabs(product.lower_far) +
                          2.0L * std::fabs(product.lower_log_scale));
  const double below = lower_low + (layout.tilt - layout.low_order) * low_end;
  const double slop = 1e-14 * (lower_size + std::fabs((layout.tilt - layout.low_order) * low_end)) +
                      product.steps * 1e-15 + product.log_scale_error;
  low.absolute = std::exp(std::min(0.0, below + slop) + log_peak(layout.tilt));
  low.far_order = layout.far_order - layout.tilt;
  low.far_log = lower_far - low.far_order * length;
  low.far_log += 1e-14 * (lower_size + low.far_order * length) + product.steps * 1e-15 +
                 product.log_scale_error;
}

}  // namespace

std::size_t fast_size(double least) {
  std::size_t size = 1024;
  while (static_cast<double>(size) < least) {
    const std::size_t with_half = size + size / 2;
    if (static_cast<double>(with_half) >= least) return with_half;
    size *= 2;
  }
  return size;
}

std::optional<Curve> compose(const std::vector<Step>& steps, const Scout& scout,
                             const Layout& layout) {
  Curve curve;
  curve.layout_ = layout;
  const Offset offset = offset_of(steps, layout);
  curve.offset_ = offset.value;
  curve.offset_error_ = 2.0 * kUlp * offset.size;
  curve.first_ = static_cast<std::int64_t>(std::floor((layout.low - curve.offset_) / layout.step));

  double all_steps = 0.0;
  for (const Step& step : steps) all_steps += static_cast<double>(step.count);
  if (!(4.0 * kUlp * all_steps < 0.1)) {
    throw NumericError("pld: too many steps for the rounding errors to stay small");
  }
  Totals product;
  TransformNoise noise;
  std::optional<Composer> composer;
  std::vector<Factor> upper_factors;
  std::vector<Factor> lower_factors;
  const bool keeps = steps.size() <= kMostKept && layout.tilt > 0.0;
  if (!keeps && layout.without_transforms) return {};
  if (!keeps) composer.emplace(layout);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Factors factors = factors_of(steps[i], scout, i, layout, all_steps, product);
    if (composer) {
      composer->multiply(factors);
    } else {
      upper_factors.push_back(std::move(factors.upper));
      lower_factors.push_back(std::move(factors.lower));
    }
  }
  if (keeps) {
    const double most_work = layout.work_for_point * static_cast<double>(steps.size()) *
                             static_cast<double>(layout.size);
    curve.upper_.spectrum = Spectrum::of(upper_factors, layout.size, most_work);
    if (curve.upper_.spectrum)
      curve.lower_.spectrum = Spectrum::of(lower_factors, layout.size, most_work);
    if (curve.lower_.spectrum) {
      const double kernel = root_of_kernel_squares(layout);
      noise = {curve.upper_.spectrum->left_out() * kernel,
               curve.lower_.spectrum->left_out() * kernel};
    } else if (layout.without_transforms) {
      return {};
    } else {
      composer.emplace(layout);
      for (std::size_t i = 0; i < steps.size(); ++i)
        composer->multiply({std::move(upper_factors[i]), std::move(lower_factors[i])});
    }
  }
  if (composer) {
    std::vector<double> upper;
    std::vector<double> lower;
    composer->back(curve.first_, upper, lower);
    noise = transform_noise(*composer, all_steps, layout, upper, lower);
    curve.upper_.spectrum.reset();
    curve.upper_.tail = tail_sums(upper, layout.tilt, layout.step);
    curve.lower_.tail = tail_sums(lower, layout.tilt, layout.step);
  }

  const double h = layout.step;
  // From here on losses are relative to the offset.
  const double low_end = static_cast<double>(curve.first_) * h;
  const double length = static_cast<double>(layout.size) * h;
  const double high_end = low_end + length;
  const double sums = 8.0 * kUlp * (product.steps + 2.0) +
                      16.0 * static_cast<double>(std::numeric_limits<long double>::epsilon()) *
                          static_cast<double>(layout.size);

  set_upper(curve.upper_, product, layout, high_end);
  curve.upper_.absolute = noise.upper;
  curve.upper_.relative = sums;
  set_lower(curve.lower_, product, layout, low_end, length);
  curve.lower_.absolute += noise.lower;
  curve.lower_.relative = sums;
  if (std::isnan(curve.upper_.log_scale) || std::isnan(curve.upper_.absolute) ||
      std::isnan(curve.tail_at(curve.upper_, 0).value)) {
    throw NumericError("pld: the composition produced NaN");
  }
  return curve;
}

double Curve::point(std::size_t k) const {
  return static_cast<double>(first_ + static_cast<std::int64_t>(k)) * layout_.step;
}

double Curve::rounding(double epsilon) const {
  return offset_error_ + 4.0 * kUlp * (std::fabs(offset_) + std::fabs(epsilon));
}

Approximation Curve::tail_at(const Bound& bound, std::size_t k) const {
  if (!bound.spectrum) return {bound.tail[k], 0.0};
  return bound.spectrum->tail(
      {.size = layout_.size, .first = first_, .step = layout_.step, .tilt = layout_.tilt}, k);
}

double Curve::upper_at(std::size_t k) const {
  const double exponent = upper_.log_scale - layout_.tilt * point(k);
  const double slop =
      4.0 * kUlp * (std::fabs(upper_.log_scale) + std::fabs(layout_.tilt * point(k)) + 2.0);
  const Approximation tail = tail_at(upper_, k);
  const double most = std::max(0.0, tail.value + tail.error);
  const double sum = most * (1.0 + upper_.relative) + upper_.absolute;
  return std::min(
      1.0, std::exp(exponent + slop) * sum + upper_.outside + std::numeric_limits<double>::min());
}

double Curve::lower_at(std::size_t k) const {
  if (!std::isfinite(lower_.log_scale)) return 0.0;
  const double exponent = lower_.log_scale - layout_.tilt * point(k);
  const double slop =
      4.0 * kUlp * (std::fabs(lower_.log_scale) + std::fabs(layout_.tilt * point(k)) + 2.0);
  const double far = std::exp(std::min(0.0, lower_.far_log - lower_.far_order * point(k)) +
                              log_peak(layout_.tilt));
  const Approximation tail = tail_at(lower_, k);
  const double least = std::max(0.0, tail.value - tail.error);
  const double sum = least * (1.0 - lower_.relative) - lower_.absolute - far;
  if (!(sum > 0.0)) return 0.0;
  return std::clamp(std::exp(exponent - slop) * sum - lower_.outside, 0.0, 1.0);
}

/// With M = E e^(tilt loss): E (1 - e^(epsilon - loss))_+ <=
/// M e^(-tilt epsilon) max_t e^(-tilt t) (1 - e^(-t)).
double Curve::renyi_delta(double counted) const {
  const double exponent = upper_.log_scale - layout_.tilt * counted + log_peak(layout_.tilt);
  const double slop =
      1e-14 * (std::fabs(upper_.log_scale) + layout_.tilt * std::fabs(counted) + 100.0);
  return std::min(1.0, std::exp(std::min(0.0, exponent + slop)) + upper_.at_infinity);
}

double Curve::upper_delta(double given) const {
  const double epsilon = given - offset_ - rounding(given);
  const double where = epsilon / layout_.step - static_cast<double>(first_);
  if (where < 0.0) return renyi_delta(epsilon);
  if (!(where < static_cast<double>(layout_.size - 1))) {  // because delta decreases
    return std::min(renyi_delta(epsilon), upper_at(layout_.size - 1));
  }
  const auto k = static_cast<std::size_t>(where);
  const double left = upper_at(k);
  const double right = upper_at(k + 1);
  const double t = std::clamp(std::expm1(epsilon - point(k)) / std::expm1(layout_.step), 0.0, 1.0);
  return std::min(renyi_delta(epsilon),
                  (left + t * (right - left)) * (1.0 + 8.0 * kUlp) + 1e-12 * (left - right));
}

double Curve::lower_delta(double given) const {
  const double epsilon = given - offset_ + rounding(given);
  const double where = epsilon / layout_.step - static_cast<double>(first_);
  if (where < 0.0) return lower_at(0);
  if (!(where < static_cast<double>(layout_.size - 1))) return 0.0;
  const auto k = static_cast<std::size_t>(where);
  const double left = lower_at(k);
  const double right = lower_at(k + 1);
  const double t = std::clamp(std::expm1(epsilon - point(k)) / std::expm1(layout_.step), 0.0, 1.0);
  return std::max(
      0.0, (left + t * (right - left)) * (1.0 - 8.0 * kUlp) - 1e-12 * std::fabs(left - right));
}

double Curve::with_offset(double counted, double direction) const {
  const double epsilon = counted + offset_;
  return std::max(0.0, epsilon + direction * (rounding(epsilon) + 4.0 * kUlp * std::fabs(counted)));
}

/// Returns a point whose upper bound is at most delta: point 0, or a point that follows one with an
/// upper bound above delta.
std::size_t Curve::first_within(double delta) const {
  std::size_t lo = 0;
  std::size_t hi = layout_.size - 1;
  if (upper_at(lo) <= delta) return lo;
  while (hi - lo > 1) {
    const std::size_t middle = lo + (hi - lo) / 2;
    (upper_at(middle) > delta ? lo : hi) = middle;
  }
  return hi;
}

double Curve::upper_epsilon(double delta) const {
  // The result is proved by two neighbouring points of which only the first has a bound above
  // delta.
  if (upper_at(layout_.size - 1) > delta) {
    const double left_over = delta - upper_.at_infinity;
    if (!(left_over > 0.0) || layout_.tilt == 0.0) return kInfinity;
    const double log_delta = std::log(left_over);
    const double size = std::fabs(upper_.log_scale) + std::fabs(log_delta) + 100.0;
    const double sum = upper_.log_scale + log_peak(layout_.tilt) - log_delta + 1e-14 * size;
    return with_offset(sum / layout_.tilt, +1.0);
  }
  const std::size_t hi = first_within(delta);
  if (hi == 0) return with_offset(point(0), +1.0);
  const std::size_t lo = hi - 1;
  const double left = upper_at(lo);
  const double right = upper_at(hi);
  const double t = std::min(1.0, (left - delta) / (left - right) + 1e-12);
  const double epsilon = point(lo) + std::log1p(t * std::expm1(layout_.step));
  return with_offset(epsilon, +1.0);
}

double Curve::lower_epsilon(double delta) const {
  // The bound is good near the answer and deteriorates on both sides. So the search for the last
  // point with a bound above delta starts at the upper bound on epsilon, at first in small steps.
  std::size_t hi = layout_.size - 1;
  if (lower_at(hi) > delta) return with_offset(point(hi), -1.0);
  if (upper_at(hi) <= delta) hi = std::max<std::size_t>(1, first_within(delta));
  std::size_t stride = 1;
  std::size_t lo = hi;
  while (lower_at(lo) <= delta) {
    hi = lo;
    if (lo < stride || point(lo) + offset_ < 0.0) return 0.0;
    lo -= stride;
    stride = std::min(2 * stride, layout_.size / 512);
  }
  while (hi - lo > 1) {
    const std::size_t middle = lo + (hi - lo) / 2;
    (lower_at(middle) > delta ? lo : hi) = middle;
  }
  const double left = lower_at(lo);
  const double right = lower_at(hi);
  const double t = std::max(0.0, (left - delta) / (left - right) - 1e-12);
  const double epsilon = point(lo) + std::log1p(t * std::expm1(layout_.step));
  return with_offset(epsilon, -1.0);
}

}  // namespace pld
