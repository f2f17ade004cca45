#include "privgrad/train/gradient_differences.hpp"

#include <utility>

#include "privgrad/train/trainer.hpp"

namespace privgrad::core {

GradientDifferences::GradientDifferences(const Plan& plan, UsesGradientDifferences& rule,
                                         Executor& executor)
    : plan_(plan), rule_(rule), executor_(executor) {
  if (!plan.manifest->noise_off) combined_noise_ = rule.combined_noise();
}

void GradientDifferences::save(StateWriter& out) const {
  out.begin("anchors");
  out.array(at_anchor_);
  out.array(at_last_anchor_);
}

void GradientDifferences::restore(StateReader& in) {
  in.begin("anchors");
  for (auto* values : {&at_anchor_, &at_last_anchor_}) {
    *values = in.array<float>();
    if (!values->empty() && values->size() != plan_.parameters)
      in.fail("an anchor is of another model");
  }
}

GradientDifferences::Prepared GradientDifferences::prepare(const Step& now) {
  for (auto [values, program] :
       {std::pair{&at_anchor_, &anchor_}, std::pair{&at_last_anchor_, &last_anchor_}}) {
    if (*program != nullptr) continue;
    *program = make_program(plan_, backend_, executor_, now.class_weights);
    if (!values->empty()) (*program)->load_parameters(*values);
  }
  const std::uint64_t epoch = rule_.epoch_steps();
  const bool is_anchor = now.step % epoch == 0;
  if (is_anchor) {
    std::swap(anchor_, last_anchor_);
    std::swap(at_anchor_, at_last_anchor_);
    at_anchor_.assign(now.parameters.begin(), now.parameters.end());
    anchor_->load_parameters(now.parameters);
  }
  const std::span<const CorrelatedPart> parts = plan_.correlated->parts;
  // Uses the planned bounds, even if the aggregator now gives other answers about anchors.
  const bool has_last = parts.size() > 2 && now.step >= parts[2].first_step;
  const double unit = now.clip.clip_norm;
  return {
      {.anchor = *anchor_,
       .current = is_anchor ? nullptr : &now.program,
       .last_anchor = has_last ? last_anchor_.get() : nullptr},
      {.since_anchor = parts[1].bound(now.step) * unit,
       .between_anchors = has_last ? parts[2].bound(now.step - parts[2].first_step) * unit : 0.0}};
}

std::vector<Bounded> GradientDifferences::sums(const Step& now) {
  const Prepared prepared = prepare(now);
  return anchored_sums(prepared.iterates, now.data, now.batch, now.clip, prepared.bounds,
                       executor_);
}

std::vector<BoundedOnGrid> GradientDifferences::exact_sums(const Step& now) {
  const Prepared prepared = prepare(now);
  return anchored_exact_sums(prepared.iterates, now.data, now.batch, now.clip, prepared.bounds,
                             executor_);
}

Released GradientDifferences::combine(std::uint64_t step, std::span<const Released> parts,
                                      double clip_norm, double divisor, bool noised) {
  const double stddev = noised ? combined_noise_[step] * clip_norm / divisor : 0.0;
  return combined(rule_, step, parts, stddev);
}

}  // namespace privgrad::core
