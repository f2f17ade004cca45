// Shifts and scales the coordinates of gradients before clipping, and undoes it after the release.
#pragma once

#include <memory>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The shift and scale of the coordinates of a step's gradients. Both follow from earlier releases
/// or from public numbers, and are the same for all examples.
struct Scaling {
  std::span<const float> shift;  ///< Finite.
  std::span<const float> scale;  ///< Finite, > 0.
};

/// \param parameters  the number of elements in a gradient.
/// \throws PluginError for another length, or for values that break the promises of Scaling.
void check_scaling(const Scaling& scaling, std::size_t parameters);

/// A program whose rows are the rows of `program`, shifted and scaled: w = (g - shift) / scale.
///
/// The sensitivity of exact_sum() with this program: a row w is computed from the example's own row
/// g and from `scaling`, coordinate by coordinate, in double, and rounded to float32. So w is a
/// function of the example, the parameters and `scaling` only, bit for bit, if g is a function of
/// the example and the parameters (each of the three operations is rounded by IEEE 754 on every
/// processor). exact_sum() clips w, not g: for any w it makes whole cells no longer than
/// kExactLevels, certified in integers. Neighbours therefore differ by this one vector, as for
/// other programs, in units of the clip norm *of scaled rows*.
///
/// The scaling follows from earlier releases, so it may differ between neighbours. Given those
/// releases, however, it is a constant, and for every value of them the step is the Gaussian
/// mechanism that is charged. This is adaptive composition, which also lets the parameters depend
/// on earlier releases. unscaled() is a function of a release and of `scaling`: post-processing.
///
/// A row that is not finite stays non-finite, and counts as zero. The wrapper keeps two abilities
/// of `program`: ReproducibleRows, and RowEvaluations, which does not concern gradients. It drops
/// norms computed from products, which cannot scale single coordinates.
/// \param program, scaling  must outlive the result; `scaling` has passed check_scaling().
std::unique_ptr<Program> scaled_rows(const Program& program, const Scaling& scaling);

/// Returns the gradient that corresponds to a release of scaled rows: scale * release + shift. Its
/// noise_stddev() is the root mean square over the coordinates.
/// \param scaling  already checked for this number of coordinates.
Released unscaled(const Released& release, const Scaling& scaling);

}  // namespace privgrad::core
