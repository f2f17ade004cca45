// The public facts of a run, and the parameters that are computed from them if given as `auto`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace privgrad {

/// The public facts of a run before its first step. Values that a manifest gives as `auto` are
/// computed from these facts.
struct RunFacts {
  std::uint64_t steps = 0;         ///< 0 while the number of steps is being chosen.
  std::uint64_t dataset_size = 0;  ///< N, the public number of training examples.
  std::uint64_t parameters = 0;    ///< d.
  /// B, the divisor of every step's sum; 0 if schedules.batch_size determines B.
  double batch_size = 0.0;
  std::optional<double> target_epsilon;  ///< Absent if the manifest gives the noise instead.
  double target_delta = 0.0;             ///< In (0, 1).

  bool operator==(const RunFacts&) const = default;
};

/// A value that was given as `auto`, and the number chosen for it.
struct AutoValue {
  std::string name;  ///< The parameter's name.
  double value = 0.0;
  std::string reason;  ///< The formula and the theorem.
};

}  // namespace privgrad
