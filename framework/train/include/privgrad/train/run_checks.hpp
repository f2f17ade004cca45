// The numbers of checks made during a run.
#pragma once

#include <cstdint>
#include <string>

namespace privgrad::core {

/// The checks that a run made and passed; a failed check ends the run.
struct RunChecks {
  std::uint64_t contributions = 0;  ///< Steps drawn for a check of examples' contributions.
  std::uint64_t batches = 0;        ///< Batches that were tested against the sampler's law.
  /// Checked steps with a difference that proves no fault (ContributionCheck::differs). Private.
  std::uint64_t reported_differences = 0;
  /// The name of the program that made the noise and was checked in each step (ResidentRun); "" if
  /// the trust base made the noise.
  std::string noise_by{};

  RunChecks& operator+=(const RunChecks& other);
};

}  // namespace privgrad::core
