#include "strategy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace matrix_noise {

std::vector<double> squared_errors(const Workload& workload, std::size_t bands, bool older_noise) {
  // Element (t, u) of A N is sum_j a_j weight_{u+j} p_{t-u-j} noise_u (without older_noise:
  // noise_{u+j}), with p_e = 1 - momentum^(e+1).
  std::vector<double> products(bands * bands, 0.0);
  const double beta = workload.momentum;
  std::vector<double> powers{1.0};
  for (std::uint64_t i = 0; i < 2 * workload.steps + bands; ++i)
    powers.push_back(powers.back() * beta);
  // Returns the sum of p_e p_{e+apart} over e < length.
  const auto sum_of_products = [&](std::uint64_t length, std::size_t apart) {
    const auto all = static_cast<double>(length);
    if (beta == 0.0) return all;
    return all - beta * (1.0 + powers[apart]) * (1.0 - powers[length]) / (1.0 - beta) +
           powers[apart + 2] * (1.0 - powers[2 * length]) / (1.0 - beta * beta);
  };
  for (std::uint64_t u = 0; u < workload.steps; ++u) {
    const auto scale = [&](std::size_t j) {
      return workload.weights[u + j] * workload.noise[older_noise ? u : u + j];
    };
    const std::uint64_t left = workload.steps - u;
    for (std::size_t i = 0; i < bands && i < left; ++i) {
      for (std::size_t j = 0; j <= i; ++j)
        products[i * bands + j] += scale(i) * scale(j) * sum_of_products(left - i, i - j);
    }
  }
  for (std::size_t i = 0; i < bands; ++i) {
    for (std::size_t j = i + 1; j < bands; ++j) products[i * bands + j] = products[j * bands + i];
  }
  return products;
}

InverseErrors::InverseErrors(const Workload& workload, std::size_t bands)
    : workload_(workload),
      bands_(bands),
      products_(squared_errors(workload, bands, true)),
      moved_(workload.steps),
      pulled_(workload.steps) {}

/// \param slopes  out: half the derivatives, [size of a].
/// \returns a^T products a.
double quadratic(std::span<const double> products, std::span<const double> a,
                 std::span<double> slopes) {
  double value = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    slopes[i] = 0.0;
    for (std::size_t j = 0; j < a.size(); ++j) slopes[i] += products[i * a.size() + j] * a[j];
    value += a[i] * slopes[i];
  }
  return value;
}

double InverseErrors::operator()(std::span<const double> a, std::span<double> gradient) {
  std::vector<double> slopes(bands_);
  const double error = quadratic(products_, a, slopes);
  const double cost = squared_sensitivity(a, gradient);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = 2.0 * slopes[i + 1] / error + gradient[i] / cost;
  return std::log(error) + std::log(cost);
}

double InverseErrors::squared_sensitivity(std::span<const double> a, std::span<double> gradient) {
  const std::uint64_t steps = workload_.steps;
  std::ranges::fill(moved_, 0.0);
  for (std::uint64_t i = 0; i < workload_.participations; ++i)
    if (i * workload_.spacing < steps) moved_[i * workload_.spacing] = 1.0;
  double squares = 0.0;
  for (std::uint64_t t = 0; t < steps; ++t) {
    const std::size_t reach = std::min<std::uint64_t>(t, bands_ - 1);
    for (std::size_t j = 1; j <= reach; ++j) moved_[t] -= a[j] * moved_[t - j];
    pulled_[t] = moved_[t] / (workload_.noise[t] * workload_.noise[t]);
    squares += moved_[t] * pulled_[t];
  }
  // d squares / d a_i = -2 sum_t pulled_t moved_{t-i}, where pulled solves (transpose of a)
  // pulled = moved / noise^2.
  for (std::uint64_t t = steps; t-- > 0;) {
    const std::size_t reach = std::min<std::uint64_t>(steps - 1 - t, bands_ - 1);
    for (std::size_t j = 1; j <= reach; ++j) pulled_[t] -= a[j] * pulled_[t + j];
  }
  for (std::size_t i = 1; i < bands_; ++i) {
    double sum = 0.0;
    for (std::uint64_t t = i; t < steps; ++t) sum += pulled_[t] * moved_[t - i];
    gradient[i - 1] = -2.0 * sum;
  }
  return squares;
}

std::vector<double> inverse(std::span<const double> c, std::size_t terms) {
  std::vector<double> a(terms, 0.0);
  a[0] = 1.0;
  for (std::size_t j = 1; j < terms; ++j)
    for (std::size_t i = 1; i < c.size() && i <= j; ++i) a[j] -= c[i] * a[j - i];
  return a;
}

BandedErrors::BandedErrors(const Workload& workload, std::size_t bands, std::size_t terms)
    : bands_(bands), terms_(terms), products_(squared_errors(workload, terms, false)) {}

double BandedErrors::operator()(std::span<const double> c, std::span<double> gradient) {
  const std::vector<double> a = inverse(c, terms_);
  // d a_j / d c_i = -both_{j-i}, where both is the convolution of a with itself.
  std::vector<double> both(terms_, 0.0), slopes(terms_);
  for (std::size_t j = 0; j < terms_; ++j)
    for (std::size_t i = 0; i <= j; ++i) both[j] += a[i] * a[j - i];
  const double error = quadratic(products_, a, slopes);
  double squares = 0.0;
  for (const double one : c) squares += one * one;
  // Computes the sum over n >= terms of |sum_i c_i a_{n-i}|, and its derivatives.
  double rho = 0.0;
  std::vector<double> rest(bands_ - 1, 0.0);
  for (std::size_t n = terms_; n < terms_ + bands_ - 1; ++n) {
    double entry = 0.0;
    for (std::size_t i = n - terms_ + 1; i < bands_; ++i) entry += c[i] * a[n - i];
    rho += std::fabs(entry);
    const double sign = entry < 0.0 ? -1.0 : 1.0;
    for (std::size_t i = 1; i < bands_; ++i) {
      if (n - i < terms_) rest[i - 1] += sign * a[n - i];
      for (std::size_t k = n - terms_ + 1; k < bands_ && k + i <= n; ++k)
        rest[i - 1] -= sign * c[k] * both[n - k - i];
    }
  }
  if (!(rho < 1.0)) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < bands_; ++i) {
    double slope = 0.0;
    for (std::size_t j = i; j < terms_; ++j) slope -= slopes[j] * both[j - i];
    gradient[i - 1] = 2.0 * slope / error + 2.0 * c[i] / squares + 2.0 * rest[i - 1] / (1.0 - rho);
  }
  return std::log(error) + std::log(squares) - 2.0 * std::log1p(-rho);
}

std::vector<double> power_of_inverse(double gamma, double momentum, std::size_t bands) {
  std::vector<double> one{1.0};
  for (std::size_t j = 1; j < bands; ++j) {
    const auto at = static_cast<double>(j);
    one.push_back(one.back() * (at - 1.0 - gamma) / at);
  }
  if (momentum == 0.0) return one;
  std::vector<double> both(bands, 0.0);
  double power = 1.0;
  for (std::size_t j = 0; j < bands; ++j, power *= momentum) {
    for (std::size_t i = 0; i + j < bands; ++i) both[i + j] += power * one[j] * one[i];
  }
  return both;
}

namespace {

/// A quasi-Newton method (BFGS) within the objective's range: a coordinate at a bound stays there
/// if it would move outwards.
class Minimiser {
 public:
  Minimiser(Objective& errors, std::vector<double> from)
      : errors_(errors), a_(std::move(from)), size_(a_.size() - 1), gradient_(size_) {
    for (std::size_t i = 1; i < a_.size(); ++i) a_[i] = inside(a_[i]);
    value_ = errors_(a_, gradient_);
    forget();
  }

  void run() {
    constexpr int kMostSteps = 500;
    for (int i = 0; i < kMostSteps; ++i) {
      if (step()) continue;
      // Retries along the gradient itself, because the curvature estimate may be wrong.
      forget();
      if (!step()) return;
    }
  }

  double value() const { return value_; }
  const std::vector<double>& a() const { return a_; }

 private:
  void forget() {
    inverse_.assign(size_ * size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) inverse_[i * size_ + i] = 1.0;
  }

  double inside(double x) const { return std::clamp(x, errors_.least(), errors_.most()); }

  bool is_held(std::size_t i) const {
    const double at = a_[i + 1];
    return (at == errors_.most() && gradient_[i] < 0.0) ||
           (at == errors_.least() && gradient_[i] > 0.0);
  }

  std::vector<double> direction() const {
    std::vector<double> down(size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_ && !is_held(i); ++j)
        if (!is_held(j)) down[i] -= inverse_[i * size_ + j] * gradient_[j];
    }
    return down;
  }

  /// \returns whether the error decreased.
  bool step() {
    constexpr double kLeast = 1e-15;
    const std::vector<double> down = direction();
    std::vector<double> next = a_, gradient(size_);
    for (int halvings = 0; halvings < 40; ++halvings) {
      const double length = std::ldexp(1.0, -halvings);
      double slope = 0.0;
      for (std::size_t i = 0; i < size_; ++i) {
        next[i + 1] = inside(a_[i + 1] + length * down[i]);
        slope += gradient_[i] * (next[i + 1] - a_[i + 1]);
      }
      if (slope >= 0.0) return false;
      const double value = errors_(next, gradient);
      if (!(value <= value_ + 1e-4 * slope)) continue;
      const bool is_less = value < value_ - kLeast;
      learn(next, gradient);
      a_ = next;
      gradient_ = gradient;
      value_ = value;
      return is_less;
    }
    return false;
  }

  /// Updates the curvature estimate by the rule of Broyden, Fletcher, Goldfarb and Shanno.
  void learn(std::span<const double> next, std::span<const double> gradient) {
    std::vector<double> moved(size_), turned(size_), image(size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      moved[i] = next[i + 1] - a_[i + 1];
      turned[i] = gradient[i] - gradient_[i];
    }
    const double both = std::inner_product(moved.begin(), moved.end(), turned.begin(), 0.0);
    if (!(both > 1e-300)) return;
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) image[i] += inverse_[i * size_ + j] * turned[j];
    }
    const double length = std::inner_product(turned.begin(), turned.end(), image.begin(), 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) {
        inverse_[i * size_ + j] += (1.0 + length / both) * moved[i] * moved[j] / both -
                                   (image[i] * moved[j] + moved[i] * image[j]) / both;
      }
    }
  }

  Objective& errors_;
  std::vector<double> a_;
  std::size_t size_;
  std::vector<double> gradient_, inverse_;
  double value_ = 0.0;
};

/// Returns the best of the local minima found from `starts`.
std::vector<double> best_from(Objective& errors, std::vector<std::vector<double>> starts) {
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::vector<double>& start : starts) {
    Minimiser minimiser(errors, std::move(start));
    minimiser.run();
    if (!(minimiser.value() < least)) continue;
    least = minimiser.value();
    best = minimiser.a();
  }
  return best;
}

/// Returns the power_of_inverse(), or for BandedErrors the inverse of one, that has the smallest
/// error.
std::vector<double> best_power(Objective& errors, double momentum, std::size_t bands) {
  std::vector<double> best, gradient(bands - 1);
  double least = std::numeric_limits<double>::infinity();
  const bool is_inverse = errors.least() < 0.0;
  for (int twentieths = 1; twentieths <= 20; ++twentieths) {
    std::vector<double> x = power_of_inverse(twentieths / 20.0, momentum, bands);
    if (!is_inverse) x = inverse(x, bands);
    for (std::size_t i = 1; i < x.size(); ++i)
      x[i] = std::clamp(x[i], errors.least(), errors.most());
    const double value = errors(x, gradient);
    if (!(value < least)) continue;
    least = value;
    best = std::move(x);
  }
  return best;
}

/// \param fewer_bands  returns the best coefficients for a smaller number of bands.
template <class FewerBands>
std::vector<double> minimised(Objective& errors, double momentum, std::size_t bands,
                              const FewerBands& fewer_bands) {
  std::vector<std::vector<double>> starts;
  if (std::vector<double> power = best_power(errors, momentum, bands); !power.empty())
    starts.push_back(std::move(power));
  for (std::size_t fewer = bands / 2; fewer > 0; fewer = fewer > 2 ? 2 : 0) {
    starts.push_back(fewer_bands(fewer));
    starts.back().resize(bands, 0.0);
  }
  return best_from(errors, std::move(starts));
}

}  // namespace

std::vector<double> minimised_inverse(const Workload& workload, std::size_t bands) {
  if (bands == 1) return {1.0};
  InverseErrors errors(workload, bands);
  return minimised(errors, workload.momentum, bands,
                   [&](std::size_t fewer) { return minimised_inverse(workload, fewer); });
}

std::vector<double> minimised_banded(const Workload& workload, std::size_t bands,
                                     std::size_t terms) {
  if (bands == 1) return {1.0};
  BandedErrors errors(workload, bands, terms);
  return minimised(errors, workload.momentum, bands,
                   [&](std::size_t fewer) { return minimised_banded(workload, fewer, terms); });
}

}  // namespace matrix_noise
