// For data sources that can propose their own parameters from the rows of a file.
#pragma once

#include "privgrad/export.hpp"
#include "privgrad/value.hpp"

namespace privgrad {

/// A data source may also be one of these (found by dynamic_cast): it looks at rows that one may
/// look at, and says what a manifest could declare of them. Nothing else calls it: no plan, no run.
/// Threads: calls on one instance never overlap.
class PRIVGRAD_API SuggestsParams {
 public:
  virtual ~SuggestsParams();
  SuggestsParams(const SuggestsParams&) = delete;
  SuggestsParams& operator=(const SuggestsParams&) = delete;

  /// \returns parameters to set beside those that it has: declarations that fit all rows of the
  ///   training files (types, ranges, values, classes), facts about these rows. An object.
  /// \throws IoError as DataSource::info(), but for rows that do not fit what was declared.
  virtual Value suggest() = 0;

 protected:
  SuggestsParams() = default;
};

}  // namespace privgrad
