#include "device_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/engines.hpp"

namespace privgrad::core {
namespace {

/// The vectors of an optimizer's state, in their order.
std::vector<std::vector<float>*> vectors_of(Optimizer& optimizer) {
  std::vector<std::vector<float>*> vectors;
  for (const StateMember& member : optimizer.state()) {
    if (const auto* numbers = std::get_if<std::vector<float>*>(&member.value))
      vectors.push_back(*numbers);
  }
  return vectors;
}

}  // namespace

bool DeviceSteps::can_make(const StepState& state, Program& program) {
  if (!why_not(Engine::device, state.plan).empty()) return false;
  const Optimizer* optimizer = state.made.optimizer.get();
  return state.leader == nullptr && !state.witness && optimizer->rule() &&
         optimizer->is_coordinatewise() && ResidentRun::ability(program) != nullptr &&
         ResidentRun::ability(*state.made.clipping) != nullptr;
}

DeviceSteps::DeviceSteps(StepState& state, Workbench& bench, const RandomKey& key)
    : StepEngine(state),
      run_(*bench.program, state.data, state.made.optimizer->rule().value(), key, state.program,
           state.executor) {
  const auto vectors = vectors_of(*state.made.optimizer);
  const std::size_t wanted = state_vectors(state.made.optimizer->rule().value());
  const bool fits = vectors.size() == wanted && std::ranges::all_of(vectors, [&](const auto* one) {
                      return one->size() == state.plan.parameters;
                    });
  if (!fits) {
    throw PluginError(state.manifest.optimizer.component->full_name() +
                      ": its state has other vectors than " + std::to_string(wanted) +
                      " of a number for each parameter");
  }
  in_run_of(state.program, [&] {
    for (std::size_t i = 0; i < vectors.size(); ++i) run_.put_state(i, *vectors[i]);
  });
}

bool DeviceSteps::take(const DrawnStep& drawn, Workbench& bench) {
  const Clip clip = state_.clip_of_step(drawn.step);
  std::optional<ContributionCheck> check =
      state_.contribution_checks.draw(drawn.step, drawn.batch.size());
  std::optional<ResidentSum> sum;
  std::optional<PaidNoise> noise;
  state_.in_program([&] {
    sum = run_.sum(drawn.step, {drawn.batch, clip, state_.manifest.microbatch_size}, bench.memory,
                   check ? &*check : nullptr);
    // The receipt shows that the charge is on the disk; without a receipt there is no noise key.
    noise = state_.mechanism.pay_for_noise(clip.clip_norm, state_.receipts.take(),
                                           state_.plan.batch_size[drawn.step]);
    state_.gradient_noise = noise->stddev();
  });
  if (check) state_.contribution_checks.add(*check);
  StepRule rule;
  const std::string optimizer = state_.manifest.optimizer.component->full_name();
  in_run_of(optimizer, [&] {
    rule = state_.made.optimizer->next_rule(
        {.step = drawn.step, .learning_rate = state_.plan.learning_rate[drawn.step]});
  });
  ResidentSteps::Moved moved = ResidentSteps::Moved::yes;
  in_run_of(state_.program, [&] { moved = run_.move(std::move(*sum), *noise, rule); });
  if (moved == ResidentSteps::Moved::gradient_not_finite)
    in_run_of(optimizer, [&] { throw NumericError(optimizer + ": the gradient is not finite"); });
  return moved == ResidentSteps::Moved::yes;
}

void DeviceSteps::bring_home(Workbench& bench) {
  if (run_.is_ahead()) in_run_of(state_.program, [&] { run_.bring_parameters(bench.parameters); });
}

/// Saves the vectors that the program holds.
void DeviceSteps::save_optimizer(StateWriter& out) const {
  const auto vectors = vectors_of(*state_.made.optimizer);
  in_run_of(state_.program, [&] {
    for (std::size_t i = 0; i < vectors.size(); ++i) run_.bring_state(i, *vectors[i]);
  });
  StepEngine::save_optimizer(out);
}

}  // namespace privgrad::core
