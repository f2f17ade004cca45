// Clips one example: factors that keep its contribution within the clip norm, rounding included.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "privgrad/clipping.hpp"

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

/// \returns the largest factor, at most 1, by which a vector of doubles is certain to have an L2
///   norm of at most `bound`, rounding of the products included; 0 if it is not finite, or the
///   bound is 0.
double factor_to_bound(std::span<const double> vector, double bound);

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
