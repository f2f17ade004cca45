// The metadata of a model file that describes how the model is applied to raw examples.
#pragma once

#include <map>
#include <string>

#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// The members of a model file's metadata that describe how the model is applied: "model_format",
/// "input", "classes", "preprocessing", "network", "model", "backend", and "features" and "data" if
/// the data has them. All except "model_format" are JSON. All are public, because they follow from
/// the plan and the released counts; values learnt from rows are in the tensors.
std::map<std::string, std::string> model_description(const Plan& plan,
                                                     const ReleasedCounts& counts);

}  // namespace privgrad::core
