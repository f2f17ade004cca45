// The training and test rows of a run, on their way from the data source to the model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Teaches transforms with released and paid statistics of private rows. Other instances compute
/// each row's contribution; the instance that learns sees only the release.
class Teacher {
 public:
  virtual ~Teacher() = default;
  /// \param number  of the transform in the manifest.
  /// \param transform  one whose Statistic is `released`.
  /// \param train  the rows as the preceding transforms have left them.
  virtual void teach(std::size_t number, Transform& transform, const Dataset& train) = 0;
};

/// Training and test examples, as the model sees them.
struct RunData {
  Dataset train, test;
  /// The values that the transforms have learnt, in their order; none before they were applied. As
  /// private as each of them says (Statistic).
  std::vector<FittedTransform> preprocessing = {};
  /// A name for exactly these rows if they are in a file; otherwise "". Changing examples makes
  /// data without a name.
  std::string kept_as = {};
};

}  // namespace privgrad::core
