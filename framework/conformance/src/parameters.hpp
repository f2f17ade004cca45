// Parameters for trying a component, made only from its declaration.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checker.hpp"
#include "privgrad/params.hpp"
#include "privgrad/plugin.hpp"

namespace privgrad::testing {

/// Parameters made only from a component's declaration.
struct ExampleParams {
  Value params;                         ///< An object with every declared example and default.
  std::vector<std::string> undeclared;  ///< Required parameters without an example.
  std::vector<std::string> files;       ///< Required paths, for which there are no examples.
};

/// \param given  members that replace the declared ones; an object or null.
ExampleParams example_params(const std::vector<ParamSpec>& specs, const Value& given);

/// Returns the unchanged parameters, followed by one copy for each absent optional parameter that
/// has an example, with this example; not for paths.
std::vector<Value> with_each_optional(const std::vector<ParamSpec>& specs, const Value& params);

/// One parameter set to an end of its range, the others as in `base`.
struct Variant {
  std::string what;  ///< "beta = 0"
  Value params;
};

/// Returns variants for the ends of declared ranges, all choices, both booleans, the shortest list.
std::vector<Variant> range_ends(const std::vector<ParamSpec>& specs, const Value& base);

/// Checks the rules about a component's declaration, which need no object.
void check_declaration(Checker& checker);

/// Checks that parameters at the ends of their ranges give a component that works, or a
/// ConfigError. `exercise` briefly uses a component made from the parameters, and may throw any
/// Error of the SDK.
void check_range_ends(Checker& checker, const std::function<void(const Params&)>& exercise);

}  // namespace privgrad::testing
