// Clips one example: factors that keep its contribution within the clip norm, rounding included.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "privgrad/clipping.hpp"
#include "privgrad/wide_registers.hpp"

namespace privgrad::core {

/// The range of clip norms for which sums fit single precision. At the largest, 4e9 contributions
/// do not overflow; an overflow caused by one more contribution would reveal it despite the noise.
/// At the smallest, the coordinates of a contribution are still so far above the smallest floats
/// that rounding errors stay relative to its length.
inline constexpr double kSmallestClipNorm = 1e-20, kLargestClipNorm = 1e28;

/// \param what  the beginning of the message.
/// \throws ConfigError if the clip norm is outside this range: "is ..., allowed is ...".
void check_clip_norm(double clip_norm, const std::string& what = {});

/// How one step's examples are clipped.
struct Clip {
  const Clipping& rule;                    ///< start() was called with these groups.
  std::span<const ParameterGroup> groups;  ///< All parameters, in order, without gaps.
  double clip_norm = 0.0;                  ///< In the range of check_clip_norm().
  /// The share of the sum's bound that is reserved for the count of unclipped examples, in [0, 1);
  /// 0 means no count. See joint_release.hpp.
  double count_share = 0.0;
};

/// Returns an upper bound on the squared L2 norm of a float32 vector, too large by at most a
/// relative (n + 8) 2^-51; NaN or infinite if an element is NaN or infinite.
///
/// Why it holds: the computed sum of n squares is off by at most n units of 2^-53 (relative; Higham
/// 2002, section 3.1; squares of floats are exact in double), and is enlarged by more than that.
double squared_norm_at_most(std::span<const float> row);

/// Computes squared_norm_at_most() of a vector that comes in pieces, with the same bits.
class SquaredNorm {
 public:
  /// \param piece  the next numbers; the size of each piece except the last is a multiple of
  ///   kTogether.
  void add(std::span<const float> piece);
  double at_most() const;

  static constexpr std::size_t kTogether = 8;

 private:
  std::array<double, kTogether> partial_{};  // so that the compiler can use vector registers
  double rest_ = 0.0;
  std::size_t size_ = 0;
};

/// The largest factor, at most 1, that provably brings the L2 norm of a vector of doubles down to a
/// bound, including the rounding of the products. The vectors are differences of two clipped
/// gradients.
///
/// Why it holds: the numbers are scaled by a power of 2, exactly, so that the squares neither
/// underflow where they matter nor overflow for a long vector. The n squares, their sum, its root,
/// the quotient and the products are off by less than the (n + 8) 2^-52 by which the length is
/// enlarged (Higham 2002, section 3.1).
class LengthBound {
 public:
  explicit LengthBound(double bound);

  /// \param number  gives the vector's next numbers by their index in [0, size).
  template <class Number>
  void add(std::size_t size, const Number& number) {
    in_wide_registers([&] {
      std::array<double, kTogether> partial = partial_;
      const auto take = [&](std::size_t i, double& sum) {
        const double x = number(i) * scale_;
        sum += x * x;
      };
      std::size_t i = 0;
      for (; i + kTogether <= size; i += kTogether) {
        for (std::size_t j = 0; j < kTogether; ++j) take(i + j, partial[j]);
      }
      for (; i < size; ++i) take(i, partial[0]);
      partial_ = partial;
    });
    size_ += size;
  }

  /// Returns the factor; 0 if the vector is not finite, or the bound is 0.
  double factor() const;

 private:
  static constexpr std::size_t kTogether = 8;

  double bound_, scale_ = 0.0;
  std::array<double, kTogether> partial_{};  // so that the compiler can use vector registers
  std::size_t size_ = 0;
};

/// Computes the factors of one example: the rule's factors, reduced if they are too large.
///
/// For any rule, the vector of all factor_g * gradient_g, computed in double, has an L2 norm of at
/// most clip_norm, rounding included. Factors that are negative or not finite count as 0; if the
/// norm is still too large, a common factor brings all groups down. The denominator of this factor
/// is enlarged by all rounding errors in computing it and in each product: groups.size() + 8 units
/// of 2^-52.
///
/// An example whose gradient is not finite (an infinite or NaN squared norm) contributes nothing,
/// and is not passed to the rule.
/// \param squared_norms  [groups]: each at least the squared L2 norm of the gradient in that group.
/// \param factors  out: finite, >= 0, [groups].
/// \returns whether the norm of the whole gradient is at most clip_norm.
bool clip_factors(const Clip& clip, std::span<const double> squared_norms,
                  std::span<double> factors);

}  // namespace privgrad::core
