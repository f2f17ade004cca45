// The ability of a transform to be given several examples at once.
#pragma once

#include <cstddef>
#include <span>

#include "privgrad/export.hpp"
#include "privgrad/transform.hpp"

namespace privgrad {

/// Optional ability of a RowTransform, found with dynamic_cast: several examples at once, for a
/// transform whose numbers are more than the caches hold, so that it reads them once for all of
/// these.
///
/// Privacy: each example becomes what apply_row() makes of it, bit for bit, whatever stands beside
/// it, so that no example moves another; the conformance suite tests it.
/// Threads: as RowTransform.
class PRIVGRAD_API RowsAtOnce {
 public:
  virtual ~RowsAtOnce();

  /// \param shape  shape of the features of one example, as given to output_shape().
  /// \param rows  how many examples there are, at least 1.
  /// \param features  float32, [rows, element_count(shape)].
  /// \param out  float32, [rows, as many as Transform::output_shape() says]; not `features`.
  /// \throws ConfigError as RowTransform::apply_row().
  virtual void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                          std::span<float> out) const = 0;
};

/// Several examples by a transform, at once if it has the ability RowsAtOnce, otherwise one after
/// the other. Parameters as those of RowsAtOnce::apply_rows().
PRIVGRAD_API void apply_to_rows(const RowTransform& transform, const Shape& shape, std::size_t rows,
                                std::span<const float> features, std::span<float> out);

}  // namespace privgrad
