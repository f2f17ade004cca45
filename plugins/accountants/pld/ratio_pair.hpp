// Dominating pairs that are given by a law of their likelihood ratio.
#pragma once

#include "loss.hpp"
#include "ratio_law.hpp"

namespace pld {

/// Return the pair (P, Q) whose likelihood ratio dP/dQ has this law under Q, and its reverse.
LossPairPtr pair_of_ratio(RatioLaw law);
LossPairPtr reversed_pair_of_ratio(RatioLaw law);

}  // namespace pld
