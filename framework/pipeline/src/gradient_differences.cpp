#include "privgrad/pipeline/gradient_differences.hpp"

#include <utility>

#include "privgrad/pipeline/trainer.hpp"

namespace privgrad::core {

GradientDifferences::GradientDifferences(const Plan& plan, UsesGradientDifferences& rule,
                                         Executor& executor)
    : plan_(plan),
      rule_(rule),
      executor_(executor),
      anchor_(make_program(plan, backend_, executor)),
      last_anchor_(make_program(plan, backend_, executor)) {
  if (!plan.manifest->noise_off) combined_noise_ = rule.combined_noise();
}

std::vector<Bounded> GradientDifferences::sums(std::uint64_t step,
                                               std::span<const float> parameters,
                                               const Program& program, const Dataset& data,
                                               std::span<const std::uint32_t> batch,
                                               const Clip& clip) {
  const std::uint64_t epoch = rule_.epoch_steps();
  const bool is_anchor = step % epoch == 0;
  if (is_anchor) {
    std::swap(anchor_, last_anchor_);
    anchor_->load_parameters(parameters);
  }
  const std::span<const CorrelatedPart> parts = plan_.correlated->parts;
  // As it was planned: what the aggregator says now decides about anchors, not about bounds.
  const bool has_last = parts.size() > 2 && step >= parts[2].first_step;
  return anchored_sums(
      {.anchor = *anchor_,
       .current = is_anchor ? nullptr : &program,
       .last_anchor = has_last ? last_anchor_.get() : nullptr},
      data, batch, clip,
      {.since_anchor = parts[1].bound(step) * clip.clip_norm,
       .between_anchors =
           has_last ? parts[2].bound(step - parts[2].first_step) * clip.clip_norm : 0.0},
      executor_);
}

Released GradientDifferences::combine(std::uint64_t step, std::span<const Released> parts,
                                      double clip_norm, double divisor, bool noised) {
  const double stddev = noised ? combined_noise_[step] * clip_norm / divisor : 0.0;
  return combined(rule_, step, parts, stddev);
}

}  // namespace privgrad::core
