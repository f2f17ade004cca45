// Makes the remaining runs of a study, in child processes here or on a whole cluster.
#pragma once

#include "arguments.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/studies/study_results.hpp"
#include "study_processes.hpp"

namespace privgrad::tool {

/// --jobs, for every subcommand that makes the runs of a study.
Option jobs_option();
/// \throws UsageError
int jobs_of(const Arguments& arguments);

/// The estimated seconds of a run of each arm.
std::vector<double> run_seconds(const core::StudyPlan& plan);

/// Makes the remaining runs in a prepared directory, each in a process of its own, and reports
/// those that failed on standard error. Options read: --cache, --plugin-dir, --quiet.
/// \param seconds  as run_seconds().
/// \param jobs  at a time, in each process.
/// \param processes  the processes that make them together; null: this one alone.
/// \returns whether all runs of the study are done.
bool make_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory,
               const std::vector<double>& seconds, int jobs, const Arguments& arguments,
               StudyProcesses* processes = nullptr);

/// How many runs are left.
std::size_t open_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory);

}  // namespace privgrad::tool
