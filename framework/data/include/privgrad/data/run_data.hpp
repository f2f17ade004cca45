// The training and test rows of a run, on their way from the data source to the model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Teaches transforms from statistics of private rows that are charged and released. The instance
/// that learns sees only the release; other instances compute the rows' contributions.
class Teacher {
 public:
  virtual ~Teacher() = default;
  /// \param number  the number of the transform in the manifest.
  /// \param transform  one whose Statistic is `released`.
  /// \param train  the rows as the preceding transforms have left them.
  virtual void teach(std::size_t number, Transform& transform, const Dataset& train) = 0;
};

/// The training and test examples that the model receives.
struct RunData {
  Dataset train, test;
  /// The values that the transforms have learnt, in their order; empty before they were applied.
  /// Each is as private as its transform says (Statistic).
  std::vector<FittedTransform> preprocessing = {};
  /// A name for exactly these rows if they are in a file; otherwise "". Data whose examples were
  /// changed has no name.
  std::string kept_as = {};
};

}  // namespace privgrad::core
