// The conformance suite: checks a component against every promise of its interface.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/resident_steps.hpp"
#include "privgrad/value.hpp"

namespace privgrad::testing {

enum class Verdict {
  passed = 1,
  failed,
  skipped,  ///< Not checked, for the reason in the detail; never counts as a pass.
};

std::string_view to_text(Verdict verdict);

/// The result of checking one rule on one component.
struct Finding {
  std::string rule;  ///< lower_snake_case; unique within a component's findings.
  Verdict verdict = Verdict::skipped;
  /// One line: the broken promise and the observed behaviour, or why the rule was skipped.
  std::string detail;
};

/// Inputs that the suite cannot make itself.
struct Setup {
  /// Parameters that replace the suite's own choice (the declared examples and defaults), such as
  /// the files of a data source; an object, or null.
  Value params;

  /// The rules to check, in addition to the rules that prepare them; empty: all rules. All other
  /// rules give no findings.
  std::vector<std::string> rules = {};

  /// Makes a release, the input of optimizers, from values and a noise standard deviation. Only the
  /// core can make releases, so callers that link the core set this; if empty, rules that need
  /// releases are skipped.
  std::function<Released(std::vector<float>, double)> make_released;

  /// make_noise_order() makes noise orders like those that ResidentSteps receives, with a separate
  /// key for each number. release() computes the release of an order, for elements from `first` on.
  /// If they are empty, the noise of programs is not checked.
  std::function<NoiseOrder(std::uint64_t number, double sigma, unsigned shift)> make_noise_order;
  std::function<void(const NoiseOrder& order, std::uint64_t first,
                     std::span<const std::int64_t> sums, std::span<std::int64_t> out)>
      release;
};

/// Checks every promise in the header of the component's interface.
///
/// Runs the component's own code in this process, on small made-up inputs. Uses files only for a
/// data source: the files in the parameters, and some broken files in a temporary folder.
/// \returns one finding per rule. Errors that the component throws become findings.
std::vector<Finding> check_component(const Component& component, const Setup& setup);

/// Checks only the rule that follows the rules in `done`, so that each rule can have its own
/// process. The findings so far stay in a safe process, while this function runs in a process in
/// which the plugin may do anything. Each call gives one finding, until the component has no more
/// rules.
///
/// Repeats earlier rules that prepare later rules, except rules that failed.
/// \param done  the findings so far, in order.
/// \param begins  called with the rule's name before any of its code runs.
/// \param ends  called with the finding, while everything made for the rule still exists.
/// \returns whether a rule was left to check.
bool check_next_rule(const Component& component, const Setup& setup,
                     const std::vector<Finding>& done,
                     const std::function<void(const std::string& rule)>& begins,
                     const std::function<void(const Finding& finding)>& ends);

/// The last rule. It concerns the plugin code that runs between the other rules.
inline constexpr std::string_view kWholeSuite = "survives_the_suite";

/// \returns whether no finding failed; skipped rules do not count.
bool conforms(const std::vector<Finding>& findings);

}  // namespace privgrad::testing
