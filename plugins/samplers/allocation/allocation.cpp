#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "../epochs.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/traits.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

/// In each epoch, each example draws one of the t steps, independently and uniformly, and is only
/// in that step's batch.
///
/// A row's draw is a function of only the streams' key, the epoch and the row's number; no draw
/// depends on the number of rows. Rows that are in both of two neighbouring data sets therefore
/// draw the same steps. Batch sizes are Bin(N, 1 / t) and secret; batches are never capped, filled
/// or moved, because one row's step would then depend on others'. The divisor is the declared
/// N / t.
///
/// Accounting: each epoch is charged as a whole at its first step, as
/// random_allocation(t, release), and its other steps cost nothing. The event describes exactly
/// what happens, under each adjacency, because t is a constant of the plan; its cost follows from
/// the accountant's theorem (plugins/accountants/pld/ratio_law.hpp, docs/accounting.md), and an
/// accountant without one refuses the event. The releases of an epoch must be Gaussians, one per
/// step, and known beforehand. If they differ, the smallest noise multiplier is charged for all of
/// them, because adding noise to releases with that multiplier yields the other releases. The
/// releases before the end of an epoch are a part of its releases, so they cost no more. Epochs
/// have independent draws, and compose.
class Allocation final : public Sampler {
 public:
  explicit Allocation(const Params& params)
      : epoch_steps_(static_cast<std::uint64_t>(params.integer("steps_per_epoch"))) {}

  void start(const SamplingPlan& plan) override {
    if (plan.dataset_size == 0) throw ConfigError("allocation: the data set is empty");
    plan_ = plan;
    plan_.batch_sizes = {};
    drawn_.reset();
  }

  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(plan_.dataset_size) / static_cast<double>(epoch_steps_);
  }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged(releases.size(), Event::nothing());
    for (std::size_t begin = 0; begin < releases.size(); begin += epoch_steps_) {
      const std::size_t count = std::min<std::size_t>(epoch_steps_, releases.size() - begin);
      charged[begin] = charge_of_epoch(releases.subspan(begin, count));
    }
    return charged;
  }

  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    if (plan_.adjacency != Adjacency::add_or_remove_one)
      epochs::check_rows("allocation", rows, plan_);
    if (rows > std::numeric_limits<std::uint32_t>::max()) {
      throw ConfigError("allocation: " + std::to_string(rows) +
                        " rows, allowed are at most 4294967295");
    }
    draw(step / epoch_steps_, rows, random);
    const std::size_t within = step % epoch_steps_;
    batch.assign(order_.begin() + begins_[within], order_.begin() + begins_[within + 1]);
  }

 private:
  /// Identifies a drawn order; `words`, the first random words of the epoch, distinguish keys.
  struct Drawn {
    std::uint64_t epoch = 0;
    std::size_t rows = 0;
    std::array<std::uint64_t, 2> words{};
    bool operator==(const Drawn&) const = default;
  };

  Event charge_of_epoch(std::span<const Event> releases) const {
    if (std::ranges::all_of(releases, &Event::is_nothing)) return Event::nothing();
    for (const Event& release : releases) {
      if (std::holds_alternative<GaussianEvent>(release.kind())) continue;
      throw PrivacyError(
          "allocation: a step releases " + std::string(release.name()) +
          ", and the cost of an epoch is proved for one gaussian a step only; use aggregator "
          "gaussian, or sampler poisson");
    }
    Event release = epochs::most_expensive("allocation", releases);
    if (epoch_steps_ == 1) return release;
    return Event::random_allocation(static_cast<std::int64_t>(epoch_steps_), std::move(release));
  }

  /// Sorts the rows of an epoch by their steps, unless that is already done.
  void draw(std::uint64_t epoch, std::size_t rows, const RandomSource& random) {
    const auto stream = random.stream(epoch);
    constexpr std::uint64_t kWord = std::uint64_t{1} << 63;
    const Drawn now{epoch, rows, {stream->uniform_below(kWord), stream->uniform_below(kWord)}};
    if (now == drawn_) return;
    std::vector<std::uint32_t> step_of(rows);
    begins_.assign(epoch_steps_ + 1, 0);
    for (std::uint32_t& step : step_of) {
      step = static_cast<std::uint32_t>(stream->uniform_below(epoch_steps_));
      ++begins_[step + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
    order_.resize(rows);
    for (std::uint32_t row = 0; row < rows; ++row) order_[next[step_of[row]]++] = row;
    drawn_ = now;
  }

  std::uint64_t epoch_steps_;
  SamplingPlan plan_;
  std::optional<Drawn> drawn_;
  std::vector<std::uint32_t> order_;   // rows by step, then by number
  std::vector<std::uint32_t> begins_;  // [steps + 1]: the beginning of each step in order_
};

void register_components(Registrar& registrar) {
  registrar.add<Sampler, Allocation>({
      .name = "allocation",
      .summary = "Each example takes part once an epoch, in a random step of its own (random "
                 "allocation, balls and bins).",
      .reference = "Chua et al. 2025 (Balls-and-Bins Sampling for DP-SGD); proof in "
                   "docs/accounting.md",
      .params =
          {param::integer(
               "steps_per_epoch",
               "Steps of an epoch, chosen without looking at the data: the expected batch size "
               "is the data set size divided by it.")
               .at_least(1)
               .at_most(std::int64_t{1} << 24)
               .example(4)},
      .traits = {std::string(trait::epoch_coins)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.allocation", "0.1.0", "sampler/allocation", register_components)
