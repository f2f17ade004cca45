// The engine whose sums, noise and optimizer stay on the program's device.
#pragma once

#include <string>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/resident_run.hpp"
#include "step_engine.hpp"

namespace privgrad::core {

/// Steps that stay on the program's device (ResidentSteps). Their releases and the resulting state
/// have the same bits as steps made in this process.
class DeviceSteps final : public StepEngine {
 public:
  /// \returns whether plan, program, optimizer and clipping support such steps, and there is no
  ///   witness of the releases.
  static bool can_make(const StepState& state, Program& program);

  /// Copies the optimizer's state to the program, which updates it from now on.
  /// \param bench  the bench of all later steps; outlives the engine.
  /// \param key  draws what is checked in each step.
  /// \throws PluginError for an optimizer whose state does not match its own description.
  DeviceSteps(StepState& state, Workbench& bench, const RandomKey& key);

  bool take(const DrawnStep& drawn, Workbench& bench) override;
  /// \throws PluginError as ResidentRun::bring_parameters().
  void bring_home(Workbench& bench) override;
  void were_loaded(std::span<const float> values) override { run_.parameters_were_loaded(values); }
  std::string noise_by() const override { return state_.program; }
  void save_optimizer(StateWriter& out) const override;

 private:
  ResidentRun run_;
};

}  // namespace privgrad::core
