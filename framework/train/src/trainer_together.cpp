#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data/breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/shared_sum.hpp"

// The steps that several processes make together. Process 0 pays, draws the batch and gives the
// order; from there on all do the same: each sums its share of the batch, gets its slice of the sum
// of all, noises it, and moves its slice of the parameters.

namespace privgrad::core {
namespace {

/// Whether the checked example is in a process's share, and where.
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

/// The results of a step made together that every process keeps.
struct Trainer::Together {
  /// At process 0, where the optimizer needs whole gradients: the releases.
  std::vector<Released> whole;
  double noise_stddev = 0.0;
  double unclipped = 0.0;      // as released, where the clip norm adapts
  bool check_differs = false;  // in the process that has the example
};

bool Trainer::takes_slices() const {
  return processes_ != nullptr && !differences_ &&
         dynamic_cast<const Coordinatewise*>(made_.optimizer.get()) != nullptr;
}

bool Trainer::take_step_together(std::uint64_t step, Workbench& bench) {
  draw_batch(step);
  // Sums have no order. A process with a part of an ordered batch looks at a part of the rows.
  std::sort(batch_.begin(), batch_.end());
  const Clip clip = clip_of_step(step);
  std::optional<ContributionCheck> check = contribution_checks_.draw(step, batch_.size());
  const StepOrder order = order_of_step(step, clip, check ? &*check : nullptr);
  processes_->ask_for(order, bench.parameters);
  bench.previous = bench.parameters;
  Together made = make_slice(order, bench, check ? &*check : nullptr);
  if (check) {
    check->differs = made.check_differs;
    contribution_checks_.add(*check);
  }
  gradient_noise_ = made.noise_stddev;
  if (plan_.clip_norm_adapts()) {
    clipped_fraction_ = 1.0 - made.unclipped;
    adapt_clip_norm(made.unclipped);
  }
  if (!made.whole.empty()) {
    const std::optional<Released> combined =
        differences_ ? gradient_of(step, clip, made.whole) : std::nullopt;
    const Released& gradient = combined ? *combined : made.whole.front();
    gradient_noise_ = gradient.noise_stddev();
    update(bench.parameters, gradient, step);
  }
  const bool finite = all_finite(bench.parameters);
  if (!finite) bench.parameters = bench.previous;
  bench.program->load_parameters(bench.parameters);
  return finite;
}

void Trainer::take_part(const StepOrder& order, Workbench& bench) {
  if (correlated_) {
    // Process 0 has the receipt, and gives no second one for the step.
    correlated_->use_secret_key(order.noise);
    take_over(order.step, 1);
  }
  std::optional<ContributionCheck> check;
  const std::string program = program_owner(manifest_, *plan_.setting);
  const std::string clipping = manifest_.clipping.component->full_name();
  if (order.checked < order.batch.size())
    check = ContributionCheck{.place = order.checked,
                              .others = order.checked_others,
                              .is_of_all = order.all_are_checked,
                              .program = program,
                              .clipping = clipping};
  make_slice(order, bench, check ? &*check : nullptr);
  if (takes_slices()) bench.program->load_parameters(bench.parameters);
}

/// From here on the step is paid for, and its noise is chosen.
StepOrder Trainer::order_of_step(std::uint64_t step, const Clip& clip,
                                 const ContributionCheck* check) {
  const auto augmentation = augmentation_key_.secret_bytes();
  StepOrder order{.step = step,
                  .batch = batch_,
                  .clip_norm = clip.clip_norm,
                  .count_share = clip.count_share,
                  .checked = check == nullptr ? batch_.size() : check->place,
                  .checked_others = check == nullptr ? std::vector<std::uint64_t>() : check->others,
                  .all_are_checked = check != nullptr && check->is_of_all,
                  .augmentation_key = {augmentation.begin(), augmentation.end()},
                  .noise = {}};
  if (correlated_) {
    if (receipts_.empty()) throw PrivacyError("a step is about to be made that nobody paid for");
    order.noise = correlated_->secret_key();
  } else {
    order.noise = mechanism_
                      .pay_for_noise(clip.clip_norm, manifest_.adjacency, take_receipt(),
                                     plan_.batch_size[step])
                      .secret_text();
  }
  return order;
}

/// \param check  with the example's place in the whole batch.
Trainer::Together Trainer::make_slice(const StepOrder& order, Workbench& bench,
                                      ContributionCheck* check) {
  const Cluster& cluster = processes_->cluster();
  const auto share = share_of(order.batch, data_.rows(), cluster.rank(), cluster.size());
  std::optional<ContributionCheck> own;
  const auto place = place_in_share(order.batch, share, order.checked);
  if (check != nullptr && place) {
    own = *check;
    own->place = *place;
  }
  std::vector<BoundedOnGrid> sums = slices_of_sums(order, share, bench, own ? &*own : nullptr);
  Together made;
  made.check_differs = check != nullptr && any_differs(own && own->differs);
  std::vector<Released> released = release_slices(std::move(sums), order);
  made.noise_stddev = released.front().noise_stddev();
  if (plan_.clip_norm_adapts()) released.front() = without_count(order, released.front(), made);
  if (!takes_slices()) {
    for (const Released& slice : released) {
      if (auto whole =
              put_together(slice, processes_->slices().parameter_ends(), processes_->cluster()))
        made.whole.push_back(std::move(*whole));
    }
    return made;
  }
  const Slice slice = processes_->parameters();
  if (slice.size > 0) {
    update(std::span(bench.parameters).subspan(slice.first, slice.size), released.front(),
           order.step);
  }
  processes_->exchange(bench.parameters);
  return made;
}

/// This process's slices of the sums over all processes.
std::vector<BoundedOnGrid> Trainer::slices_of_sums(const StepOrder& order,
                                                   std::span<const std::uint32_t> share,
                                                   Workbench& bench, ContributionCheck* check) {
  const Clip clip{.rule = *made_.clipping,
                  .groups = plan_.setting->groups,
                  .clip_norm = order.clip_norm,
                  .count_share = order.count_share};
  const AugmentedStep augmented(*bench.program, key_from(order.augmentation_key), order.step);
  std::vector<BoundedOnGrid> sums;
  in_run_of(
      program_owner(manifest_, *plan_.setting) + " or " + manifest_.clipping.component->full_name(),
      [&] {
        std::vector<BoundedOnGrid> shares;
        if (differences_) {
          if (check != nullptr) check_row(*bench.program, data_, share, *check);
          shares = differences_->exact_sums(
              {order.step, bench.parameters, *bench.program, data_, share, clip});
        } else {
          shares.push_back(exact_sum_to_come(*bench.program, data_, share, clip, executor_,
                                             manifest_.microbatch_size, bench.memory, plan_.unit,
                                             check));
        }
        for (BoundedOnGrid& one : shares) {
          sums.push_back(add_shares(std::move(one), order.batch.size(), processes_->slices(),
                                    processes_->cluster(), executor_));
        }
      });
  return sums;
}

/// Whether the process that looked at an example has seen a difference.
bool Trainer::any_differs(bool mine) const {
  const std::vector<double> all = processes_->all(mine ? 1.0 : 0.0);
  return std::any_of(all.begin(), all.end(), [](double differs) { return differs != 0.0; });
}

std::vector<Released> Trainer::release_slices(std::vector<BoundedOnGrid> slices,
                                              const StepOrder& order) {
  const double divisor = plan_.batch_size[order.step];
  if (correlated_) return correlated_->release(std::move(slices), take_receipt(), divisor);
  const std::size_t first = processes_->slices().of(processes_->cluster().rank()).first;
  std::vector<Released> released;
  released.push_back(
      PaidNoise::of(order.noise).release(std::move(slices.front()), first, executor_));
  return released;
}

/// The gradient's part of a slice. The count follows the last slice, and all processes get it.
Released Trainer::without_count(const StepOrder& order, const Released& slice,
                                Together& made) const {
  const std::size_t last = processes_->cluster().size() - 1;
  if (processes_->cluster().rank() != last) {
    made.unclipped = processes_->all(0.0)[last];
    return gradients_of(slice, order.count_share);
  }
  JointParts parts = take_apart(slice, order.clip_norm, order.count_share);
  made.unclipped = processes_->all(parts.unclipped)[last];
  return std::move(parts.gradients);
}

// ---- the optimizer's state

std::vector<float> Trainer::whole_state(std::span<const float> own) const {
  const auto shared = dynamic_cast<const Coordinatewise&>(*made_.optimizer).shared_state();
  const Slice slice = processes_->parameters();
  const std::size_t size = std::max<std::size_t>(1, slice.size);  // as it was started
  const auto put_together = processes_->whole();
  std::vector<float> whole(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(shared.before));
  const std::size_t vectors = (own.size() - shared.before - shared.after) / size;
  for (std::size_t i = 0; i < vectors; ++i) {
    const auto vector = own.subspan(shared.before + i * size, slice.size);
    const std::vector<std::byte> bytes = put_together(std::as_bytes(vector), sizeof(float));
    const std::size_t begin = whole.size();
    whole.resize(begin + slice.of);
    std::memcpy(whole.data() + begin, bytes.data(), bytes.size());
  }
  whole.insert(whole.end(), own.end() - static_cast<std::ptrdiff_t>(shared.after), own.end());
  return whole;
}

std::vector<float> Trainer::state_of_slice(std::span<const float> whole) const {
  const auto shared = dynamic_cast<const Coordinatewise&>(*made_.optimizer).shared_state();
  const Slice slice = processes_->parameters();
  const std::size_t size = std::max<std::size_t>(1, slice.size);
  const std::size_t vectors =
      (whole.size() - std::min(whole.size(), shared.before + shared.after)) / slice.of;
  if (whole.size() != shared.before + vectors * slice.of + shared.after)
    throw ConfigError("its vectors are of another length");
  std::vector<float> own(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(shared.before));
  for (std::size_t i = 0; i < vectors; ++i) {
    const auto vector = whole.subspan(shared.before + i * slice.of, slice.of);
    const auto part = vector.subspan(std::min(slice.first, slice.of - size), size);
    own.insert(own.end(), part.begin(), part.end());
  }
  own.insert(own.end(), whole.end() - static_cast<std::ptrdiff_t>(shared.after), whole.end());
  return own;
}

}  // namespace privgrad::core
