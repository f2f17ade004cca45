// The interface of engines, which make an owner's steps on the host or on a device.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "privgrad/train/workbench.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "step_state.hpp"

namespace privgrad::core {

/// A step whose batch was drawn, and tested against the law that the charge assumes. Private.
struct DrawnStep {
  std::uint64_t step = 0;
  std::span<const std::uint32_t> batch;  ///< Rows of the data set.
};

/// Makes the steps of one owner: sums up the gradients of a batch, uses the step's receipt for the
/// release, and updates the parameters. All engines that support a plan make the same releases, bit
/// for bit; plan/engines.hpp says which engine supports which traits.
///
/// Threads: calls must not overlap.
class StepEngine {
 public:
  /// \param state  the owner's state, which must outlive the engine.
  explicit StepEngine(StepState& state) : state_(state) {}
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;
  virtual ~StepEngine() = default;

  /// \returns false if the parameters are no longer finite; the last finite parameters are kept.
  /// \throws PluginError if a check proves a plugin faulty; nothing is then released for the step.
  virtual bool take(const DrawnStep& drawn, Workbench& bench) = 0;

  /// Fetches the parameters to the workbench, if they were updated elsewhere.
  virtual void bring_home(Workbench&) {}
  /// Must be called with the new parameters after they were loaded into the workbench.
  virtual void were_loaded(std::span<const float>) {}
  /// RunChecks::noise_by.
  virtual std::string noise_by() const { return ""; }

  /// Must be called before anything is saved; processes that share the steps call it together.
  virtual void begin_saving(StateWriter&) const {}
  virtual void save_optimizer(StateWriter& out) const;
  /// \throws IoError if the state belongs to another optimizer.
  virtual void restore_optimizer(StateReader& in);

 protected:
  StepState& state_;
};

}  // namespace privgrad::core
