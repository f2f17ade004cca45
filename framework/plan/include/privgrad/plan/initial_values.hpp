// The values of model.weights, from which training begins.
#pragma once

#include <span>

#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// Overwrites the tensors for which model.weights has values. Does nothing if the manifest names no
/// weights, or if the setting was made from recorded facts, which have no values.
/// \param whole  the parameters of the whole model.
/// \throws ConfigError if the values were freed, because the plan was only made to be compared with
///   others (plan_study()): training would begin from weights that differ from the plan's.
void put_initial_values(const Setting& setting, std::span<float> whole);

}  // namespace privgrad::core
