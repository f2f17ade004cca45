#include "host_steps.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "privgrad/model/augmented_program.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/scaled_rows.hpp"

namespace privgrad::core {
namespace {

/// The inputs from which the engines below compute the sums of a step.
struct ClippedStep {
  const DrawnStep& drawn;
  const Clip& clip;
  const Program& program;  ///< Computes the gradients to be summed.
  Workbench& bench;
  ContributionCheck* check;  ///< Null if no contribution is checked.
  double divisor;
};

/// The common part of all steps in this process.
class HostSteps : public StepEngine {
 public:
  using StepEngine::StepEngine;

  bool take(const DrawnStep& drawn, Workbench& bench) final {
    const Clip clip = state_.clip_of_step(drawn.step);
    std::vector<Released> own = release(drawn, clip, bench);
    const std::span<const Released> released = led_by(state_.leader,
                                                      {.what = ReleaseSeen::What::gradient,
                                                       .client = state_.client,
                                                       .step = drawn.step,
                                                       .batch = drawn.batch,
                                                       .model = bench.parameters,
                                                       .reached = {},
                                                       .clip_norm = clip.clip_norm},
                                                      own);
    const std::optional<Released> made = gradient_of(drawn.step, clip, released);
    const Released& gradient = made ? *made : released.front();
    state_.gradient_noise = gradient.noise_stddev();
    if (state_.witness) {
      state_.witness({.step = drawn.step,
                      .batch = drawn.batch,
                      .gradient = gradient,
                      .clip_norm = state_.clip_norm});
    }
    bench.previous = bench.parameters;
    state_.update(bench.parameters, gradient, drawn.step);
    return bench.keep_if_finite();
  }

 protected:
  /// Sums up and releases. All later code depends on the rows only through the returned releases.
  virtual std::vector<Released> release_sums(const ClippedStep& now) = 0;
  virtual std::optional<Released> gradient_of(std::uint64_t, const Clip& clip,
                                              std::span<const Released> released) {
    return state_.gradient_of(clip, released.front());
  }

  /// Checks the drawn examples, for sums that have no check of their own.
  void look(const ClippedStep& now) const {
    if (now.check != nullptr) check_row(now.program, state_.data, now.drawn.batch, *now.check);
  }

 private:
  std::vector<Released> release(const DrawnStep& drawn, const Clip& clip, Workbench& bench) {
    const bool is_charged = state_.receipts.are_expected();
    if (!is_charged && state_.plan.noise_multiplier[drawn.step] != 0.0)
      throw PrivacyError("a step with noise needs a ledger, and none was opened");
    // A client's update cannot be recomputed, hence no spot check.
    std::optional<ContributionCheck> check;
    if (is_charged && state_.plan.unit == PrivacyUnit::example)
      check = state_.contribution_checks.draw(drawn.step, drawn.batch.size());
    std::unique_ptr<Program> scaled;
    std::vector<Released> released;
    const AugmentedStep augmented(*bench.program, state_.augmentation_key, drawn.step);
    state_.in_program([&] {
      if (state_.made.scaling != nullptr) {
        state_.copy_scaling();
        scaled = scaled_rows(*bench.program, {state_.shift, state_.scale});
      }
      released = release_sums({.drawn = drawn,
                               .clip = clip,
                               .program = scaled ? *scaled : *bench.program,
                               .bench = bench,
                               .check = check ? &*check : nullptr,
                               .divisor = state_.plan.batch_size[drawn.step]});
    });
    if (check) state_.contribution_checks.add(*check);
    return released;
  }
};

std::vector<Released> one(Released released) {
  std::vector<Released> all;
  all.push_back(std::move(released));
  return all;
}

class ExactSteps final : public HostSteps {
  using HostSteps::HostSteps;
  std::vector<Released> release_sums(const ClippedStep& now) override {
    const std::size_t most_rows = state_.manifest.microbatch_size;
    SumMemory& memory = now.bench.memory;
    // A correlated mechanism keeps whole sums from step to step, so they are not deferred.
    return one(state_.release(
        state_.correlated
            ? exact_sum(now.program, state_.data, now.drawn.batch, now.clip, state_.executor,
                        most_rows, &memory, state_.plan.unit, now.check)
            : deferred_exact_sum(now.program, state_.data, now.drawn.batch, now.clip,
                                 state_.executor, most_rows, memory, state_.plan.unit, now.check),
        now.divisor));
  }
};

class FloatingSteps final : public HostSteps {
  using HostSteps::HostSteps;
  std::vector<Released> release_sums(const ClippedStep& now) override {
    look(now);
    return one(state_.release(clipped_sum(now.program, state_.data, now.drawn.batch, now.clip,
                                          state_.executor, state_.plan.unit),
                              now.divisor));
  }
};

class NoiselessSteps final : public HostSteps {
  using HostSteps::HostSteps;
  std::vector<Released> release_sums(const ClippedStep& now) override {
    return one(state_.release_without_noise(
        state_.plan.arithmetic == Arithmetic::floating
            ? clipped_sum(now.program, state_.data, now.drawn.batch, now.clip, state_.executor,
                          state_.plan.unit)
            : sum_for_no_noise(now.program, state_.data, now.drawn.batch, now.clip, state_.executor,
                               state_.manifest.microbatch_size, &now.bench.memory,
                               state_.plan.unit),
        now.divisor));
  }
};

class DifferenceSteps final : public HostSteps {
  using HostSteps::HostSteps;
  std::vector<Released> release_sums(const ClippedStep& now) override {
    look(now);
    const GradientDifferences::Step step{
        now.drawn.step, now.bench.parameters,   now.program, state_.data, now.drawn.batch,
        now.clip,       now.bench.class_weights};
    CorrelatedMechanism& mechanism = *state_.correlated;
    if (state_.manifest.noise_off)
      return mechanism.release_without_noise(state_.differences->sums(step), now.divisor);
    if (state_.plan.arithmetic == Arithmetic::exact) {
      return mechanism.release(state_.differences->exact_sums(step), state_.receipts.take(),
                               now.divisor);
    }
    return mechanism.release(state_.differences->sums(step), state_.receipts.take(), now.divisor);
  }

  std::optional<Released> gradient_of(std::uint64_t step, const Clip& clip,
                                      std::span<const Released> released) override {
    return state_.combined_gradient(step, clip, released);
  }
};

}  // namespace

std::unique_ptr<StepEngine> make_host_steps(StepState& state) {
  const Plan& plan = state.plan;
  if (state.differences) return std::make_unique<DifferenceSteps>(state);
  if (plan.manifest->noise_off) return std::make_unique<NoiselessSteps>(state);
  if (plan.arithmetic == Arithmetic::exact) return std::make_unique<ExactSteps>(state);
  return std::make_unique<FloatingSteps>(state);
}

}  // namespace privgrad::core
