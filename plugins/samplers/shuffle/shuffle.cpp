#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "../epochs.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"

namespace {

using namespace privgrad;

/// A fresh permutation per epoch, or one for all epochs, cut into batches: every example is in
/// exactly one batch of each epoch. With N examples and batches of B an epoch has ceil(N/B) steps;
/// the last batch may be smaller, and the divisor stays B.
///
/// Accounting: no amplification is claimed, and shuffled batches are never treated as Poisson. The
/// first step of each epoch is charged with the epoch's most expensive release, the other steps
/// with nothing. Proof (parallel composition): fix the permutations of row numbers, which are drawn
/// without the data and, because N is public, have the same distribution for both neighbours. The
/// row in which neighbours differ is in one batch of the epoch. Given the outputs so far, every
/// other step has the same output distribution for both. The step that contains the row was fixed
/// in advance, so the epoch costs one release, at most the most expensive one. Epochs compose.
/// Mixing over the permutations, with the same weights for both neighbours, raises neither
/// hockey-stick nor Renyi divergences (joint quasi-convexity: van Erven and Harremoes 2014, Theorem
/// 13). Every prefix is covered, because the epoch is charged at its start.
///
/// The sampler is refused under add_or_remove_one: one more row shifts all later batches, so
/// neighbours would differ in each of them.
///
/// For the same reasons the order may be fixed in advance (PublicOrder).
class Shuffle final : public Sampler, public PublicOrder {
 public:
  explicit Shuffle(const Params& params)
      : batch_size_(static_cast<std::uint64_t>(params.integer("batch_size"))),
        fresh_(params.boolean("fresh")) {}

  void start(const SamplingPlan& plan) override {
    epochs::check_sizes("shuffle", batch_size_, plan);
    plan_ = plan;
    epoch_steps_ = (plan.dataset_size + batch_size_ - 1) / batch_size_;
    shuffled_epoch_.reset();
  }

  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(batch_size_);
  }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    epochs::refuse_add_or_remove("shuffle", plan_);
    return epochs::charges("shuffle", epoch_steps_, releases);
  }

  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    epochs::check_rows("shuffle", rows, plan_);
    take(step, random, batch);
  }

  std::uint64_t groups() const override {
    epochs::refuse_add_or_remove("shuffle", plan_);
    return plan_.dataset_size;
  }
  std::uint32_t group_of(std::uint32_t row) const override { return row; }
  void groups_in(std::uint64_t step, const RandomSource& random,
                 std::vector<std::uint32_t>& members) override {
    take(step, random, members);
  }

 private:
  /// Writes the rows of a step.
  void take(std::uint64_t step, const RandomSource& random, std::vector<std::uint32_t>& batch) {
    const std::uint64_t epoch = fresh_ ? step / epoch_steps_ : 0;
    if (shuffled_epoch_ != std::pair{epoch, &random}) shuffle(epoch, random);
    const std::size_t begin = (step % epoch_steps_) * batch_size_;
    const std::size_t end = std::min<std::size_t>(begin + batch_size_, order_.size());
    batch.assign(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                 order_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  /// Shuffles (Fisher and Yates) from the sorted order, so that the permutation depends only on the
  /// epoch, and a resumed run has the same one.
  void shuffle(std::uint64_t epoch, const RandomSource& random) {
    shuffled_epoch_.reset();
    const auto stream = random.stream(epoch);
    order_.resize(plan_.dataset_size);
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    for (std::size_t left = order_.size(); left > 1; --left) {
      std::swap(order_[left - 1], order_[stream->uniform_below(left)]);
    }
    shuffled_epoch_.emplace(epoch, &random);
  }

  std::uint64_t batch_size_;
  bool fresh_;
  SamplingPlan plan_;
  std::uint64_t epoch_steps_ = 1;
  std::vector<std::uint32_t> order_;
  // The epoch and the random source for which order_ was drawn. Each run has its own source, so
  // start() resets this.
  std::optional<std::pair<std::uint64_t, const RandomSource*>> shuffled_epoch_;
};

void register_components(Registrar& registrar) {
  registrar.add<Sampler, Shuffle>({
      .name = "shuffle",
      .summary = "A fresh permutation per epoch; accounted per epoch by its costliest release.",
      .reference = "parallel composition: McSherry 2009, Theorem 4; proof in the source",
      .params = {param::integer("batch_size",
                                "Number of examples in a batch; the last one of an epoch "
                                "may have fewer, the divisor stays.")
                     .at_least(1)
                     .example(1),
                 param::boolean("fresh",
                                "Whether each epoch has a permutation of its own; false: "
                                "the first one's serves for all.")
                     .defaults_to(true)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.shuffle", "0.1.0", "sampler/shuffle", register_components)
