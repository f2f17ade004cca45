#include "spectrum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace pld {
/// Computes e^(2 pi i k / size) for integer k, from two short tables.
class Roots {
 public:
  explicit Roots(std::size_t size)
      : size_(static_cast<std::int64_t>(size)), inverse_(1.0 / static_cast<double>(size)) {
    while ((std::size_t{1} << (2 * bits_)) < size) ++bits_;
    const std::size_t block = std::size_t{1} << bits_;
    for (std::size_t k = 0; k < block; ++k) fine_.push_back(root(k));
    for (std::size_t k = 0; k < size; k += block) coarse_.push_back(root(k));
  }

  /// Returns a b modulo the size, for a and b in [0, size), size <= 2^24.
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

// The ln of the largest coefficient that may count as negligible. Larger coefficients could only be
// negligible if every answer were huge.
constexpr double kLogNegligible = -50.0;

// The error of a root of unity: its angle of up to 2 pi carries three roundings, cosine and sine
// are accurate to an ulp, and the product of two roots adds another two ulps.
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

/// Computes sums of w_j e^(-i t j) over points j, for angles t up to a limit, from the moments of
/// stretches of many points: with c the middle of a stretch, x = (j - c) / half and t half <= 1,
/// e^(-i t half x) equals its Taylor polynomial to less than a rounding, because 1 / 20! is 4e-19.
/// Points that are far apart are added one by one.
class Sums {
 public:
  /// \param index  increasing.
  /// \param most_angle  > 0, the limit.
  Sums(const std::vector<std::int64_t>& index, const std::vector<double>& weight, double most_angle,
       const Roots& roots)
      : half_(std::exp2(std::floor(-std::log2(most_angle)))) {
    const auto half = static_cast<std::int64_t>(half_);
    for (std::size_t begin = 0; begin < index.size();) {
      const std::int64_t middle = index[begin] + half;
      std::size_t end = begin;
      while (end < index.size() && index[end] <= middle + half) ++end;
      if (end - begin >= kLeastPoints) {
        stretches_.push_back({roots.reduced(middle), moments(index, weight, middle, begin, end)});
      } else {
        for (std::size_t j = begin; j < end; ++j)
          points_.push_back({roots.reduced(index[j]), weight[j]});
      }
      begin = end;
    }
  }

  double most_angle() const { return 1.0 / half_; }

  /// Returns the cost of at(), in points.
  double work() const {
    return static_cast<double>(points_.size()) + 8.0 * static_cast<double>(stretches_.size());
  }

  /// \param angle  the angle of the frequency, at most the limit.
  Complex at(std::int64_t frequency, double angle, const Roots& roots) const {
    const double t = angle * half_;
    const double square = t * t;
    // Partial sums are added in extended precision, so that the error does not depend on the number
    // of terms.
    long double real = 0.0L;
    long double imaginary = 0.0L;
    const auto add = [&](Complex term) {
      real += static_cast<long double>(term.real());
      imaginary += static_cast<long double>(term.imag());
    };
    for (const Stretch& one : stretches_) {
      double even = 0.0;
      double odd = 0.0;
      for (std::size_t k = kTerms; k > 0; k -= 2) {
        odd = one.moment[k - 1] - square * odd;
        even = one.moment[k - 2] - square * even;
      }
      add(Complex(even, -t * odd) * std::conj(roots.at(roots.product(frequency, one.middle))));
    }
    for (std::size_t begin = 0; begin < points_.size(); begin += kAtATime) {
      const std::size_t end = std::min(points_.size(), begin + kAtATime);
      Complex some;
      for (std::size_t j = begin; j < end; ++j)
        some += points_[j].weight * std::conj(roots.at(roots.product(frequency, points_[j].place)));
      add(some);
    }
    return {static_cast<double>(real), static_cast<double>(imaginary)};
  }

  /// Returns the error of at() without the roots, relative to the sum of the weights. For points:
  /// errors of products, and of sums of 32 products; further sums are in extended precision. For
  /// stretches: x is exact, because half is a power of two. The terms of a moment have k + 1
  /// roundings, and their sums 33; the sum over k of (34 + k) / k! is 35 e, e being Euler's number.
  /// The polynomial changes by 3 e through the angle's 3 roundings, by 3 e through the roundings of
  /// its powers, and by 20 e through Horner's 20 steps: together less than 170 half ulps.
  static double error(std::size_t points) { return (points < kLeastPoints ? 20.0 : 96.0) * kUlp; }

 private:
  static constexpr std::size_t kTerms = 20;
  static constexpr std::size_t kLeastPoints = 12;
  static constexpr std::size_t kAtATime = 32;
  using Terms = std::array<double, kTerms>;
  struct Stretch {
    std::int64_t middle;  // an index modulo the size
    Terms moment;         // the sums of w x^k / k!
  };
  struct Point {
    std::int64_t place;  // an index modulo the size
    double weight;
  };

  Terms moments(const std::vector<std::int64_t>& index, const std::vector<double>& weight,
                std::int64_t middle, std::size_t begin, std::size_t end) const {
    std::array<long double, kTerms> sum{};
    while (begin < end) {
      const std::size_t next = std::min(end, begin + kAtATime);
      Terms some{};
      for (std::size_t j = begin; j < next; ++j) {
        const double x = static_cast<double>(index[j] - middle) / half_;
        double power = weight[j];
        for (double& term : some) {
          term += power;
          power *= x;
        }
      }
      for (std::size_t k = 0; k < kTerms; ++k) sum[k] += static_cast<long double>(some[k]);
      begin = next;
    }
    Terms result{};
    long double factorial = 1.0L;
    for (std::size_t k = 0; k < kTerms; ++k) {
      if (k > 0) factorial *= static_cast<long double>(k);
      result[k] = static_cast<double>(sum[k] / factorial);
    }
    return result;
  }

  double half_;
  std::vector<Stretch> stretches_;
  std::vector<Point> points_;
};

/// The transform of one factor, phi(f) = sum of w_j e^(-2 pi i f j / size).
class Transform {
 public:
  Transform(const Factor& factor, const Roots& roots)
      : roots_(roots),
        unit_(2.0 * std::numbers::pi / static_cast<double>(roots.size())),
        count_(factor.count) {
    double mean = 0.0;
    for (std::size_t j = 0; j < factor.index.size(); ++j) {
      const double weight = factor.weight[j];
      if (weight == 0.0) continue;
      mean += weight * static_cast<double>(factor.index[j]);
      // Rarely sampled steps have nearly all of their mass at loss 0, whose transform is a constant
      // and does not contribute to the rounding errors.
      if (factor.index[j] % roots.size() == 0) {
        at_zero_ += weight;
        continue;
      }
      index_.push_back(factor.index[j]);
      weight_.push_back(weight);
      rest_ += weight;
    }
    find_splits(factor);
    for (std::size_t j = 0; j < factor.index.size(); ++j) {
      const double x = static_cast<double>(factor.index[j]) - mean;
      offset_ += factor.weight[j] * x;
      distance_ += factor.weight[j] * std::fabs(x);
      square_ += factor.weight[j] * x * x;
    }
    // Covers the rounding errors of the sums, for up to 2^24 points.
    constexpr double kSlack = 1e-8;
    offset_ = std::fabs(offset_) + kSlack * distance_;
    distance_ *= 1.0 + kSlack;
    square_ *= 1.0 + kSlack;
    for (Split& one : splits_) one = {one.mass * (1.0 + kSlack), one.variation * (1.0 + kSlack)};
  }

  std::uint64_t count() const { return count_; }

  /// Returns the cost of the last at(), in points.
  double work() const { return sums_->work(); }

  Complex at(std::int64_t frequency) {
    // Prepares more frequencies than this one, so that moments are recomputed only a few times.
    constexpr std::int64_t kFirst = 16;
    constexpr double kMore = 4.0;
    const double angle = static_cast<double>(frequency) * unit_;
    if (!sums_ || angle > sums_->most_angle()) {
      const double cap = kMore * static_cast<double>(std::max(frequency, kFirst)) * unit_;
      sums_.emplace(index_, weight_, cap, roots_);
    }
    return at_zero_ + sums_->at(frequency, angle, roots_);
  }

  /// Returns the error of at(): errors of roots, of products or moments, and of adding the
  /// constant.
  double error() const {
    const double sums = static_cast<double>(weight_.size()) *
                        static_cast<double>(std::numeric_limits<long double>::epsilon());
    return (kRootError + Sums::error(weight_.size()) + sums) * rest_ + 8.0 * kUlp;
  }

  /// Returns a bound on the absolute derivative with respect to the angle, for angles up to
  /// `angle`.
  double slope_up_to(double angle) const { return std::min(distance_, offset_ + angle * square_); }

  /// Returns an upper bound on the transform's absolute value at every angle from `angle` to pi.
  double bound_beyond(double angle) const {
    const double sine = std::sin(0.5 * std::min(angle, std::numbers::pi)) * (1.0 - 8.0 * kUlp);
    double least = 1.0;
    for (const Split& one : splits_) least = std::min(least, one.mass + 0.5 * one.variation / sine);
    return least;
  }

 private:
  /// The mass of a set of points, and the sum of |w_j - w_(j-1)| over all other points.
  struct Split {
    double mass = 0.0, variation = 0.0;
  };

  /// Finds splits for sets of the lowest points and for sets of the highest points, because often
  /// one end has a peak and the rest is smooth.
  void find_splits(const Factor& factor) {
    constexpr std::array kMasses{0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95};
    constexpr double kRounding = 1e-8;  // covers sums of at most 2^24 points
    const std::size_t count = factor.index.size();
    for (const bool from_below : {true, false}) {
      const auto place = [&](std::size_t k) { return from_below ? k : count - 1 - k; };
      double variation = 0.0;  // the variation of the points after k, summed from the far end
      double last = 0.0;
      double mass = 0.0;
      for (const double weight : factor.weight) mass += weight;
      std::size_t next = kMasses.size();
      for (std::size_t k = count; k > 0 && next > 0; --k) {
        const double weight = factor.weight[place(k - 1)];
        const bool is_next =
            k < count && std::abs(factor.index[place(k)] - factor.index[place(k - 1)]) == 1;
        variation += is_next ? std::fabs(weight - last) : last + weight;
        last = weight;
        mass -= weight;
        while (next > 0 && mass <= kMasses[next - 1]) {
          splits_.push_back({std::max(0.0, mass) + kRounding, variation + last});
          --next;
        }
      }
    }
  }

  const Roots& roots_;
  double unit_;  // the angle of frequency 1
  std::uint64_t count_;
  std::optional<Sums> sums_;
  std::vector<std::int64_t> index_;
  std::vector<double> weight_;
  double at_zero_ = 0.0, rest_ = 0.0;
  // For the index X and a c near its mean: |E (X - c)|, E |X - c|, E (X - c)^2.
  double offset_ = 0.0, distance_ = 0.0, square_ = 0.0;
  std::vector<Split> splits_;
};

/// Visits the frequencies of a product of transforms.
class Walk {
 public:
  Walk(const std::vector<Factor>& factors, const Roots& roots) : roots_(roots) {
    for (const Factor& factor : factors) {
      transforms_.emplace_back(factor, roots_);
      const auto count = static_cast<double>(factor.count);
      error_ += count * transforms_.back().error();
      steps_ += count;
    }
    values_.resize(transforms_.size());
  }

  /// Returns the cost of the last look_at(), in points.
  double work() const {
    double sum = 0.0;
    for (const Transform& one : transforms_) sum += one.work();
    return sum;
  }

  void look_at(std::int64_t frequency) {
    frequency_ = frequency;
    for (std::size_t i = 0; i < transforms_.size(); ++i) values_[i] = transforms_[i].at(frequency);
  }

  /// Returns the product of all transforms, and a bound on its error. Replacing one factor after
  /// the other by its exact value changes the product by at most the error of that factor times all
  /// other factors, computed or exact. Each factor counts as at least 1/2, so omitting one at most
  /// doubles the product. Rounding adds a relative error to the powers.
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
    // 1e-120 exceeds all underflows together.
    *error = 2.0 * growth * error_ * majorant * (1.0 + own) + own * std::abs(all) + 1e-120;
    return all;
  }

  /// Whether all coefficients are negligible from the last visited frequency to `distance`
  /// frequencies further.
  bool negligible_for(std::int64_t distance) const {
    const double step = angle(1);
    const double end = angle(frequency_ + distance) * (1.0 + 8.0 * kUlp);
    return log_bound([&](std::size_t i) {
             return std::abs(values_[i]) * (1.0 + 4.0 * kUlp) + transforms_[i].error() +
                    transforms_[i].slope_up_to(end) * step * static_cast<double>(distance) *
                        (1.0 + 8.0 * kUlp);
           }) <= kLogNegligible;
  }

  /// Whether all coefficients from a frequency on are negligible.
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

  /// Returns an upper bound on the ln of the product of all transforms. Each transform is at most
  /// 1, because its weights add up to 1.
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
  double error_ = 0.0, steps_ = 0.0;
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
    walk.look_at(frequency);
    work += walk.work();
    if (work > most_work) return {};
    if (!walk.negligible_for(0)) {
      double error = 0.0;
      const Complex value = walk.product(&error);
      spectrum.kept_.push_back({frequency, value, error});
      ++frequency;
      continue;
    }
    std::int64_t distance = 1;  // to the next frequency not known to be negligible
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

/// Let z = e^(-tilt h + i t) and y = e^(-(tilt + 1) h + i t), where t is the angle of a frequency,
/// and m = size - 1 - k, the number of points after k. The transform of the kernel on these points
/// is the sum of z^j - y^j for j = 1 to m. It is computed as the infinite sum,
/// (z - y) / ((1 - z) (1 - y)), minus the sum over j > m, which is
/// z^m (z / (1 - z) - e^(-m h) y / (1 - y)).
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
  // Covers two roots and a dozen rounding errors; an exponent's errors are relative to it.
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
