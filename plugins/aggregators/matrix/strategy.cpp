#include "strategy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace matrix_noise {

Errors::Errors(const Workload& workload, std::size_t bands)
    : workload_(workload),
      bands_(bands),
      products_(bands * bands, 0.0),
      moved_(workload.steps),
      pulled_(workload.steps) {
  // Column u of A N is noise_u times sum_j a_j weight_{u+j} p_{t-u-j}, p_e = 1 - momentum^(e+1).
  const double beta = workload.momentum;
  std::vector<double> powers{1.0};
  for (std::uint64_t i = 0; i < 2 * workload.steps + bands; ++i)
    powers.push_back(powers.back() * beta);
  // sum over e < length of p_e p_{e+apart}
  const auto sum_of_products = [&](std::uint64_t length, std::size_t apart) {
    const auto all = static_cast<double>(length);
    if (beta == 0.0) return all;
    return all - beta * (1.0 + powers[apart]) * (1.0 - powers[length]) / (1.0 - beta) +
           powers[apart + 2] * (1.0 - powers[2 * length]) / (1.0 - beta * beta);
  };
  for (std::uint64_t u = 0; u < workload.steps; ++u) {
    const double variance = workload.noise[u] * workload.noise[u];
    const std::uint64_t left = workload.steps - u;
    for (std::size_t i = 0; i < bands && i < left; ++i) {
      const double weighted = variance * workload.weights[u + i];
      for (std::size_t j = 0; j <= i; ++j) {
        products_[i * bands + j] +=
            weighted * workload.weights[u + j] * sum_of_products(left - i, i - j);
      }
    }
  }
  for (std::size_t i = 0; i < bands; ++i) {
    for (std::size_t j = i + 1; j < bands; ++j) products_[i * bands + j] = products_[j * bands + i];
  }
}

double Errors::operator()(std::span<const double> a, std::span<double> gradient) {
  double error = 0.0;
  std::vector<double> slopes(bands_, 0.0);
  for (std::size_t i = 0; i < bands_; ++i) {
    for (std::size_t j = 0; j < bands_; ++j) slopes[i] += products_[i * bands_ + j] * a[j];
    error += a[i] * slopes[i];
  }
  const double cost = squared_sensitivity(a, gradient);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = 2.0 * slopes[i + 1] / error + gradient[i] / cost;
  return std::log(error) + std::log(cost);
}

double Errors::squared_sensitivity(std::span<const double> a, std::span<double> gradient) {
  const std::uint64_t steps = workload_.steps;
  std::fill(moved_.begin(), moved_.end(), 0.0);
  for (std::uint64_t i = 0; i < workload_.participations; ++i)
    if (i * workload_.spacing < steps) moved_[i * workload_.spacing] = 1.0;
  double squares = 0.0;
  for (std::uint64_t t = 0; t < steps; ++t) {
    const std::size_t reach = std::min<std::uint64_t>(t, bands_ - 1);
    for (std::size_t j = 1; j <= reach; ++j) moved_[t] -= a[j] * moved_[t - j];
    pulled_[t] = moved_[t] / (workload_.noise[t] * workload_.noise[t]);
    squares += moved_[t] * pulled_[t];
  }
  // d squares / d a_i = -2 sum_t pulled_t moved_{t-i}, where the transposed of a, times pulled, is
  // moved / noise^2.
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

double inside(double coefficient) { return std::clamp(coefficient, -1.0, 0.0); }

/// A quasi-Newton method (BFGS) on the box -1 <= a_j <= 0: what lies at a bound and is pushed
/// outwards stays there.
class Minimiser {
 public:
  Minimiser(Errors& errors, std::vector<double> from)
      : errors_(errors), a_(std::move(from)), size_(a_.size() - 1), gradient_(size_) {
    for (std::size_t i = 1; i < a_.size(); ++i) a_[i] = inside(a_[i]);
    value_ = errors_(a_, gradient_);
    forget();
  }

  void run() {
    constexpr int kMostSteps = 500;
    for (int i = 0; i < kMostSteps; ++i) {
      if (step()) continue;
      // Once more along the gradient itself: what was learnt of the curvature may mislead.
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

  bool is_held(std::size_t i) const {
    const double at = a_[i + 1];
    return (at == 0.0 && gradient_[i] < 0.0) || (at == -1.0 && gradient_[i] > 0.0);
  }

  std::vector<double> direction() const {
    std::vector<double> down(size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_ && !is_held(i); ++j)
        if (!is_held(j)) down[i] -= inverse_[i * size_ + j] * gradient_[j];
    }
    return down;
  }

  /// \returns whether the error became less.
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

  /// The update of Broyden, Fletcher, Goldfarb and Shanno.
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

  Errors& errors_;
  std::vector<double> a_;
  std::size_t size_;
  std::vector<double> gradient_, inverse_;
  double value_ = 0.0;
};

std::vector<double> best_power(Errors& errors, double momentum) {
  std::vector<double> best, gradient(errors.bands() - 1);
  double least = std::numeric_limits<double>::infinity();
  for (int twentieths = 6; twentieths <= 20; ++twentieths) {
    std::vector<double> a = power_of_inverse(twentieths / 20.0, momentum, errors.bands());
    for (std::size_t i = 1; i < a.size(); ++i) a[i] = inside(a[i]);
    const double value = errors(a, gradient);
    if (!(value < least)) continue;
    least = value;
    best = std::move(a);
  }
  return best;
}

}  // namespace

std::vector<double> minimised(const Workload& workload, std::size_t bands) {
  if (bands == 1) return {1.0};
  Errors errors(workload, bands);
  std::vector<std::vector<double>> starts{best_power(errors, workload.momentum)};
  for (std::size_t fewer = bands / 2; fewer > 0; fewer = fewer > 2 ? 2 : 0) {
    starts.push_back(minimised(workload, fewer));
    starts.back().resize(bands, 0.0);
  }
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

}  // namespace matrix_noise
