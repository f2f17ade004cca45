#include "spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace pld {
/// e^(2 pi i k / size) for whole k, from two short tables.
class Roots {
 public:
  explicit Roots(std::size_t size)
      : size_(static_cast<std::int64_t>(size)), inverse_(1.0 / static_cast<double>(size)) {
    while ((std::size_t{1} << (2 * bits_)) < size) ++bits_;
    const std::size_t block = std::size_t{1} << bits_;
    for (std::size_t k = 0; k < block; ++k) fine_.push_back(root(k));
    for (std::size_t k = 0; k < size; k += block) coarse_.push_back(root(k));
  }

  /// a b modulo the size, for a and b in [0, size), size <= 2^24.
  std::int64_t product(std::int64_t a, std::int64_t b) const {
    const std::int64_t whole = a * b;
    std::int64_t rest =
        whole - static_cast<std::int64_t>(static_cast<double>(whole) * inverse_) * size_;
    // The quotient may be off by one.
    if (rest < 0) rest += size_;
    if (rest >= size_) rest -= size_;
    return rest;
  }

  std::int64_t reduced(std::int64_t k) const { return ((k % size_) + size_) % size_; }

  /// \param k  in [0, size).
  Complex at(std::int64_t k) const {
    const auto place = static_cast<std::size_t>(k);
    return coarse_[place >> bits_] * fine_[place & ((std::size_t{1} << bits_) - 1)];
  }

  std::int64_t size() const { return size_; }

 private:
  Complex root(std::size_t k) const {
    const double angle = 2.0 * std::numbers::pi * (static_cast<double>(k) * inverse_);
    return {std::cos(angle), std::sin(angle)};
  }

  std::int64_t size_;
  double inverse_;
  unsigned bits_ = 0;
  std::vector<Complex> fine_, coarse_;
};

namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ln of a size of coefficients that is left out: next to it, every answer is huge.
constexpr double kLogNegligible = -50.0;

// A root of unity: its angle of up to 2 pi carries three roundings, cosine and sine are good to an
// ulp, and the product of two of them to another two.
constexpr double kRootError = 32.0 * kUlp;

double size_of(double x) { return x; }
double size_of(Complex z) { return std::norm(z); }

template <class Number>
Number power_of(Number base, std::uint64_t exponent) {
  Number result(1.0);
  while (true) {
    if (exponent & 1U) result *= base;
    exponent >>= 1U;
    if (exponent == 0) break;
    base *= base;
    if (size_of(base) < kVanishing) return Number(0.0);
  }
  return size_of(result) < kVanishing ? Number(0.0) : result;
}

/// The transform of one factor, phi(f) = sum of w_j e^(-2 pi i f j / size).
class Transform {
 public:
  Transform(const Factor& factor, const Roots& roots) : roots_(roots), count_(factor.count) {
    double mean = 0.0;
    double last = 0.0;
    std::int64_t last_index = std::numeric_limits<std::int64_t>::min();
    for (std::size_t j = 0; j < factor.index.size(); ++j) {
      const double weight = factor.weight[j];
      if (weight == 0.0) continue;
      mean += weight * static_cast<double>(factor.index[j]);
      const bool is_next = factor.index[j] == last_index + 1;
      variation_ += is_next ? std::fabs(weight - last) : last + weight;
      last = weight;
      last_index = factor.index[j];
      // Rarely sampled steps have nearly all of their mass at loss 0, whose transform is a
      // constant: it takes no part in the rounding errors.
      const std::int64_t place = roots.reduced(factor.index[j]);
      if (place == 0) {
        at_zero_ += weight;
        continue;
      }
      place_.push_back(place);
      weight_.push_back(weight);
      rest_ += weight;
    }
    variation_ += last;
    for (std::size_t j = 0; j < factor.index.size(); ++j) {
      const double x = static_cast<double>(factor.index[j]) - mean;
      offset_ += factor.weight[j] * x;
      distance_ += factor.weight[j] * std::fabs(x);
      square_ += factor.weight[j] * x * x;
    }
    // The sums' own roundings, for up to 2^24 points.
    constexpr double kSlack = 1e-8;
    offset_ = std::fabs(offset_) + kSlack * distance_;
    distance_ *= 1.0 + kSlack;
    square_ *= 1.0 + kSlack;
    variation_ *= 1.0 + kSlack;
  }

  std::uint64_t count() const { return count_; }
  std::size_t points() const { return weight_.size() + 1; }

  Complex at(std::int64_t frequency) const {
    long double real = 0.0L;  // in extended precision, so that the number of points does not count
    long double imaginary = 0.0L;
    for (std::size_t j = 0; j < weight_.size(); ++j) {
      const Complex root = roots_.at(roots_.product(frequency, place_[j]));
      real += static_cast<long double>(weight_[j] * root.real());
      imaginary -= static_cast<long double>(weight_[j] * root.imag());
    }
    return {at_zero_ + static_cast<double>(real), static_cast<double>(imaginary)};
  }

  /// The error of at(): the roots', that of a product, and two where the constant is added.
  double error() const {
    const double sums = static_cast<double>(weight_.size()) *
                        static_cast<double>(std::numeric_limits<long double>::epsilon());
    return (kRootError + 2.0 * kUlp + sums) * rest_ + 8.0 * kUlp;
  }

  /// The derivative by the angle is at most this up to `angle`.
  double slope_up_to(double angle) const { return std::min(distance_, offset_ + angle * square_); }

  /// The transform is at most this at every angle from here to pi.
  double bound_beyond(double angle) const {
    return variation_ /
           (2.0 * std::sin(0.5 * std::min(angle, std::numbers::pi)) * (1.0 - 8.0 * kUlp));
  }

 private:
  const Roots& roots_;
  std::uint64_t count_;
  std::vector<std::int64_t> place_;
  std::vector<double> weight_;
  double at_zero_ = 0.0, rest_ = 0.0;
  // With X the index and c about its mean: |E (X - c)|, E |X - c|, E (X - c)^2; sum |w_j -
  // w_(j-1)|.
  double offset_ = 0.0, distance_ = 0.0, square_ = 0.0, variation_ = 0.0;
};

/// Walks over the frequencies of a product of transforms.
class Walk {
 public:
  Walk(const std::vector<Factor>& factors, const Roots& roots) : roots_(roots) {
    for (const Factor& factor : factors) {
      transforms_.emplace_back(factor, roots_);
      const auto count = static_cast<double>(factor.count);
      points_ += static_cast<double>(transforms_.back().points());
      error_ += count * transforms_.back().error();
      steps_ += count;
    }
    values_.resize(transforms_.size());
  }

  double points() const { return points_; }

  void look_at(std::int64_t frequency) {
    frequency_ = frequency;
    for (std::size_t i = 0; i < transforms_.size(); ++i) values_[i] = transforms_[i].at(frequency);
  }

  /// Replacing one factor after the other by its exact value changes the product by at most the
  /// error of the factor times all others, computed or exact: with one factor less, no product of
  /// sizes of at least 1/2 is more than twice the whole. The powers' own roundings are relative.
  Complex product(double* error) const {
    Complex all(1.0, 0.0);
    double majorant = 1.0;
    for (std::size_t i = 0; i < transforms_.size(); ++i) {
      all *= power(values_[i], transforms_[i].count());
      majorant *=
          power(std::max(0.5, std::abs(values_[i]) * (1.0 + 4.0 * kUlp)), transforms_[i].count());
    }
    const double growth = std::exp(std::min(700.0, 2.0 * error_));
    const double own = 4.0 * kUlp * (steps_ + static_cast<double>(transforms_.size()) + 2.0);
    // 1e-120 is more than everything that underflowed.
    *error = 2.0 * growth * error_ * majorant * (1.0 + own) + own * std::abs(all) + 1e-120;
    return all;
  }

  /// Whether all coefficients from the last one looked at to `distance` frequencies on are
  /// negligible.
  bool negligible_for(std::int64_t distance) const {
    const double step = angle(1);
    const double end = angle(frequency_ + distance) * (1.0 + 8.0 * kUlp);
    return log_bound([&](std::size_t i) {
             return std::abs(values_[i]) * (1.0 + 4.0 * kUlp) + transforms_[i].error() +
                    transforms_[i].slope_up_to(end) * step * static_cast<double>(distance) *
                        (1.0 + 8.0 * kUlp);
           }) <= kLogNegligible;
  }

  /// Whether all coefficients from a frequency on are.
  bool negligible_from(std::int64_t frequency) const {
    if (frequency == 0) return false;
    const double begin = angle(frequency) * (1.0 - 8.0 * kUlp);
    return log_bound([&](std::size_t i) { return transforms_[i].bound_beyond(begin); }) <=
           kLogNegligible;
  }

 private:
  double angle(std::int64_t frequency) const {
    return 2.0 * std::numbers::pi * static_cast<double>(frequency) /
           static_cast<double>(roots_.size());
  }

  /// The ln of a product of bounds, none of which is worse than the 1 that weights add up to.
  template <class Bound>
  double log_bound(const Bound& bound) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < transforms_.size(); ++i) {
      const double one = bound(i);
      if (one == 0.0) return -kInfinity;
      const double log_one = one < 1.0 ? std::log(one) : 0.0;
      sum += static_cast<double>(transforms_[i].count()) * (log_one + 16.0 * kUlp);
    }
    return sum * (1.0 - 1e-12);
  }

  const Roots& roots_;
  std::vector<Transform> transforms_;
  std::vector<Complex> values_;
  std::int64_t frequency_ = 0;
  double points_ = 0.0, error_ = 0.0, steps_ = 0.0;
};

}  // namespace

Complex power(Complex base, std::uint64_t exponent) { return power_of(base, exponent); }
double power(double base, std::uint64_t exponent) { return power_of(base, exponent); }

std::optional<Spectrum> Spectrum::of(const std::vector<Factor>& factors, std::size_t size,
                                     double most_work) {
  Spectrum spectrum;
  spectrum.roots_ = std::make_shared<const Roots>(size);
  Walk walk(factors, *spectrum.roots_);
  spectrum.left_out_ = std::exp(kLogNegligible);
  const auto end = static_cast<std::int64_t>(size / 2);
  double work = 0.0;
  std::int64_t frequency = 0;
  while (frequency <= end && !walk.negligible_from(frequency)) {
    work += walk.points();
    if (work > most_work) return {};
    walk.look_at(frequency);
    if (!walk.negligible_for(0)) {
      double error = 0.0;
      const Complex value = walk.product(&error);
      spectrum.kept_.push_back({frequency, value, error});
      ++frequency;
      continue;
    }
    std::int64_t distance = 1;  // the next frequency that is not known to be negligible
    while (distance < end && walk.negligible_for(2 * distance)) distance *= 2;
    for (std::int64_t more = distance / 2; more > 0; more /= 2) {
      if (walk.negligible_for(distance + more)) distance += more;
    }
    frequency += distance;
  }
  return spectrum;
}

std::vector<std::int64_t> Spectrum::frequencies() const {
  std::vector<std::int64_t> all;
  for (const Coefficient& c : kept_) all.push_back(c.frequency);
  return all;
}

/// With z = e^(-tilt h + i t) and y = e^(-(tilt + 1) h + i t), the transform of the kernel on the m
/// = size - 1 - k points behind k is the sum of z^j - y^j up to m: that without an end, whose parts
/// are (z - y) / ((1 - z) (1 - y)), less what follows, z^m (z / (1 - z) - e^(-m h) y / (1 - y)).
Approximation Spectrum::tail(const Window& window, std::size_t k) const {
  const double h = window.step;
  const auto behind = static_cast<std::int64_t>(window.size - 1 - k);
  const double length = static_cast<double>(behind) * h;
  const double decay = std::exp(-window.tilt * h);
  const double fast = std::exp(-(window.tilt + 1.0) * h);
  const double lost = -std::expm1(-window.tilt * h);
  const double lost_fast = -std::expm1(-(window.tilt + 1.0) * h);
  const double at_end = std::exp(-window.tilt * length);
  const double faster_at_end = std::exp(-length);
  const double gap = -std::expm1(-h);
  // Two roots, and a dozen roundings; an exponent's are relative to it.
  const double near_error = 4.0 * kRootError;
  const double far_error = 6.0 * kRootError + 8.0 * kUlp * (window.tilt + 1.0) * length;
  const std::int64_t place = roots_->reduced(window.first + static_cast<std::int64_t>(k));
  double sum = 0.0;
  double size_of_terms = 0.0;
  double error = 0.0;
  for (const Coefficient& c : kept_) {
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(c.frequency) /
                         static_cast<double>(window.size);
    const double half = std::sin(0.5 * angle);
    const Complex turn = roots_->at(c.frequency);
    const Complex one_less_z(lost + decay * 2.0 * half * half, -decay * std::sin(angle));
    const Complex one_less_y(lost_fast + fast * 2.0 * half * half, -fast * std::sin(angle));
    const Complex near = turn * (decay * gap) / (one_less_z * one_less_y);
    const Complex z_part = turn * decay / one_less_z * at_end;
    const Complex y_part = turn * fast / one_less_y * (at_end * faster_at_end);
    const Complex end = roots_->at(roots_->product(c.frequency, behind));
    const Complex kernel = near - end * (z_part - y_part);
    const double kernel_error =
        near_error * std::abs(near) + far_error * (std::abs(z_part) + std::abs(y_part));
    const Complex value = c.value * roots_->at(roots_->product(c.frequency, place));
    const bool has_mirror = c.frequency != 0 && 2 * c.frequency != roots_->size();
    const double times = has_mirror ? 2.0 : 1.0;  // the mirror image is the conjugate
    sum += times * (value * kernel).real();
    size_of_terms += times * std::abs(value) * std::abs(kernel);
    error += times * (c.error * (std::abs(kernel) + kernel_error) +
                      std::abs(value) * (kernel_error + 2.0 * kRootError * std::abs(kernel)));
  }
  const auto size = static_cast<double>(window.size);
  error += kUlp * (static_cast<double>(kept_.size()) + 4.0) * size_of_terms;
  return {sum / size, error * (1.0 + 1e-6) / size};
}

}  // namespace pld
