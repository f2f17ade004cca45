// The public facts of a run, and the parameters that follow from them when given as `auto`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// The public facts of a run before its first step. Values that a manifest gives as `auto` are
/// computed from them.
struct RunFacts {
  std::uint64_t steps = 0;         ///< 0 while they are being chosen.
  std::uint64_t dataset_size = 0;  ///< N, the public number of training examples.
  std::uint64_t parameters = 0;    ///< d.
  /// B, the divisor of every step's sum; 0 if schedules.batch_size decides about it.
  double batch_size = 0.0;
  std::optional<double> target_epsilon;  ///< Nothing: the manifest gives the noise instead.
  double target_delta = 0.0;             ///< In (0, 1).

  bool operator==(const RunFacts&) const = default;
};

/// A value that was given as `auto`, and what it became.
struct AutoValue {
  std::string name;  ///< The parameter's name.
  double value = 0.0;
  std::string reason;  ///< Formula and theorem.
};

/// Optional ability of a component, found with dynamic_cast: tells what became of its parameters
/// that were given as `auto`, once it is started.
class PRIVGRAD_API AutoValues {
 public:
  virtual ~AutoValues();
  /// \returns one for each of them; empty if there are none.
  virtual std::vector<AutoValue> auto_values() const = 0;
};

/// Optional ability of an aggregator, found with dynamic_cast: a theorem says for how many steps it
/// is best used (`steps: auto`).
class PRIVGRAD_API AutoSteps {
 public:
  virtual ~AutoSteps();
  /// \param facts  without steps.
  /// \returns a whole number >= 1.
  /// \throws ConfigError if the theorem does not cover these facts.
  virtual AutoValue auto_steps(const RunFacts& facts) const = 0;
};

/// Optional ability of an optimizer, found with dynamic_cast: a theorem says what its learning rate
/// should be (`schedules.learning_rate: auto`).
class PRIVGRAD_API AutoLearningRate {
 public:
  virtual ~AutoLearningRate();
  /// \returns a finite number > 0, for all steps.
  /// \throws ConfigError as auto_steps().
  virtual AutoValue auto_learning_rate(const RunFacts& facts) const = 0;
};

}  // namespace privgrad
