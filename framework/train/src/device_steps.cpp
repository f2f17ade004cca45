#include "device_steps.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/step_rule.hpp"

namespace privgrad::core {
namespace {

/// The vectors of an optimizer's state, between its numbers before and after them.
struct StateVectors {
  explicit StateVectors(const StepState& state)
      : kind(dynamic_cast<const StepsByRule&>(*state.made.optimizer).kind()),
        count(state_vectors(kind)),
        size(state.plan.parameters),
        shared(dynamic_cast<const Coordinatewise&>(*state.made.optimizer).shared_state()) {}

  std::size_t length() const { return shared.before + count * size + shared.after; }
  template <class Number>
  std::span<Number> of(std::span<Number> state, std::size_t vector) const {
    return state.subspan(shared.before + vector * size, size);
  }

  StepRule::Kind kind;
  std::size_t count, size;
  Coordinatewise::Shared shared;
};

std::span<const float> optimizer_state(const StepState& state) {
  return dynamic_cast<const Checkpointable&>(*state.made.optimizer).state();
}

}  // namespace

bool DeviceSteps::can_make(const StepState& state, Program& program) {
  if (!why_not(Engine::device, state.plan).empty()) return false;
  const Optimizer* optimizer = state.made.optimizer.get();
  return state.leader == nullptr && !state.witness &&
         dynamic_cast<const StepsByRule*>(optimizer) != nullptr &&
         dynamic_cast<const Coordinatewise*>(optimizer) != nullptr &&
         dynamic_cast<const Checkpointable*>(optimizer) != nullptr &&
         ResidentRun::ability(program) != nullptr;
}

DeviceSteps::DeviceSteps(StepState& state, Workbench& bench, const RandomKey& key)
    : StepEngine(state),
      run_(*bench.program, StateVectors(state).kind, key, state.program, state.executor) {
  const StateVectors vectors(state);
  const std::span<const float> numbers = optimizer_state(state);
  if (numbers.size() != vectors.length()) {
    throw PluginError(state.manifest.optimizer.component->full_name() + ": has a state of " +
                      std::to_string(numbers.size()) + " numbers, expected " +
                      std::to_string(vectors.count) + " for each parameter and " +
                      std::to_string(vectors.shared.before + vectors.shared.after) + " more");
  }
  in_run_of(state.program, [&] {
    for (std::size_t i = 0; i < vectors.count; ++i) run_.put_state(i, vectors.of(numbers, i));
  });
}

bool DeviceSteps::take(const DrawnStep& drawn, Workbench& bench) {
  const Clip clip = state_.clip_of_step(drawn.step);
  std::optional<ContributionCheck> check =
      state_.contribution_checks.draw(drawn.step, drawn.batch.size());
  state_.in_program([&] {
    ResidentSum sum =
        run_.sum(drawn.step, {state_.data, drawn.batch, clip, state_.manifest.microbatch_size},
                 bench.memory, check ? &*check : nullptr);
    // The receipt's charge is on the disk: before that there is no key to hand over.
    const PaidNoise noise = state_.mechanism.pay_for_noise(clip.clip_norm, state_.receipts.take(),
                                                           state_.plan.batch_size[drawn.step]);
    run_.release(std::move(sum), noise);
    state_.gradient_noise = noise.stddev();
  });
  if (check) state_.contribution_checks.add(*check);
  StepRule rule;
  const std::string optimizer = state_.manifest.optimizer.component->full_name();
  in_run_of(optimizer, [&] {
    rule = dynamic_cast<StepsByRule&>(*state_.made.optimizer)
               .next_rule(
                   {.step = drawn.step, .learning_rate = state_.plan.learning_rate[drawn.step]});
  });
  ResidentSteps::Moved moved = ResidentSteps::Moved::yes;
  in_run_of(state_.program, [&] { moved = run_.update(rule); });
  if (moved == ResidentSteps::Moved::gradient_not_finite)
    in_run_of(optimizer, [&] { throw NumericError(optimizer + ": the gradient is not finite"); });
  return moved == ResidentSteps::Moved::yes;
}

void DeviceSteps::bring_home(Workbench& bench) {
  if (run_.is_ahead()) in_run_of(state_.program, [&] { run_.bring_parameters(bench.parameters); });
}

void DeviceSteps::save_optimizer(StateWriter& out) const {
  out.word(1);
  out.array(whole_state());
}

/// The optimizer's state, with the vectors as the program has them.
std::vector<float> DeviceSteps::whole_state() const {
  const StateVectors vectors(state_);
  const std::span<const float> own = optimizer_state(state_);
  std::vector<float> state(own.begin(), own.end());
  in_run_of(state_.program, [&] {
    for (std::size_t i = 0; i < vectors.count; ++i)
      run_.bring_state(i, vectors.of(std::span(state), i));
  });
  return state;
}

}  // namespace privgrad::core
