// The engine that makes steps together with other processes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/train/process_group.hpp"
#include "privgrad/trust/slice.hpp"
#include "step_engine.hpp"

namespace privgrad::core {

/// Steps that several processes make together. Process 0 pays, draws the batch and sends the order;
/// then all do the same: each sums up its share of the batch, receives its slice of the total sum,
/// adds noise to it, and updates its slice of the parameters.
class SharedSteps final : public StepEngine {
 public:
  /// \param processes  outlives the engine.
  SharedSteps(StepState& state, ProcessGroup& processes);

  /// The number of parameters that this process's optimizer updates, at least 1.
  std::size_t optimizer_size() const;

  /// Makes a step; called at process 0.
  bool take(const DrawnStep& drawn, Workbench& bench) override;
  /// Called at the other processes; with correlated noise, after taking over the step's receipt.
  /// \throws as take(); IoError if a process is gone.
  void take_part(const StepOrder& order, Workbench& bench);

  void begin_saving(StateWriter& out) const override;
  void save_optimizer(StateWriter& out) const override;
  void restore_optimizer(StateReader& in) override;

 private:
  struct Made {
    /// The whole releases, at process 0; empty if each process updates its own slice.
    std::vector<Released> whole;
    double noise_stddev = 0.0;
    double unclipped = 0.0;      // the released share, if the clip norm is adaptive
    bool check_differs = false;  // whether the check found a difference in any process
  };
  bool takes_slices() const;
  StepOrder order_of(const DrawnStep& drawn, const Clip& clip, const ContributionCheck* check);
  Made make_slice(const StepOrder& order, Workbench& bench, ContributionCheck* check);
  std::vector<BoundedOnGrid> slices_of_sums(const StepOrder& order,
                                            std::span<const std::uint32_t> share, Workbench& bench,
                                            ContributionCheck* check);
  bool any_differs(bool mine) const;
  std::vector<Released> release_slices(std::vector<BoundedOnGrid> slices, const StepOrder& order);
  Released without_count(const StepOrder& order, const Released& slice, Made& made) const;
  std::optional<Slice> slice_of_optimizer() const;

  ProcessGroup& processes_;
};

}  // namespace privgrad::core
