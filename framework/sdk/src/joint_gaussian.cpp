#include "privgrad/joint_gaussian.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>
#include <vector>

namespace privgrad {

std::optional<JointGaussian> joint_gaussian(const Event& event) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<CountedEvent> parts = flatten(event);
  if (parts.empty()) return JointGaussian{kInfinity, kInfinity};
  double least = kInfinity;
  for (const auto& [part, count] : parts) {
    if (const auto* gaussian = std::get_if<GaussianEvent>(&part.kind())) {
      least = std::min(least, gaussian->noise_multiplier);
    } else if (std::holds_alternative<NonPrivateEvent>(part.kind())) {
      least = 0.0;
    } else {
      return std::nullopt;
    }
  }
  if (least == 0.0) return JointGaussian{0.0, 0.0};
  if (parts.size() == 1 && parts.front().count == 1) return JointGaussian{least, least};
  // Terms are relative to the smallest multiplier, so that no square overflows. Terms that
  // underflow are smaller than the rounding error of the sum, which is at least 1.
  double sum = 0.0;
  for (const auto& [part, count] : parts) {
    const double ratio = least / std::get<GaussianEvent>(part.kind()).noise_multiplier;
    sum += static_cast<double>(count) * (ratio * ratio);
  }
  // With u = 2^-53 and n terms: each term has a relative error of at most 5 u (a quotient, its
  // square, a count, a product), and their sum adds (n - 1) u. The root halves this; the root and
  // the quotient add u each: n / 2 + 4 in all. Rounding `margin` and the products costs less than
  // the remaining n / 2 + 4, and the next double covers a result below the normal range.
  const double margin =
      (static_cast<double>(parts.size()) + 8.0) * 0.5 * std::numeric_limits<double>::epsilon();
  const double joint = least / std::sqrt(sum);
  return JointGaussian{std::nextafter(joint * (1.0 - margin), 0.0),
                       std::nextafter(joint * (1.0 + margin), kInfinity)};
}

}  // namespace privgrad
