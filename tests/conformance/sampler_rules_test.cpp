// Samplers with one defect each, and the rule of the conformance suite that notices it.
#include <numeric>

#include "broken.hpp"
#include "right_sampler.hpp"

namespace sampler_rules_test {

using namespace privgrad;
using Rows = std::vector<std::uint32_t>;

namespace {

using Right = RightSampler;

/// Shuffled epochs with a public order.
struct Ordered : Right, PublicOrder {
  explicit Ordered(const Params& params) : Right(params, SamplingLaw::epochs) {}
  std::uint64_t groups() const override {
    if (plan_.adjacency == Adjacency::add_or_remove_one) throw PrivacyError("rows would shift");
    return plan_.dataset_size;
  }
  std::uint32_t group_of(std::uint32_t row) const override { return row; }
  void groups_in(std::uint64_t step, const RandomSource& random, Rows& members) override {
    sample(step, plan_.dataset_size, random, members);
  }
};
/// Always names the batches of the first epoch.
struct OrderOfOneEpoch final : Ordered {
  using Ordered::Ordered;
  void groups_in(std::uint64_t step, const RandomSource& random, Rows& members) override {
    Ordered::groups_in(step % 5, random, members);
  }
};
/// Leaves an example out.
struct OrderWithoutOne final : Ordered {
  using Ordered::Ordered;
  void groups_in(std::uint64_t step, const RandomSource& random, Rows& members) override {
    Ordered::groups_in(step, random, members);
    members.pop_back();
  }
};
struct GroupBeyond final : Ordered {
  using Ordered::Ordered;
  std::uint32_t group_of(std::uint32_t row) const override { return row + 1; }
};

/// Draws row i by a coin in every second step: the steps with the parity of i.
struct Cycles : Right {
  using Right::Right;
  void start(const SamplingPlan& plan) override {
    if (plan.steps < 2 || plan.dataset_size < 2) throw ConfigError("shorter than a cycle");
    Right::start(plan);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    if (plan_.adjacency == Adjacency::add_or_remove_one) throw PrivacyError("numbers would change");
    std::vector<Event> all;
    for (std::size_t step = 0; step < releases.size(); ++step) {
      all.push_back(step % 2 == 0 ? Event::poisson_sampled(2.0 * kRate, releases[step])
                                  : Event::nothing());
    }
    return all;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (rows != plan_.dataset_size) throw ConfigError("the size is fixed");
    draw(step, step % 2, rows, random, batch);
  }
  static void draw(std::uint64_t step, std::uint64_t own, std::size_t rows,
                   const RandomSource& random, Rows& batch) {
    poisson(step, rows, 2.0 * kRate, random, batch);
    std::erase_if(batch, [&](std::uint32_t row) { return row % 2 != own; });
  }
};
/// Exchanges the steps in pairs of cycles, so that a row is drawn twice, one step apart.
struct CyclesThatSwap final : Cycles {
  using Cycles::Cycles;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (rows != plan_.dataset_size) throw ConfigError("the size is fixed");
    draw(step, (step % 2) ^ (step / 2 % 2), rows, random, batch);
  }
};

struct RefusesAll final : Right {
  using Right::Right;
  void start(const SamplingPlan&) override { throw ConfigError("no"); }
};
struct RefusesOddly final : Right {
  using Right::Right;
  void start(const SamplingPlan&) override { throw NumericError("no"); }
};
struct Shared final : Right {
  using Right::Right;
  void start(const SamplingPlan& plan) override {
    Right::start(plan);
    draws_ = 0;
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource& random, Rows& batch) override {
    poisson(++draws_, rows, kRate, random, batch);
  }
  inline static std::uint64_t draws_ = 0;
};
struct ChargesOddly final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event>) const override { throw ConfigError("no"); }
};
/// Claims to follow the schedule's batch sizes, but charges its own.
struct ChargesOtherSizes final : Right {
  using Right::Right;
  void start(const SamplingPlan& plan) override {
    Right::start(plan);
    sizes_.assign(plan.batch_sizes.begin(), plan.batch_sizes.end());
  }
  double expected_batch_size(std::uint64_t step) const override {
    return sizes_.empty() ? Right::expected_batch_size(step) : sizes_.at(step);
  }
  std::vector<double> sizes_;
};
/// Batches of the right size and variance that always contain the same first examples.
struct Favours final : Right {
  using Right::Right;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    Right::sample(step, rows, random, batch);
    std::iota(batch.begin(), batch.end(), 0u);
  }
};

template <class Impl>
Findings findings() {
  return findings_on<Sampler, Impl>();
}

}  // namespace

TEST_CASE("each rule of samplers can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"accepts_a_plan", "refuses", findings<RefusesAll>()},
       {"accepts_a_plan", "threw NumericError", findings<RefusesOddly>()},
       {"expected_batch_size_is_positive_and_planned", "is 0 for", findings_on("sampler/size_0")},
       {"expected_batch_size_is_positive_and_planned", "changed",
        findings_on("sampler/realised_size")},
       {"charges_the_batch_sizes_that_it_follows", "implies batches of 20",
        findings<ChargesOtherSizes>()},
       {"batches_hold_distinct_rows_that_exist", "row 1 of 1",
        findings_on("sampler/beyond_the_rows")},
       {"batches_hold_distinct_rows_that_exist", "twice", findings_on("sampler/twice_in_a_batch")},
       {"batches_hold_distinct_rows_that_exist", "row 4000000000", findings_on("sampler/appends")},
       {"batches_fit_the_rows_that_are_there", "with 1 rows there",
        findings_on("sampler/plan_instead_of_rows")},
       {"batches_fit_the_rows_that_are_there", "PrivacyError",
        findings_on("sampler/fails_on_other_sizes")},
       {"batches_are_repeatable", "other batches", findings_on("sampler/counts_all_calls")},
       {"resumes_as_if_uninterrupted", "resumed at step", findings_on("sampler/counts_its_calls")},
       {"instances_are_independent", "other instances", findings<Shared>()},
       {"charges_each_release", "1 events for 0 releases", findings_on("sampler/one_for_all")},
       {"charges_each_release", "threw ConfigError", findings<ChargesOddly>()},
       {"charges_depend_on_the_plan_alone", "after batches",
        findings_on("sampler/charges_what_was_drawn")},
       {"charges_cover_every_use_of_an_example", "cover 0", findings_on("sampler/free")},
       {"charges_cover_every_use_of_an_example", "in 2 batches",
        findings_on("sampler/redrawn_within_an_epoch")},
       {"charges_cover_every_use_of_an_example", "after step 0",
        findings_on("sampler/pays_at_the_end_of_epochs")},
       {"charges_cover_every_use_of_an_example", "charges so far cover 2.5",
        findings_on("sampler/twice_the_noise_charged")},
       {"charges_cover_every_use_of_an_example", "a data set of 1000",
        findings_on("sampler/ten_times_the_population")},
       {"charges_cover_every_use_of_an_example", "on average",
        findings_on("sampler/half_the_rate_charged")},
       {"charges_cover_every_use_of_an_example", "cover 0", findings_on("sampler/a_tiny_laplace")},
       {"batches_are_drawn_as_charged", "after step", findings_on("sampler/free_after_a_hundred")},
       {"batches_are_drawn_as_charged", "rows there instead of 100",
        findings_on("sampler/rate_of_the_rows_there")},
       {"batches_are_drawn_as_charged", "excess of all batch sizes",
        findings_on("sampler/rate_a_tenth_more")},
       {"batches_are_drawn_as_charged", "squared deviations",
        findings_on("sampler/subset_as_poisson")},
       {"batches_are_drawn_as_charged", "consecutive batches share",
        findings_on("sampler/epochs_as_subsets")},
       {"batches_are_drawn_as_charged", "batch size varies",
        findings_on("sampler/subset_without_the_law")},
       {"batches_are_drawn_as_charged", "hold one example", findings<Favours>()},
       {"batches_are_drawn_as_charged", "belongs to another", findings<CyclesThatSwap>()},
       {"batches_are_drawn_by_the_stream", "draw one example in step 0",
        findings_on("sampler/constant_seed")},
       {"coins_of_rows_are_independent", "the same batch",
        findings_on("sampler/coins_of_eight_bits")},
       {"coins_of_rows_are_independent", "draw two rows together",
        findings_on("sampler/coins_again_after_700_rows")},
       {"coins_of_rows_are_independent", "as another one is",
        findings_on("sampler/coins_again_after_20000_rows")},
       {"the_order_is_that_of_the_batches", "other rows than sample()",
        findings<OrderOfOneEpoch>()},
       {"the_order_is_that_of_the_batches", "other rows than sample()",
        findings<OrderWithoutOne>()},
       {"the_order_is_that_of_the_batches", "is in group", findings<GroupBeyond>()}},
      {"charges_the_batch_sizes_that_it_follows", "the_order_is_that_of_the_batches"});
}

TEST_CASE("right samplers of other kinds conform") {
  using privgrad::testing::Verdict;
  const Findings subset = findings_on("sampler/right_subset");
  const Findings epochs = findings_on("sampler/right_epochs");
  CHECK(findings_text(subset, Verdict::failed) == "");
  const std::string own_size =
      "charges_the_batch_sizes_that_it_follows: it decides about its batch sizes itself\n";
  const std::string no_claim =
      "batches_are_drawn_as_charged: it claims no amplification by sampling\n"
      "batches_are_drawn_by_the_stream: it claims no amplification by sampling\n"
      "coins_of_rows_are_independent: it claims no amplification by sampling\n";
  const std::string no_order = "the_order_is_that_of_the_batches: its order is not public\n";
  CHECK(findings_text(subset, Verdict::skipped) == own_size + no_order);
  CHECK(findings_text(epochs, Verdict::failed) == "");
  CHECK(findings_text(epochs, Verdict::skipped) == own_size + no_claim + no_order);
  const Findings cycles = findings<Cycles>();
  CHECK(findings_text(cycles, Verdict::failed) == "");
  CHECK(findings_text(cycles, Verdict::skipped) == own_size + no_order);
  const Findings ordered = findings<Ordered>();
  CHECK(findings_text(ordered, Verdict::failed) == "");
  CHECK(findings_text(ordered, Verdict::skipped) == own_size + no_claim);
}

}  // namespace sampler_rules_test
