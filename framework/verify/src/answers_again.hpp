// Asks components again for what they made public of what was released.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/model/model_file.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// Lets transforms learn again of the releases that a run recorded, in this process, which was shown
/// none of its rows, and compares with what its model file has. Values may differ by one in 1e9 of
/// the largest beside them, since processors round otherwise.
/// \param notes  out: statistics that are too long to be recorded are named.
/// \returns problems; none: each has learnt that.
std::vector<std::string> learnt_otherwise(const Plan& plan, const ReleasedCounts& released,
                                          const ModelFile& model, std::vector<std::string>& notes);

/// Makes each clip norm that adapts again of the one before it and the share of gradients within
/// that one, wherever metrics.jsonl has two steps in a row.
/// \param lines  of metrics.jsonl, each an object.
/// \returns the step behind which another one is said, as a problem; "": none.
std::string other_clip_norm(const Plan& plan, std::string_view lines);

}  // namespace privgrad::core
