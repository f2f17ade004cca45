// Chooses the values of a law of likelihood ratios; no proof relies on the choice.
#pragma once

#include <cstddef>
#include <vector>

#include "ratio_law.hpp"

namespace pld {

/// Returns the nodes for the law of exp(s Z - s^2/2), s = 1 / sigma.
std::vector<double> nodes_of_lognormal(double sigma, std::size_t count);

/// Returns the nodes for the sum of two independent variables with these laws.
std::vector<double> nodes_of_sum(const RatioLaw& a, const RatioLaw& b, std::size_t count);

}  // namespace pld
