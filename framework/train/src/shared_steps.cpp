#include "shared_steps.hpp"

#include <algorithm>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/shared_sum.hpp"
#include "saved_component.hpp"

namespace privgrad::core {
namespace {

/// The checked example's place in a process's share, if it is there.
std::optional<std::size_t> place_in_share(std::span<const std::uint32_t> batch,
                                          std::span<const std::uint32_t> share,
                                          std::uint64_t checked) {
  if (checked >= batch.size()) return std::nullopt;
  const auto begin = static_cast<std::size_t>(share.data() - batch.data());
  if (checked < begin || checked >= begin + share.size()) return std::nullopt;
  return checked - begin;
}

RandomKey key_from(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != 32) throw IoError("process 0 asked for a step without a key");
  return RandomKey::from_secret_bytes(std::span<const std::uint8_t, 32>(bytes.data(), 32));
}

}  // namespace

SharedSteps::SharedSteps(StepState& state, ProcessGroup& processes)
    : StepEngine(state), processes_(processes) {}

/// Whether each process updates only its slice of the parameters: if the optimizer is
/// coordinatewise, and the aggregator uses no differences of gradients.
bool SharedSteps::takes_slices() const {
  return !state_.differences && state_.made.optimizer->is_coordinatewise();
}

std::size_t SharedSteps::optimizer_size() const {
  return takes_slices() ? std::max<std::size_t>(1, processes_.parameters().size)
                        : state_.plan.parameters;
}

bool SharedSteps::take(const DrawnStep& drawn, Workbench& bench) {
  // The order of a batch does not affect sums. With a share of a sorted batch, a process reads only
  // a part of the rows.
  std::vector<std::uint32_t> batch(drawn.batch.begin(), drawn.batch.end());
  std::ranges::sort(batch);
  const Clip clip = state_.clip_of_step(drawn.step);
  std::optional<ContributionCheck> check =
      state_.contribution_checks.draw(drawn.step, batch.size());
  const StepOrder order = order_of({drawn.step, batch}, clip, check ? &*check : nullptr);
  processes_.ask_for(order, bench.parameters);
  bench.previous = bench.parameters;
  Made made = make_slice(order, bench, check ? &*check : nullptr);
  if (check) {
    check->differs = made.check_differs;
    state_.contribution_checks.add(*check);
  }
  state_.gradient_noise = made.noise_stddev;
  if (state_.plan.releases_count()) state_.adapt_clip_norm(made.unclipped);
  if (!made.whole.empty()) {
    std::optional<Released> combined;
    if (state_.differences)
      combined.emplace(state_.combined_gradient(drawn.step, clip, made.whole));
    const Released& gradient = combined ? *combined : made.whole.front();
    state_.gradient_noise = gradient.noise_stddev();
    state_.update(bench.parameters, gradient, drawn.step);
  }
  return bench.keep_if_finite();
}

void SharedSteps::take_part(const StepOrder& order, Workbench& bench) {
  // Process 0 has paid for the step, and sends the noise key with the order.
  if (state_.correlated) state_.correlated->use_secret_key(order.noise);
  std::optional<ContributionCheck> check;
  if (order.checked < order.batch.size())
    check = ContributionCheck{.place = order.checked,
                              .others = order.checked_others,
                              .is_of_all = order.all_are_checked,
                              .program = state_.program,
                              .clipping = state_.clipping};
  make_slice(order, bench, check ? &*check : nullptr);
  if (takes_slices()) bench.program->load_parameters(bench.parameters);
}

/// Makes the order of a step. From here on the step is paid for, and its noise is fixed.
StepOrder SharedSteps::order_of(const DrawnStep& drawn, const Clip& clip,
                                const ContributionCheck* check) {
  const auto augmentation = state_.augmentation_key.secret_bytes();
  StepOrder order{.step = drawn.step,
                  .batch = {drawn.batch.begin(), drawn.batch.end()},
                  .clip_norm = clip.clip_norm,
                  .count_share = clip.count_share,
                  .checked = check == nullptr ? drawn.batch.size() : check->place,
                  .checked_others = check == nullptr ? std::vector<std::uint64_t>() : check->others,
                  .all_are_checked = check != nullptr && check->is_of_all,
                  .augmentation_key = {augmentation.begin(), augmentation.end()},
                  .noise = {}};
  if (state_.correlated) {
    state_.receipts.need_one();
    order.noise = state_.correlated->secret_key();
  } else {
    order.noise = state_.mechanism
                      .pay_for_noise(clip.clip_norm, state_.receipts.take(),
                                     state_.plan.batch_size[drawn.step])
                      .secret_text();
  }
  return order;
}

/// \param check  contains the example's place in the whole batch.
SharedSteps::Made SharedSteps::make_slice(const StepOrder& order, Workbench& bench,
                                          ContributionCheck* check) {
  const Cluster& cluster = processes_.cluster();
  const auto share = share_of(order.batch, state_.data.rows(), cluster.rank(), cluster.size());
  std::optional<ContributionCheck> own;
  const auto place = place_in_share(order.batch, share, order.checked);
  if (check != nullptr && place) {
    own = *check;
    own->place = *place;
  }
  std::vector<BoundedOnGrid> sums = slices_of_sums(order, share, bench, own ? &*own : nullptr);
  Made made;
  made.check_differs = check != nullptr && any_differs(own && own->differs);
  std::vector<Released> released = release_slices(std::move(sums), order);
  made.noise_stddev = released.front().noise_stddev();
  if (state_.plan.releases_count()) released.front() = without_count(order, released.front(), made);
  if (!takes_slices()) {
    for (const Released& slice : released) {
      if (auto whole =
              put_together(slice, processes_.slices().parameter_ends(), processes_.cluster()))
        made.whole.push_back(std::move(*whole));
    }
    return made;
  }
  const Slice slice = processes_.parameters();
  if (slice.size > 0) {
    state_.update(std::span(bench.parameters).subspan(slice.first, slice.size), released.front(),
                  order.step);
  }
  processes_.exchange(bench.parameters);
  return made;
}

/// This process's slices of the sums over all processes.
std::vector<BoundedOnGrid> SharedSteps::slices_of_sums(const StepOrder& order,
                                                       std::span<const std::uint32_t> share,
                                                       Workbench& bench, ContributionCheck* check) {
  const Clip clip{.rule = *state_.made.clipping,
                  .groups = state_.plan.setting->groups,
                  .clip_norm = order.clip_norm,
                  .count_share = order.count_share};
  const AugmentedStep augmented(*bench.program, key_from(order.augmentation_key), order.step);
  std::vector<BoundedOnGrid> sums;
  state_.in_program([&] {
    std::vector<BoundedOnGrid> shares;
    if (state_.differences) {
      if (check != nullptr) check_row(*bench.program, state_.data, share, *check);
      shares = state_.differences->exact_sums({order.step, bench.parameters, *bench.program,
                                               state_.data, share, clip, bench.class_weights});
    } else {
      shares.push_back(deferred_exact_sum(*bench.program, state_.data, share, clip, state_.executor,
                                          state_.manifest.microbatch_size, bench.memory,
                                          state_.plan.unit, check));
    }
    for (BoundedOnGrid& one : shares) {
      sums.push_back(add_shares(std::move(one), order.batch.size(), processes_.slices(),
                                processes_.cluster(), state_.executor));
    }
  });
  return sums;
}

bool SharedSteps::any_differs(bool mine) const {
  const std::vector<double> all = processes_.all(mine ? 1.0 : 0.0);
  return std::ranges::any_of(all, [](double differs) { return differs != 0.0; });
}

std::vector<Released> SharedSteps::release_slices(std::vector<BoundedOnGrid> slices,
                                                  const StepOrder& order) {
  const double divisor = state_.plan.batch_size[order.step];
  if (state_.correlated)
    return state_.correlated->release(std::move(slices), state_.receipts.take(), divisor);
  const std::size_t first = processes_.slices().of(processes_.cluster().rank()).first;
  std::vector<Released> released;
  released.push_back(
      PaidNoise::of(order.noise).release(std::move(slices.front()), first, state_.executor));
  return released;
}

/// Returns the slice without the count. The count follows the last slice, and is sent to all
/// processes.
Released SharedSteps::without_count(const StepOrder& order, const Released& slice,
                                    Made& made) const {
  const std::size_t last = processes_.cluster().size() - 1;
  if (processes_.cluster().rank() != last) {
    made.unclipped = processes_.all(0.0)[last];
    return gradients_of(slice, order.count_share);
  }
  JointParts parts = take_apart(slice, order.clip_norm, order.count_share);
  made.unclipped = processes_.all(parts.unclipped)[last];
  return std::move(parts.gradients);
}

// ---- the state

void SharedSteps::begin_saving(StateWriter& out) const {
  // Each process has a slice of the state, so all of them save it together.
  if (processes_.cluster().rank() == 0) processes_.ask_for_state();
  out.put_together_by(processes_.whole());
}

std::optional<Slice> SharedSteps::slice_of_optimizer() const {
  return takes_slices() ? std::optional(processes_.parameters()) : std::nullopt;
}

void SharedSteps::save_optimizer(StateWriter& out) const {
  save_component(out, *state_.made.optimizer, slice_of_optimizer());
}

void SharedSteps::restore_optimizer(StateReader& in) {
  restore_component(in, *state_.made.optimizer, slice_of_optimizer());
}

}  // namespace privgrad::core
