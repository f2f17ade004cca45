#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/data/fitted_transform.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/transform.hpp"

// Training and test rows between the source that reads them and the model that sees them.
namespace privgrad::core {

/// Where transforms get what they learn of private rows from, where somebody pays for that.
class Teacher {
 public:
  virtual ~Teacher() = default;
  /// \param number  of the transform in the manifest.
  /// \param transform  whose Statistic is `released`.
  /// \param train  as the transforms before it have left the rows.
  virtual void teach(std::size_t number, Transform& transform, const Dataset& train) = 0;
};

/// Training and test examples, as the model sees them.
struct RunData {
  Dataset train, test;
  /// What the transforms have learnt, one after the other; nothing before they were applied. As
  /// private as each of them says (Statistic).
  std::vector<FittedTransform> preprocessing = {};
  /// Of rows that lie in a file, a name for these very rows; "": there is none. Whoever changes
  /// examples makes data without it.
  std::string kept_as = {};
};

}  // namespace privgrad::core
