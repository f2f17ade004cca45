// Makes the remaining runs of a study, or of one shard of it, in child processes.
#pragma once

#include <cstddef>
#include <vector>

#include "arguments.hpp"
#include "privgrad/api/study_state.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::tool {

/// Returns --jobs, for every subcommand that makes the runs of a study.
Option jobs_option();
/// \throws UsageError if --jobs is not a number in the allowed range.
int jobs_of(const Arguments& arguments);

/// The runs of a study that one machine makes. All runs are numbered arm by arm. A shard has every
/// `of`-th run, beginning with the `number`-th, so that its runs are spread over the arms.
struct Shard {
  std::size_t number = 1;  ///< The number of this shard, 1 to `of`.
  std::size_t of = 1;      ///< 1: the whole study.

  bool has(const core::StudyPlan& plan, const api::OpenRun& run) const;
};

/// Returns --shard, for `privgrad ablate`.
Option shard_option();
/// \throws UsageError if --shard is not of the form NUMBER/OF, with numbers in their ranges.
Shard shard_of(const Arguments& arguments);

/// Returns the estimated seconds of a run of each arm.
std::vector<double> run_seconds(const core::StudyPlan& plan);

/// Makes the shard's remaining runs in a prepared directory, each in its own process, and reports
/// failed runs on standard error. Reads the options --cache, --plugin-dir and --quiet.
/// \param seconds  the value returned by run_seconds().
/// \param jobs  the number of runs at a time.
/// \returns whether all runs of the shard are done.
bool make_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory,
               const std::vector<double>& seconds, int jobs, const Arguments& arguments,
               const Shard& shard = {});

/// Returns the number of remaining runs of the shard.
std::size_t open_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                      const Shard& shard = {});
/// Returns the number of all runs of the shard.
std::size_t all_runs(const core::StudyPlan& plan, const Shard& shard = {});

}  // namespace privgrad::tool
