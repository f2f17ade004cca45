#pragma once

#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Why the plan's delta is too large to promise much: at 1/N and above, a mechanism that publishes
/// everything about one of the N units, drawn at random, is (0, delta)-differentially private.
/// (Dwork and Roth 2014, section 2.3; N is of examples, or of clients where those are the unit.)
/// \returns nothing where it is smaller, or where there is no noise.
std::optional<std::string> large_delta(const Plan& plan);

/// What a reader should know about a guarantee that is proved, and promises little all the same:
/// a large delta, and an epsilon above 20. One sentence each.
/// \param epsilon  that is stated; of infinity every output speaks already.
std::vector<std::string> remarks(const Plan& plan, double epsilon);

}  // namespace privgrad::core
