// Arithmetic that rounds upwards, for accountants, whose epsilon must never be too small.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#ifdef __FAST_MATH__
#error "-ffast-math takes the rounding errors away that these functions measure; build without it"
#endif

namespace privgrad {

// Arithmetic for accountants: every result is at least the true value, rounding included, so that a
// stated epsilon is never too small. u = 2^-53 is the largest relative error of one operation on
// doubles that rounds to nearest.

/// Makes up for the rounding errors of a computed number.
///
/// Suppose that x approximates a true value t >= 0 and was computed by k operations whose relative
/// errors multiply (products, quotients, conversions of counts; a square counts the errors of its
/// argument twice). Then t <= x (1 - u)^-k <= x (1 + k u + k^2 u^2), because k u is small. The
/// result is the next double above a number that is at least x (1 + 2 k u) (1 - u)^2, where the
/// factor and the product are rounded once each. The next double adds at least u x: together this
/// is more than x (1 + (2 k - 1.1) u), and 2 k - 1.1 >= k + k^2 u for every allowed k. If x is
/// below the normal range, an operation errs by up to half the smallest double instead; the next
/// double covers one such error, so only the last operation may underflow.
///
/// \param x  >= 0, infinity allowed.
/// \param k  2 to 2^20.
/// \returns a number that is at least the true value, and never 0.
inline double round_up(double x, double k) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kTwoRoundings = std::numeric_limits<double>::epsilon();  // 2 u
  return std::nextafter(x * (1.0 + k * kTwoRoundings), kInfinity);
}

/// Returns the cost of `count` releases that cost `cost` each, rounded up (two operations:
/// converting the count to a double, and the product). Zero releases cost 0, even if each costs
/// infinity; one release costs exactly `cost`.
/// \param cost  >= 0, infinity allowed.
inline double multiply_up(std::uint64_t count, double cost) {
  if (count == 0 || cost == 0.0) return 0.0;
  return count == 1 ? cost : round_up(static_cast<double>(count) * cost, 2.0);
}

/// An upper bound on a sum of non-negative numbers, about as tight as doubles allow for any number.
///
/// Each addition's rounding error is itself a double, which is computed exactly (Dekker 1971: the
/// larger number first) and summed in a carry (Neumaier 1974). With S the true sum of n terms, the
/// computed value sum + carry has an error of at most (u + g^2) S, g = (n-1) u / (1 - (n-1) u)
/// (Ogita, Rump and Oishi 2005, Proposition 4.5, for terms of one sign). For n <= 2^43, which no
/// program reaches, g^2 <= 1.01 n^2 u^2, and S is at most the computed value times
/// 1 + 1.01 u + 1.02 n^2 u^2. total() multiplies the computed value by 1 + 8 u + 4 n^2 u^2 with
/// three roundings, and takes the next double. Numbers below the normal range are harmless, because
/// additions among them are exact.
class UpwardSum {
 public:
  /// \param term  >= 0; infinity and NaN make the sum infinite.
  void add(double term) {
    const double next = sum_ + term;
    if (std::isfinite(next)) {
      const double error = sum_ >= term ? (sum_ - next) + term : (term - next) + sum_;
      carry_ += error;
      exact_ = exact_ && error == 0.0;
    }
    sum_ = next;
    ++terms_;
  }

  /// \returns at least the true sum; exactly the true sum if no addition had to be rounded, so that
  ///   an empty sum is 0 and a single term is returned unchanged.
  double total() const {
    if (!std::isfinite(sum_)) return std::numeric_limits<double>::infinity();
    if (exact_) return sum_;
    const double n = static_cast<double>(terms_);
    return round_up(sum_ + carry_, 4.0 + n * n * std::numeric_limits<double>::epsilon());
  }

 private:
  double sum_ = 0.0;
  double carry_ = 0.0;
  bool exact_ = true;
  std::uint64_t terms_ = 0;
};

}  // namespace privgrad
