#include "filters.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

// All arithmetic is long double, so that a filter has the same bits everywhere: on x86-64 the
// functions of long double have one version, but functions of double may round differently on
// processors with fused multiply-add.

namespace scattering {
namespace {

constexpr long double kPi = std::numbers::pi_v<long double>;
constexpr long double kGain = kPi / 3.1415L;
constexpr long double kFarthest = 120.0L;  // exp(-60) is 1e-26

/// Returns the number of aliases that matter on each side of a frequency, for a Gaussian centred at
/// most 2 pi away.
int aliases(long double deviation) {
  return static_cast<int>(std::sqrt(kFarthest) / (2.0L * kPi * deviation)) + 1;
}

/// Returns the angle of frequency number k of n, in [-pi, pi).
long double frequency(std::size_t k, std::size_t n) {
  const auto whole =
      static_cast<long double>(k) - (2 * k >= n ? static_cast<long double>(n) : 0.0L);
  return 2.0L * kPi * whole / static_cast<long double>(n);
}

/// The Fourier transform of a Gaussian with different widths along and across its direction.
struct Gaussian {
  long double deviation, slant, cosine, sine;

  /// Returns the sum over (y, x) and all its aliases on the grid.
  long double operator()(long double y, long double x) const {
    const int most = aliases(std::min(deviation, deviation / slant));
    long double sum = 0.0L;
    for (int m = -most; m <= most; ++m) {
      for (int n = -most; n <= most; ++n) {
        const long double to_y = y + 2.0L * kPi * static_cast<long double>(m);
        const long double to_x = x + 2.0L * kPi * static_cast<long double>(n);
        const long double along = deviation * (to_y * cosine + to_x * sine);
        const long double across = deviation * (to_x * cosine - to_y * sine) / slant;
        const long double square = along * along + across * across;
        if (square < kFarthest) sum += std::exp(-0.5L * square);
      }
    }
    return sum;
  }
};

}  // namespace

std::vector<double> wavelet(const Bank& bank, std::size_t j, std::size_t angle) {
  const long double size = std::ldexp(1.0L, static_cast<int>(j));
  const auto angles = static_cast<long double>(bank.angles);
  // Computes the number of positive angles.
  const std::size_t half = bank.angles < 2 ? 0 : (bank.angles - 2) / 2;
  const long double first = static_cast<long double>(half);
  const long double theta = (first - static_cast<long double>(angle)) * kPi / angles;
  const Gaussian gaussian{0.8L * size, 4.0L / angles, std::cos(theta), std::sin(theta)};
  const long double xi = 0.75L * kPi / size;
  const long double xi_y = xi * gaussian.cosine, xi_x = xi * gaussian.sine;
  const long double correction = gaussian(-xi_y, -xi_x) / gaussian(0.0L, 0.0L);
  std::vector<double> result;
  result.reserve(bank.height * bank.width);
  for (std::size_t k = 0; k < bank.height; ++k) {
    const long double y = frequency(k, bank.height);
    for (std::size_t l = 0; l < bank.width; ++l) {
      const long double x = frequency(l, bank.width);
      const long double value = gaussian(y - xi_y, x - xi_x) - correction * gaussian(y, x);
      result.push_back(static_cast<double>(kGain * value));
    }
  }
  return result;
}

std::vector<double> at_resolution(const Bank& bank, std::size_t j,
                                  const std::vector<double>& filter) {
  const std::size_t height = bank.height >> j, width = bank.width >> j;
  const auto original = [](std::size_t k, std::size_t n, std::size_t of) {
    return 2 * k < n ? k : k + of - n;
  };
  std::vector<double> result;
  result.reserve(height * width);
  for (std::size_t k = 0; k < height; ++k) {
    const std::size_t row = original(k, height, bank.height) * bank.width;
    for (std::size_t l = 0; l < width; ++l)
      result.push_back(filter[row + original(l, width, bank.width)]);
  }
  return result;
}

std::vector<double> averages(std::size_t scales, std::size_t length, std::size_t j) {
  const long double deviation = 0.8L * std::ldexp(1.0L, static_cast<int>(scales) - 1);
  const std::size_t n = length >> j;
  std::vector<long double> spectrum;
  spectrum.reserve(n);
  for (std::size_t k = 0; k < n; ++k) {
    const long double whole =
        static_cast<long double>(k) - (2 * k >= n ? static_cast<long double>(n) : 0.0L);
    long double sum = 0.0L;
    for (int m = -aliases(deviation); m <= aliases(deviation); ++m) {
      const long double omega =
          deviation * 2.0L * kPi *
          (whole / static_cast<long double>(length) + static_cast<long double>(m));
      sum += std::exp(-0.5L * omega * omega);
    }
    spectrum.push_back(std::sqrt(kGain) * sum);
  }
  std::vector<double> kernel;
  kernel.reserve(n);
  for (std::size_t x = 0; x < n; ++x) {
    long double sum = 0.0L;
    for (std::size_t k = 0; k < n; ++k)
      sum += spectrum[k] * std::cos(2.0L * kPi * static_cast<long double>(k * x % n) /
                                    static_cast<long double>(n));
    kernel.push_back(static_cast<double>(sum / static_cast<long double>(n)));
  }
  const std::size_t stride = std::size_t{1} << (scales - j);
  std::vector<double> result;
  result.reserve((n / stride - 2) * n);
  for (std::size_t u = 1; u + 1 < n / stride; ++u) {
    for (std::size_t x = 0; x < n; ++x) result.push_back(kernel[(u * stride + n - x) % n]);
  }
  return result;
}

}  // namespace scattering
