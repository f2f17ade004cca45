#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "../epochs.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"

namespace {

using namespace privgrad;

/// The rows in the order in which they are stored, batch after batch, and then again from the
/// start. With N examples and batches of B an epoch has ceil(N/B) steps; the last batch may be
/// smaller, and the divisor stays B. In a run of one pass, examples may come as a stream.
///
/// Accounting: no amplification. The row in which neighbours differ is in one batch of each epoch,
/// the same for both, so an epoch costs one release (parallel composition), charged at its start.
/// The order is not secret and involves no draw, so it is a PublicOrder; the rows of a batch stay
/// together and form a group. The sampler is refused under add_or_remove_one, because rows would
/// shift.
class Sequential final : public Sampler, public PublicOrder {
 public:
  explicit Sequential(const Params& params)
      : batch_size_(static_cast<std::uint64_t>(params.integer("batch_size"))),
        single_pass_(params.boolean("single_pass")) {}

  void start(const SamplingPlan& plan) override {
    epochs::check_sizes("sequential", batch_size_, plan);
    const std::uint64_t epoch_steps = (plan.dataset_size + batch_size_ - 1) / batch_size_;
    if (single_pass_ && plan.steps > epoch_steps) {
      throw ConfigError("sequential: a single pass has " + std::to_string(epoch_steps) +
                        " steps, but " + std::to_string(plan.steps) + " are planned");
    }
    plan_ = plan;
    epoch_steps_ = epoch_steps;
  }

  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(batch_size_);
  }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    epochs::refuse_add_or_remove("sequential", plan_);
    return epochs::charges("sequential", epoch_steps_, releases);
  }

  void sample(std::uint64_t step, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    epochs::check_rows("sequential", rows, plan_);
    const std::uint64_t begin = step % epoch_steps_ * batch_size_;
    batch.resize(std::min<std::uint64_t>(batch_size_, rows - begin));
    std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(begin));
  }

  std::uint64_t groups() const override {
    epochs::refuse_add_or_remove("sequential", plan_);
    return epoch_steps_;
  }
  std::uint32_t group_of(std::uint32_t row) const override {
    return static_cast<std::uint32_t>(row / batch_size_);
  }
  void groups_in(std::uint64_t step, const RandomSource&,
                 std::vector<std::uint32_t>& members) override {
    members.assign(1, static_cast<std::uint32_t>(step % epoch_steps_));
  }

 private:
  std::uint64_t batch_size_;
  bool single_pass_;
  SamplingPlan plan_;
  std::uint64_t epoch_steps_ = 1;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Sampler, Sequential>({
      .name = "sequential",
      .summary = "The rows in the order in which they are stored, over and over, or once.",
      .reference = "parallel composition: McSherry 2009, Theorem 4; proof in the source",
      .params = {integer("batch_size",
                         "Number of examples in a batch; the last one of an epoch may have fewer, "
                         "the divisor stays.")
                     .at_least(1)
                     .example(1),
                 boolean("single_pass",
                         "true: no example is used twice, and more steps than one pass has are "
                         "refused. false: after the last example comes the first.")
                     .defaults_to(false)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.sequential", "0.1.0", "sampler/sequential", register_components)
