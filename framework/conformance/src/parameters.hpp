// Parameters with which to try a component, made from its declaration only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checker.hpp"
#include "privgrad/params.hpp"
#include "privgrad/plugin.hpp"

namespace privgrad::testing {

/// Parameters made from the declaration only.
struct ExampleParams {
  Value params;                         ///< An object with every declared example and default.
  std::vector<std::string> undeclared;  ///< Required parameters without an example.
  std::vector<std::string> files;       ///< Required paths: no example can stand for a file.
};

/// \param given  members that replace the declared ones; an object or null.
ExampleParams example_params(const std::vector<ParamSpec>& specs, const Value& given);

/// The parameters unchanged, followed by one copy for each optional parameter, which adds the
/// parameter's example.
std::vector<Value> with_each_optional(const std::vector<ParamSpec>& specs, const Value& params);

/// One parameter set to an end of its range, the others as in `base`.
struct Variant {
  std::string what;  ///< "beta = 0"
  Value params;
};

/// Every end of every declared range, every choice, both booleans, the shortest list.
std::vector<Variant> range_ends(const std::vector<ParamSpec>& specs, const Value& base);

/// The rules about a component's declaration; they need no object.
void check_declaration(Checker& checker);

/// The rule that parameters at the ends of their ranges give a component that works, or a
/// ConfigError. `exercise` briefly uses a component made from the parameters; it may throw any
/// Error of the SDK.
void check_range_ends(Checker& checker, const std::function<void(const Params&)>& exercise);

}  // namespace privgrad::testing
