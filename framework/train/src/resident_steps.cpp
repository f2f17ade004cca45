#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data/breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/step_rule.hpp"
#include "privgrad/train/trainer.hpp"

// The steps whose sums, noise and optimizer stay where the program lives. Their releases and the
// state that they leave have the bits of the steps that are made here.

namespace privgrad::core {

bool Trainer::can_stay(Workbench& bench) const {
  if (manifest_.noise_off || processes_ != nullptr || plan_.unit != PrivacyUnit::example)
    return false;
  if (plan_.arithmetic != Arithmetic::exact || plan_.grid_levels != 0) return false;
  if (made_.scaling != nullptr) return false;
  if (correlated_ || differences_ || adaptive_noise_ || plan_.clip_norm_adapts()) return false;
  const Optimizer* optimizer = made_.optimizer.get();
  return dynamic_cast<const StepsByRule*>(optimizer) != nullptr &&
         dynamic_cast<const Coordinatewise*>(optimizer) != nullptr &&
         dynamic_cast<const Checkpointable*>(optimizer) != nullptr &&
         ResidentRun::ability(*bench.program) != nullptr;
}

/// From here on the vectors of the optimizer's state are the program's.
void Trainer::let_steps_stay(Workbench& bench) {
  if (!can_stay(bench)) return;
  const auto& rules = dynamic_cast<const StepsByRule&>(*made_.optimizer);
  const auto shared = dynamic_cast<const Coordinatewise&>(*made_.optimizer).shared_state();
  const auto state = dynamic_cast<const Checkpointable&>(*made_.optimizer).state();
  const std::size_t vectors = state_vectors(rules.kind());
  if (state.size() != shared.before + vectors * plan_.parameters + shared.after) {
    throw PluginError(manifest_.optimizer.component->full_name() + ": has a state of " +
                      std::to_string(state.size()) + " numbers, expected " +
                      std::to_string(vectors) + " for each parameter and " +
                      std::to_string(shared.before + shared.after) + " more");
  }
  in_run_of(program_owner(manifest_, *plan_.setting), [&] {
    resident_ = std::make_unique<ResidentRun>(*bench.program, rules.kind(), resident_checks_key_,
                                              program_owner(manifest_, *plan_.setting), executor_);
    for (std::size_t i = 0; i < vectors; ++i) {
      resident_->put_state(i,
                           state.subspan(shared.before + i * plan_.parameters, plan_.parameters));
    }
  });
}

/// The optimizer's state, with the vectors as the program has them.
std::vector<float> Trainer::resident_state() const {
  const auto shared = dynamic_cast<const Coordinatewise&>(*made_.optimizer).shared_state();
  const auto own = dynamic_cast<const Checkpointable&>(*made_.optimizer).state();
  std::vector<float> state(own.begin(), own.end());
  in_run_of(program_owner(manifest_, *plan_.setting), [&] {
    const std::size_t vectors = (state.size() - shared.before - shared.after) / plan_.parameters;
    for (std::size_t i = 0; i < vectors; ++i) {
      resident_->bring_state(
          i, std::span(state).subspan(shared.before + i * plan_.parameters, plan_.parameters));
    }
  });
  return state;
}

void Trainer::bring_home(Workbench& bench) {
  if (resident_ == nullptr) return;
  if (resident_->is_ahead())
    in_run_of(program_owner(manifest_, *plan_.setting),
              [&] { resident_->bring_parameters(bench.parameters); });
}

void Trainer::load(Workbench& bench, std::vector<float> values) {
  bench.load(std::move(values));
  if (resident_ != nullptr) resident_->forget_parameters();
}

bool Trainer::take_resident_step(std::uint64_t step, Workbench& bench) {
  draw_batch(step);
  const Clip clip = clip_of_step(step);
  std::optional<ContributionCheck> check = contribution_checks_.draw(step, batch_.size());
  in_run_of(
      program_owner(manifest_, *plan_.setting) + " or " + manifest_.clipping.component->full_name(),
      [&] {
        ResidentSum sum = resident_->sum(step, {data_, batch_, clip, manifest_.microbatch_size},
                                         bench.memory, check ? &*check : nullptr);
        // The receipt's charge is on the disk: before that there is no key to hand over.
        const PaidNoise noise = mechanism_.pay_for_noise(clip.clip_norm, manifest_.adjacency,
                                                         take_receipt(), plan_.batch_size[step]);
        resident_->release(std::move(sum), noise);
        gradient_noise_ = noise.stddev();
      });
  if (check) contribution_checks_.add(*check);
  StepRule rule;
  const std::string optimizer = manifest_.optimizer.component->full_name();
  in_run_of(optimizer, [&] {
    rule = dynamic_cast<StepsByRule&>(*made_.optimizer)
               .next_rule({.step = step, .learning_rate = plan_.learning_rate[step]});
  });
  ResidentSteps::Moved moved = ResidentSteps::Moved::yes;
  in_run_of(program_owner(manifest_, *plan_.setting), [&] { moved = resident_->update(rule); });
  if (moved == ResidentSteps::Moved::gradient_not_finite)
    in_run_of(optimizer, [&] { throw NumericError(optimizer + ": the gradient is not finite"); });
  return moved == ResidentSteps::Moved::yes;
}

}  // namespace privgrad::core
