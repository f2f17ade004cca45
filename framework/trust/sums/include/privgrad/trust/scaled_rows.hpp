// Gradients whose coordinates are shifted and scaled before they are clipped, and the way back.
#pragma once

#include <memory>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// By what the coordinates of a step's gradients are shifted and scaled. Both follow from what was
/// released before, or from public numbers, and are the same for all examples.
struct Scaling {
  std::span<const float> shift;  ///< Finite.
  std::span<const float> scale;  ///< Finite, > 0.
};

/// \param parameters  numbers in a gradient.
/// \throws PluginError for another length, or values that are not as Scaling says.
void check_scaling(const Scaling& scaling, std::size_t parameters);

/// A program whose rows are those of `program`, shifted and scaled: w = (g - shift) / scale.
///
/// Sensitivity of exact_sum() of it: a row w is computed from the example's own row g and from
/// `scaling`, coordinate by coordinate, in double, and rounded to float32. So it is a function of the
/// example, the parameters and `scaling` alone, bit for bit, if g is one of the first two (each of
/// the three operations is rounded as IEEE 754 says on every processor). exact_sum() clips w, not g:
/// it makes whole cells of w no longer than kExactLevels, certified in integers, whatever w is.
/// Neighbours therefore differ by that one vector, as for other programs, in units of the clip norm
/// *of scaled rows*.
///
/// What remains is that `scaling` is the same for neighbours. It is not: it follows from earlier
/// releases. But given these it is a constant, and each step is charged as the Gaussian mechanism
/// that it is for every value of the releases before it: adaptive composition, which is what lets
/// the parameters themselves follow from earlier releases. Of a release, unscaled() is a function of
/// it and of `scaling`: post-processing.
///
/// A row that is not finite stays so, and counts as zero. Of the abilities of `program` it keeps
/// ReproducibleRows, and RowEvaluations, which is not about gradients; product forms of a gradient's
/// norm know nothing of coordinates.
/// \param program, scaling  outlive the result; checked.
std::unique_ptr<Program> scaled_rows(const Program& program, const Scaling& scaling);

/// The gradient that a release of scaled rows stands for: scale * release + shift. Its
/// noise_stddev() is the root mean square over the coordinates.
/// \param scaling  checked, for so many coordinates.
Released unscaled(const Released& release, const Scaling& scaling);

}  // namespace privgrad::core
