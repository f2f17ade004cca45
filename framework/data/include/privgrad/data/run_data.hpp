// The training and test rows of a run, on their way from the data source to the model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Teaches transforms with statistics of private rows that are released and paid for. What each row
/// adds is asked of other instances: the one that learns is shown the release alone.
class Teacher {
 public:
  virtual ~Teacher() = default;
  /// \param number  of the transform in the manifest.
  /// \param transform  one whose Statistic is `released`.
  /// \param train  the rows as the transforms before it have left them.
  virtual void teach(std::size_t number, Transform& transform, const Dataset& train) = 0;
};

/// Training and test examples, as the model sees them.
struct RunData {
  Dataset train, test;
  /// The values that the transforms have learnt, in their order; none before they were applied. As
  /// private as each of them says (Statistic).
  std::vector<FittedTransform> preprocessing = {};
  /// A name for these very rows where they lie in a file; "": there is none. Whoever changes
  /// examples makes data without it.
  std::string kept_as = {};
};

}  // namespace privgrad::core
