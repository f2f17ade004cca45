#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/value.hpp"

namespace privgrad::testing {

enum class Verdict {
  passed = 1,
  failed,
  skipped,  ///< Not checked, and the detail says why; never a pass.
};

std::string_view to_text(Verdict verdict);

/// What became of one rule on one component.
struct Finding {
  std::string rule;  ///< lower_snake_case; unique within a component's findings.
  Verdict verdict = Verdict::skipped;
  std::string detail;  ///< Failed: what was promised and what happened. Skipped: why. One line.
};

/// What the suite cannot make by itself.
struct Setup {
  /// Parameters that replace those which the suite would choose (the declared examples and
  /// defaults), e.g. the files of a data source; an object, or null.
  Value params;

  /// Makes what optimizers receive, from values and a noise standard deviation. Only the core can,
  /// so whoever links the core brings it; empty: what needs it is skipped.
  std::function<Released(std::vector<float>, double)> make_released;
};

/// Checks every promise that the interface of this component makes in its header.
///
/// Runs the component's own code in this process, on small made-up inputs; with files only for a
/// data source, those in the parameters and some broken ones in a temporary folder.
/// \returns one finding per rule; nothing that the component throws gets through.
std::vector<Finding> check_component(const Component& component, const Setup& setup);

/// \returns whether no finding failed; skipped ones do not count.
bool conforms(const std::vector<Finding>& findings);

}  // namespace privgrad::testing
