// Clips one example: factors that keep its contribution within the clip norm, rounding included.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "privgrad/clipping.hpp"
#include "privgrad/wide_registers.hpp"

namespace privgrad::core {

/// The clip norms whose sums single precision can hold: 4e9 contributions do not overflow it, where
/// one more would show whatever the noise; and the coordinates of a contribution are so far above
/// the smallest numbers that rounding stays relative to its length.
inline constexpr double kSmallestClipNorm = 1e-20, kLargestClipNorm = 1e28;

/// \param what  begins the message.
/// \throws ConfigError unless it is within these two: "is ..., allowed is ...".
void check_clip_norm(double clip_norm, const std::string& what = {});

/// The clipping of one step's examples.
struct Clip {
  const Clipping& rule;                    ///< Started for these groups.
  std::span<const ParameterGroup> groups;  ///< All parameters, in order, without gaps.
  double clip_norm = 0.0;                  ///< Accepted by check_clip_norm().
  /// The share of the sum's bound that is left for the count of unclipped examples, in [0, 1); 0:
  /// nothing is counted. See joint_release.hpp.
  double count_share = 0.0;
};

/// No less than the squared L2 norm of a float32 vector, and by at most a relative (n + 8) 2^-51
/// more; NaN or infinite where an element is.
///
/// Why it holds: the computed sum of n squares is off by at most n units of 2^-53 (relative; Higham
/// 2002, section 3.1; squares of floats are exact in double), and is enlarged by more than that.
double squared_norm_at_most(std::span<const float> row);

/// squared_norm_at_most() of a vector that comes a piece after the other: the same bits.
class SquaredNorm {
 public:
  /// \param piece  the next numbers; of each but the last a multiple of kTogether.
  void add(std::span<const float> piece);
  double at_most() const;

  static constexpr std::size_t kTogether = 8;

 private:
  std::array<double, kTogether> partial_{};  // so that the compiler can use vector registers
  double rest_ = 0.0;
  std::size_t size_ = 0;
};

/// The largest factor, at most 1, by which a vector of doubles, the differences of two clipped
/// gradients, is certain to have an L2 norm of at most a bound, rounding of the products included.
///
/// Why it holds: the numbers are taken times a power of 2, exactly, so that neither the squares of
/// those that matter underflow nor those of a long vector overflow; n squares, their sum, its root,
/// the quotient and the products are off by less than the (n + 8) 2^-52 by which the length is
/// enlarged (Higham 2002, section 3.1).
class LengthBound {
 public:
  explicit LengthBound(double bound);

  /// \param number  of [0, size): the next numbers of the vector.
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

  /// 0 if the vector is not finite, or the bound is 0.
  double factor() const;

 private:
  static constexpr std::size_t kTogether = 8;

  double bound_, scale_ = 0.0;
  std::array<double, kTogether> partial_{};  // so that the compiler can use vector registers
  std::size_t size_ = 0;
};

/// The factors of one example: those of the rule, made smaller where they are too large.
///
/// Whatever the rule says, the vector of all factor_g * gradient_g, computed in double, has an L2
/// norm of at most clip_norm, never above it, rounding included: factors that are negative or not
/// finite count as 0, and if the norm is too large still, one more factor brings all groups down
/// together. That factor is enlarged in its denominator by all the roundings on the way to it and
/// by the one of each product: groups.size() + 8 units of 2^-52.
///
/// An example whose gradient is not finite (an infinite or NaN squared norm) contributes nothing;
/// the rule does not see it.
/// \param squared_norms  [groups]: each at least the squared L2 norm of the gradient in that group.
/// \param factors        out: finite, >= 0, [groups].
/// \returns whether the norm of the whole gradient is at most clip_norm.
bool clip_factors(const Clip& clip, std::span<const double> squared_norms,
                  std::span<double> factors);

}  // namespace privgrad::core
