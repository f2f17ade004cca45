// The features of a run that act between its steps: which model it keeps, and what it reports.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "privgrad/statement/outcome.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// A run, as its features see it.
class RunModel {
 public:
  virtual ~RunModel() = default;
  /// The current parameters of the model; valid until the next step.
  virtual const std::vector<float>& parameters() = 0;
  /// Replaces the model.
  virtual void load(std::vector<float> parameters) = 0;
  /// Measures the model, without writing anything.
  virtual Metrics measure() = 0;
  /// Writes a line of metrics about the model, unless the last line is about this model.
  virtual void report_once() = 0;
};

/// Something that a manifest requests and that acts between the steps of a run. In a federated run,
/// the steps are its rounds. Every run has the same loop (ResumableRun), which calls the features
/// in their order.
///
/// Privacy: what a feature reads from RunModel was released. A feature that makes a release itself
/// pays for it first (AccuracyReports).
/// Threads: calls never overlap.
class RunFeature {
 public:
  virtual ~RunFeature() = default;
  /// Called before the first step, but not in a resumed run.
  virtual void begin(RunModel&) {}
  /// Called before each step. Takes precedence over a user's request to stop, because `verify`
  /// checks that a run ended exactly where its releases require.
  /// \returns the status with which the released values end the run; nothing if they do not.
  virtual std::optional<RunStatus> ends_run() const { return {}; }
  /// Called before each step is paid for.
  /// \param step  the number of the step, 0-based.
  /// \returns the status with which the run ends instead of making the step.
  virtual std::optional<RunStatus> before_step(std::uint64_t /*step*/, RunModel&) { return {}; }
  /// Called after each step.
  /// \param steps  the number of steps that were made.
  /// \returns whether a line of metrics must follow.
  virtual bool after_step(std::uint64_t /*steps*/, RunModel&) { return false; }
  /// Called after the last step; may replace the model by the one that the run keeps.
  virtual void choose_model(RunModel&) {}
  /// Called once the kept model is final, unless the user ended the run early.
  virtual void model_is_final(RunModel&) {}

  /// Saves everything on which later calls depend; restore() reads it.
  virtual void save(StateWriter& out) const = 0;
  /// \throws IoError for an invalid state.
  virtual void restore(StateReader& in) = 0;

  virtual void add_to_metrics(MetricsLine& /*line*/, std::uint64_t /*steps*/, RunModel&) const {}
  virtual void add_to_summary(Summary& /*summary*/) const {}
};

}  // namespace privgrad::core
