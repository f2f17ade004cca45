// The section of a study's page about the privacy cost of choosing among its arms.
#pragma once

#include <string>

#include "privgrad/record/study_facts.hpp"

namespace privgrad::report {

/// \param choice  empty if there are no results yet.
std::string choice_section(const core::BestArmFacts& choice);

}  // namespace privgrad::report
