#pragma once

#include <map>
#include <string>

#include "privgrad/plan/plan.hpp"

// What a model file says of how the model is applied.
namespace privgrad::core {

/// The members of a model file's metadata that say how it is applied: "model_format", "input",
/// "classes", "preprocessing", "network", "model", "backend", all but the first as JSON, and of data
/// that has them "features" and "data". They follow from the plan, and are public: what was learnt from rows stands in the tensors.
std::map<std::string, std::string> model_description(const Plan& plan);

}  // namespace privgrad::core
