// The model before a random step, which a run may keep as its final model.
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/train/run_feature.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Keeps the model before one of the affordable steps, the chosen step. It is drawn uniformly
/// before the run, so it reveals nothing. A run that ends earlier keeps its last model.
class RandomIterate final : public RunFeature {
 public:
  RandomIterate(const PlanNumbers& plan, const RandomKey& key);

  std::optional<RunStatus> before_step(std::uint64_t step, RunModel& model) override;
  void choose_model(RunModel& model) override;
  void save(StateWriter& out) const override;
  void restore(StateReader& in) override;
  void add_to_summary(Summary& summary) const override;

 private:
  std::uint64_t chosen_;
  std::vector<float> kept_;  // the model before this step; empty until the run reaches the step
  std::size_t parameters_;
  bool is_reached_ = false;
};

}  // namespace privgrad::core
