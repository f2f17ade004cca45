// For data sources that can propose their own parameters from the rows of a file.
#pragma once

#include <string>
#include <vector>

#include "privgrad/export.hpp"
#include "privgrad/value.hpp"

namespace privgrad {

/// Optional ability of a data source, found with dynamic_cast: for rows that one may look at, it
/// suggests what a manifest could declare about them. No plan and no run calls it.
/// Threads: calls on one instance never overlap.
class PRIVGRAD_API SuggestsParams {
 public:
  virtual ~SuggestsParams();
  SuggestsParams(const SuggestsParams&) = delete;
  SuggestsParams& operator=(const SuggestsParams&) = delete;

  /// \returns an object of parameters to add to those that the source has: declarations that fit
  ///   all rows of the training files (types, ranges, values, classes). They are facts about these
  ///   rows.
  /// \throws IoError as DataSource::info(), except for rows that do not fit the declarations.
  virtual Value suggest() = 0;
  /// \returns what somebody should look at in the last answer, a line each: a column that was left
  ///   out or whose values do not all fit. Facts about the rows, as the answer.
  virtual std::vector<std::string> notes() { return {}; }

 protected:
  SuggestsParams() = default;
};

}  // namespace privgrad
