// Recomputes, from a run's releases, the values that components published.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/model/model_file.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// Recomputes from the recorded releases what transforms have learnt, in this process, which has
/// seen none of the run's rows, and compares it with the model file. Values may differ by 1e-9 of
/// the largest value in the same tensor, because processors round differently.
/// \param notes  out: names of statistics that are too long to be recorded.
/// \returns problems; empty if each transform has learnt the recorded values.
std::vector<std::string> learnt_otherwise(const Plan& plan, const ReleasedCounts& released,
                                          const ModelFile& model, std::vector<std::string>& notes);

/// Recomputes each adaptive clip norm from the previous clip norm and the share of gradients within
/// it, wherever metrics.jsonl has two consecutive steps.
/// \param lines  the lines of metrics.jsonl, each an object.
/// \returns a problem that names the first step after which the clip norm differs; "" if none does.
std::string other_clip_norm(const Plan& plan, std::string_view lines);

}  // namespace privgrad::core
