// The training and test rows of a run, and the interface by which transforms learn.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Teaches transforms from charged and released statistics of private rows. The instance that
/// learns sees only the release; other instances compute the rows' contributions.
class Teacher {
 public:
  virtual ~Teacher() = default;
  /// \param number  the number of the transform in the manifest.
  /// \param transform  a transform whose Statistic is `released`.
  /// \param train  the rows, after the preceding transforms.
  virtual void teach(std::size_t number, Transform& transform, const Dataset& train) = 0;
};

/// The training and test examples for the model.
struct RunData {
  Dataset train, test;
  /// The values that the transforms have learnt, in the transforms' order; empty before transforms
  /// were applied. Each is as private as its transform states (Statistic).
  std::vector<FittedTransform> preprocessing = {};
  /// A name that identifies exactly these rows if they are in a file; otherwise "". Changed
  /// examples have no name.
  std::string kept_as = {};
};

}  // namespace privgrad::core
