// Recomputes, from a run's releases, the values that components published.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/model/model_file.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/released_counts.hpp"

namespace privgrad::core {

/// Recomputes from the recorded releases, without any rows, the values that transforms have learnt,
/// and compares them with the model file. Values may differ by 1e-9 of the largest value in the
/// same tensor, because processors round differently.
/// \param notes  out: a note for each statistic that is too long to be recorded.
/// \returns problems; empty if the model file contains the recomputed values.
std::vector<std::string> learnt_otherwise(const Plan& plan, const ReleasedCounts& released,
                                          const ModelFile& model, std::vector<std::string>& notes);

/// Recomputes each adaptive clip norm from the previous clip norm and the share of gradients within
/// it, for each pair of consecutive steps in metrics.jsonl.
/// \param lines  the content of metrics.jsonl.
/// \returns a problem that names the first step with another clip norm; "" if there is none.
std::string other_clip_norm(const Plan& plan, std::string_view lines);

}  // namespace privgrad::core
