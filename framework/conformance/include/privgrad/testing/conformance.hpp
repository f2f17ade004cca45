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
  skipped,  ///< Not checked, and the detail says why; never a pass.
};

std::string_view to_text(Verdict verdict);

/// The result of checking one rule on one component.
struct Finding {
  std::string rule;  ///< lower_snake_case; unique within a component's findings.
  Verdict verdict = Verdict::skipped;
  std::string detail;  ///< Failed: what was promised and what happened. Skipped: why. One line.
};

/// The inputs that the suite cannot make by itself.
struct Setup {
  /// Parameters that replace those which the suite would choose (the declared examples and
  /// defaults), e.g. the files of a data source; an object, or null.
  Value params;

  /// The rules to check, together with those that prepare them; empty: all. Others give no
  /// findings.
  std::vector<std::string> rules = {};

  /// Makes what optimizers receive, from values and a noise standard deviation. Only the core can,
  /// so whoever links the core brings it; empty: what needs it is skipped.
  std::function<Released(std::vector<float>, double)> make_released;

  /// Makes orders of noise as ResidentSteps gets them, each number's by a key of its own; and the
  /// release that such an order asks for, of the elements from `first` on. Empty: the noise of
  /// programs is not looked at.
  std::function<NoiseOrder(std::uint64_t number, double sigma, unsigned shift)> make_noise_order;
  std::function<void(const NoiseOrder& order, std::uint64_t first,
                     std::span<const std::int64_t> sums, std::span<std::int64_t> out)>
      release;
};

/// Checks every promise that the header of the component's interface makes.
///
/// Runs the component's own code in this process, on small made-up inputs; with files only for a
/// data source, those in the parameters and some broken ones in a temporary folder.
/// \returns one finding per rule; nothing that the component throws gets through.
std::vector<Finding> check_component(const Component& component, const Setup& setup);

/// Checks only the rule that follows those in `done`, so that each rule can have a process of its
/// own: the findings so far stay in a safe process, and this is called in one where the plugin may
/// do as it likes. A component has as many rules as there are calls that give findings.
///
/// Earlier rules' preparations for later ones are made again; a rule that failed prepares nothing.
/// \param done    the findings so far, in order.
/// \param begins  called with the rule's name before any of its code runs.
/// \param ends    called with the finding, while everything made for the rule still exists.
/// \returns whether there was such a rule.
bool check_next_rule(const Component& component, const Setup& setup,
                     const std::vector<Finding>& done,
                     const std::function<void(const std::string& rule)>& begins,
                     const std::function<void(const Finding& finding)>& ends);

/// The rule that stands for the plugin's code between the rules; the last one.
inline constexpr std::string_view kWholeSuite = "survives_the_suite";

/// \returns whether no finding failed; skipped ones do not count.
bool conforms(const std::vector<Finding>& findings);

}  // namespace privgrad::testing
