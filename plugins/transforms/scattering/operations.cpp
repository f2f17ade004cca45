#include "operations.hpp"

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "cascade.hpp"
#include "filters.hpp"
#include "padding.hpp"

namespace scattering {
namespace {

using namespace privgrad;

namespace row = row_operation;
using Operations = std::vector<RowOperation>;
using Matrix = std::vector<double>;

void append(Operations& operations, Operations more) {
  for (auto& one : more) operations.push_back(std::move(one));
}

/// Returns the factor with which a real or imaginary part of a term enters a real or imaginary part
/// of the sum, if the term is multiplied by exp(sign 2 pi i k m / n).
double turn(int sign, std::size_t k, std::size_t m, std::size_t n, bool to_imaginary,
            bool from_imaginary) {
  const double angle =
      2.0 * std::numbers::pi * static_cast<double>(k * m % n) / static_cast<double>(n);
  if (to_imaginary == from_imaginary) return std::cos(angle);
  return static_cast<double>(to_imaginary ? sign : -sign) * std::sin(angle);
}

enum class Kind { real = 1, complex };

/// Returns the matrix of the Fourier transform of n numbers, at every step-th frequency. It maps
/// [parts, n] to [2, n / step], real parts first; real input has one part.
Matrix fourier(int sign, std::size_t n, Kind kind, std::size_t step = 1, double factor = 1.0) {
  const std::size_t parts = kind == Kind::real ? 1 : 2;
  Matrix result;
  result.reserve(2 * (n / step) * parts * n);
  for (const bool to_imaginary : {false, true}) {
    for (std::size_t k = 0; k < n; k += step) {
      for (std::size_t part = 0; part < parts; ++part) {
        for (std::size_t m = 0; m < n; ++m)
          result.push_back(factor * turn(sign, k, m, n, to_imaginary, part == 1));
      }
    }
  }
  return result;
}

Matrix backward(std::size_t n, std::size_t step) {
  return fourier(1, n, Kind::complex, step, 1.0 / static_cast<double>(n));
}

/// Returns the reordering of [outer, a, middle, b, inner] to [outer, b, middle, a, inner].
row::Take swapped(std::size_t outer, std::size_t a, std::size_t middle, std::size_t b,
                  std::size_t inner) {
  row::Take take;
  take.from.reserve(outer * a * middle * b * inner);
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t j = 0; j < b; ++j)
      for (std::size_t m = 0; m < middle; ++m)
        for (std::size_t i = 0; i < a; ++i)
          for (std::size_t t = 0; t < inner; ++t)
            take.from.push_back((((o * a + i) * middle + m) * b + j) * inner + t);
  return take;
}

/// Builds the operations on `signals` images at once, [signals, height, width].
class Builder {
 public:
  explicit Builder(const Task& task)
      : task_(task),
        bank_{.scales = task.scales,
              .angles = task.angles,
              .height = padded(task.height, task.scales),
              .width = padded(task.width, task.scales)} {}

  Operations all() const {
    Operations operations{padding()};
    Operations first = spectrum(0, task_.channels);
    row::Concatenate orders;
    for (std::size_t scale = 0; scale < task_.scales; ++scale)
      orders.branches.push_back({first_order(scale)});
    first.push_back(std::move(orders));
    row::Concatenate parts;
    parts.branches.push_back({average(0)});
    parts.branches.push_back({std::move(first)});
    operations.push_back(std::move(parts));
    operations.push_back(places_first());
    return operations;
  }

 private:
  std::size_t height(std::size_t j) const { return bank_.height >> j; }
  std::size_t width(std::size_t j) const { return bank_.width >> j; }
  std::size_t places() const {
    return (task_.height >> task_.scales) * (task_.width >> task_.scales);
  }

  /// Maps [height, width, channels] of the image to [channels, height, width] of the padded image.
  row::Take padding() const {
    const std::size_t above = (height(0) - task_.height) / 2, left = (width(0) - task_.width) / 2;
    row::Take take;
    for (std::size_t c = 0; c < task_.channels; ++c) {
      for (std::size_t y = 0; y < height(0); ++y) {
        const std::size_t from = reflected(y, above, task_.height) * task_.width;
        for (std::size_t x = 0; x < width(0); ++x)
          take.from.push_back((from + reflected(x, left, task_.width)) * task_.channels + c);
      }
    }
    return take;
  }

  /// Maps [signals, height, width] at resolution j to averages [signals, places].
  Operations average(std::size_t j) const {
    return {row::ProjectAxis{height(j), width(j), task_.height >> task_.scales,
                             averages(task_.scales, bank_.height, j)},
            row::ProjectAxis{width(j), 1, task_.width >> task_.scales,
                             averages(task_.scales, bank_.width, j)}};
  }

  /// Maps [signals, height, width] at resolution j to spectra [signals, 2, height, width].
  Operations spectrum(std::size_t j, std::size_t signals) const {
    return {row::ProjectAxis{width(j), 1, 2 * width(j), fourier(-1, width(j), Kind::real)},
            swapped(signals, height(j), 1, 2, width(j)),
            row::ProjectAxis{2 * height(j), width(j), 2 * height(j),
                             fourier(-1, height(j), Kind::complex)}};
  }

  /// Maps spectra [signals, 2, height, width] at resolution j to |x * psi| for all angles of a
  /// scale, [signals, L, height, width] at the scale's resolution.
  Operations moduli(std::size_t j, std::size_t signals, std::size_t scale) const {
    const std::size_t size = height(j) * width(j), step = std::size_t{1} << (scale - j);
    const std::size_t down = height(scale), across = width(scale);
    row::Take each_angle;
    row::Multiply filters;
    std::vector<Matrix> wavelets;
    for (std::size_t t = 0; t < task_.angles; ++t)
      wavelets.push_back(at_resolution(bank_, j, wavelet(bank_, scale, t)));
    for (std::size_t s = 0; s < signals; ++s) {
      for (const Matrix& psi : wavelets) {
        for (std::size_t i = 0; i < 2 * size; ++i) {
          each_angle.from.push_back(s * 2 * size + i);
          filters.values.push_back(psi[i % size]);
        }
      }
    }
    const std::size_t all = signals * task_.angles;
    return {std::move(each_angle),
            std::move(filters),
            row::ProjectAxis{2 * height(j), width(j), 2 * down, backward(height(j), step)},
            swapped(all, 2, 1, down, width(j)),
            row::ProjectAxis{2 * width(j), 1, 2 * across, backward(width(j), step)},
            swapped(1, all * down, 1, 2, across),
            row::Modulus{}};
  }

  /// Maps the spectrum of images to averages of the moduli of a scale, [channels, L, places], then
  /// to averages of the second-order moduli, by scale [channels, L, L, places].
  Operations first_order(std::size_t scale) const {
    const std::size_t signals = task_.channels * task_.angles;
    Operations operations = moduli(0, task_.channels, scale);
    row::Concatenate parts;
    parts.branches.push_back({average(scale)});
    if (task_.max_order > 1 && scale + 1 < task_.scales) {
      row::Concatenate finer;
      for (std::size_t next = scale + 1; next < task_.scales; ++next) {
        finer.branches.push_back({moduli(scale, signals, next)});
        append(finer.branches.back().operations, average(next));
      }
      Operations second = spectrum(scale, signals);
      second.push_back(std::move(finer));
      parts.branches.push_back({std::move(second)});
    }
    operations.push_back(std::move(parts));
    return operations;
  }

  /// Maps the concatenation in all() to [places, channels, coefficients], in Cascade's order.
  row::Take places_first() const {
    const std::size_t scales = task_.scales, angles = task_.angles, channels = task_.channels;
    const std::size_t each = Cascade::coefficients(scales, angles, task_.max_order);
    row::Take take{std::vector<std::size_t>(places() * channels * each)};
    std::size_t next = 0;  // position in the concatenation
    // Places `count` coefficients of each channel, [channels, count, places] in the concatenation.
    const auto put = [&](std::size_t count, const std::function<std::size_t(std::size_t)>& number) {
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t i = 0; i < count; ++i)
          for (std::size_t place = 0; place < places(); ++place)
            take.from[(place * channels + c) * each + number(i)] = next++;
    };
    put(1, [](std::size_t) { return 0; });
    std::size_t second = 1 + scales * angles;
    for (std::size_t scale = 0; scale < scales; ++scale) {
      put(angles, [&](std::size_t t) { return 1 + scale * angles + t; });
      if (task_.max_order < 2) continue;
      const std::size_t after = scales - 1 - scale;  // possible scales of the second wavelet
      for (std::size_t k = 0; k < after; ++k)
        put(angles * angles,
            [&](std::size_t i) { return second + (i / angles * after + k) * angles + i % angles; });
      second += after * angles * angles;
    }
    return take;
  }

  Task task_;
  Bank bank_;
};

}  // namespace

std::vector<RowOperation> operations(const Task& task) { return Builder(task).all(); }

double operation_numbers(const Task& task) {
  const auto angles = static_cast<double>(task.angles);
  double filtered = 0.0;  // number of images of the padded size
  for (std::size_t scale = 0; scale < task.scales; ++scale) {
    filtered += angles;
    if (task.max_order < 2) continue;
    filtered += angles * angles * static_cast<double>(task.scales - 1 - scale) /
                std::ldexp(1.0, 2 * static_cast<int>(scale));
  }
  // Counts indices and factors of real and imaginary parts, before and after the inverse transform.
  const double size = static_cast<double>(padded(task.height, task.scales)) *
                      static_cast<double>(padded(task.width, task.scales));
  return 8.0 * static_cast<double>(task.channels) * filtered * size;
}

}  // namespace scattering
