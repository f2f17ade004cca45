#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../coins.hpp"
#include "../epochs.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

/// Row i takes part only in the steps i mod cycle, i mod cycle + cycle, ..., in each of them with a
/// separate coin (Choquette-Choo et al. 2023, Algorithm 2). With N rows and batches of B rows on
/// average, the coins have probability B cycle / N: a row is drawn as often as with poisson, and
/// its steps are at least `cycle` apart, as matrices C with `cycle` bands require.
///
/// Accounting: the row in which neighbours differ can be in only one of a cycle's steps, the same
/// step for both, because neighbours have the same row numbers (hence not under add_or_remove_one).
/// Given the other rows' coins, the releases of all other steps in the cycle depend on that row
/// only through earlier releases. So a cycle costs one Poisson-sampled release. The charge, made at
/// the cycle's first step, is for the most expensive release of the cycle, whatever i mod cycle is.
class CyclicPoisson final : public Sampler {
 public:
  explicit CyclicPoisson(const Params& params)
      : batch_size_(params.real("batch_size")),
        cycle_(static_cast<std::uint64_t>(params.integer("cycle"))) {}

  void start(const SamplingPlan& plan) override {
    const double rate =
        batch_size_ * static_cast<double>(cycle_) / static_cast<double>(plan.dataset_size);
    if (!(rate <= 1.0)) {
      throw ConfigError("cyclic_poisson: batch_size is " + format_number(batch_size_) +
                        ", but of " + std::to_string(plan.dataset_size) + " examples " +
                        std::to_string(plan.dataset_size / cycle_) +
                        " may be in a step of a cycle of " + std::to_string(cycle_) +
                        "; give smaller batches or a shorter cycle");
    }
    if (plan.steps < cycle_) {
      throw ConfigError("cyclic_poisson: cycle is " + std::to_string(cycle_) +
                        ", allowed are at most the " + std::to_string(plan.steps) +
                        " steps of the run");
    }
    plan_ = plan;
    rate_ = rate;
  }

  double expected_batch_size(std::uint64_t) const override { return batch_size_; }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    epochs::refuse_add_or_remove("cyclic_poisson", plan_);
    std::vector<Event> charged = epochs::charges("cyclic_poisson", cycle_, releases);
    for (std::size_t first = 0; first < charged.size(); first += cycle_)
      charged[first] = Event::poisson_sampled(rate_, charged[first]);
    return charged;
  }

  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    epochs::check_rows("cyclic_poisson", rows, plan_);
    const std::uint64_t group = step % cycle_;
    const std::size_t size = rows > group ? (rows - group + cycle_ - 1) / cycle_ : 0;
    batch.clear();
    bernoulli_rows(rate_, size, *random.stream(step), [&](std::size_t place) {
      batch.push_back(static_cast<std::uint32_t>(place * cycle_ + group));
    });
  }

 private:
  double batch_size_;
  std::uint64_t cycle_;
  double rate_ = 0.0;  // the probability of each row, in its own steps
  SamplingPlan plan_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Sampler, CyclicPoisson>({
      .name = "cyclic_poisson",
      .summary = "Each example by its own coin, in one step of each cycle; accounted as Poisson "
                 "sampled once a cycle.",
      .reference = "Choquette-Choo et al. 2023, Algorithm 2 and Theorem 4",
      .params = {real("batch_size", "Expected number of examples in a batch.").above(0).example(1),
                 integer("cycle",
                         "Number of steps from a step that may draw an example to the next such "
                         "step. With aggregator matrix, at least its bands.")
                     .at_least(1)
                     .defaults_to(4)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cyclic_poisson", "0.1.0", "sampler/cyclic_poisson", register_components)
