// The few Fourier coefficients that a composition of many steps needs, computed one by one.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace pld {

using Complex = std::complex<double>;

/// The losses of one step under the tilted measure, in grid steps, and the number of times that the
/// step is composed.
struct Factor {
  std::vector<std::int64_t> index;  ///< In increasing order.
  std::vector<double> weight;       ///< >= 0; they add up to 1, or there are none.
  std::uint64_t count = 1;
};

/// A product of factors of size at most 1 is set to 0 once its square (for real factors: the
/// product itself) is below this.
inline constexpr double kVanishing = 1e-250;

/// Returns base^exponent by repeated squaring, for a base of absolute value at most about 1.
Complex power(Complex base, std::uint64_t exponent);
double power(double base, std::uint64_t exponent);

class Roots;

/// A number and a bound on its absolute error.
struct Approximation {
  double value = 0.0, error = 0.0;
};

/// Describes sums over the masses m_j of a composition on a window of `size` points that begins at
/// `first` (masses outside wrap into it): the sum over the points j after k of
/// m_j kernel((j - k) step), kernel(t) = e^(-tilt t) (1 - e^(-t)), tilt > 0.
struct Window {
  std::size_t size = 0;  ///< Even.
  std::int64_t first = 0;
  double step = 0.0, tilt = 0.0;
};

/// The Fourier coefficients of a composition that are not negligible. Many steps give a smooth
/// distribution, for which only a few dozen of a window's million frequencies matter: they are
/// computed one by one, from the points of the factors, and nothing as large as the window is
/// allocated.
///
/// The omitted coefficients are bounded. Between computed frequencies, a bound on the derivative is
/// used: with a centre c and X the index, |phi'(t)| = |E (X - c) e^(-it(X - c))| is at most E |X -
/// c|, and at most |E (X - c)| + t E (X - c)^2, because |e^(-ix) - 1| <= |x|. For all frequencies t
/// in [s, pi], summation by parts is used: (1 - e^(-it)) phi(t) is the transform of the differences
/// w_j - w_(j-1), so that |phi(t)| <= sum |w_j - w_(j-1)| / (2 sin(s / 2)); or |phi(t)| is at most
/// the mass of some points plus this bound for the other points, because a transform is at most the
/// mass of its points.
class Spectrum {
 public:
  /// \param size  the size of the window: even, at most 2^24.
  /// \param most_work  approximate limit on the number of points times frequencies to process.
  /// \returns nothing if more work is needed.
  static std::optional<Spectrum> of(const std::vector<Factor>& factors, std::size_t size,
                                    double most_work);

  /// Returns the sum for k in [0, size), without the coefficients that left_out() bounds.
  Approximation tail(const Window& window, std::size_t k) const;

  /// Returns a bound on the absolute value of every omitted coefficient, which also bounds the
  /// difference of the masses in the 2-norm.
  double left_out() const { return left_out_; }

  /// Returns the frequencies that were kept, ascending.
  std::vector<std::int64_t> frequencies() const;

 private:
  struct Coefficient {
    std::int64_t frequency = 0;
    Complex value;
    double error = 0.0;  // the absolute error
  };
  std::shared_ptr<const Roots> roots_;
  std::vector<Coefficient> kept_;
  double left_out_ = 0.0;
};

}  // namespace pld
