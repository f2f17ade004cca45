// The definitions of layers and losses in network.hpp, as formulas in double.
#pragma once

#include <span>
#include <vector>

#include "program_inputs.hpp"

namespace privgrad::testing {

/// \returns the outputs of each example: [rows, outputs].
std::vector<double> defined_outputs(const Network& network, std::span<const float> parameters,
                                    const Examples& examples);

/// \param outputs  [rows, outputs].
Evaluation defined_evaluation(const Network& network, const std::vector<double>& outputs,
                              const Examples& examples);

}  // namespace privgrad::testing
