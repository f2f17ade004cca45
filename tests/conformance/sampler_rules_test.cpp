#include <algorithm>
#include <cmath>
#include <numeric>

#include "broken.hpp"
#include "privgrad/error.hpp"
#include "privgrad/sampler.hpp"

namespace sampler_rules_test {

using namespace privgrad;
using Rows = std::vector<std::uint32_t>;

namespace {

/// Poisson sampling at rate 1/5.
class Right : public Sampler {
 public:
  explicit Right(const Params&) {}
  void start(const SamplingPlan& plan) override { plan_ = plan; }
  double expected_batch_size(std::uint64_t) const override {
    return kRate * static_cast<double>(plan_.dataset_size);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all;
    for (const Event& release : releases) all.push_back(Event::poisson_sampled(kRate, release));
    return all;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    draw(step, rows, kRate, random, batch);
  }

 protected:
  static constexpr double kRate = 0.2;
  static void draw(std::uint64_t step, std::size_t rows, double rate, const RandomSource& random,
                   Rows& batch) {
    const auto stream = random.stream(step);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (stream->uniform() < rate) batch.push_back(row);
    }
  }
  /// Rows in an order of the stream's making.
  static Rows shuffled(std::uint64_t index, std::size_t rows, const RandomSource& random) {
    const auto stream = random.stream(index);
    Rows order(rows);
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t i = rows; i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(stream->uniform_below(i))]);
    }
    return order;
  }
  std::size_t fifth() const { return static_cast<std::size_t>(plan_.dataset_size / 5); }
  SamplingPlan plan_;
};

/// A fifth of the rows, anew in each step.
struct Subset : Right {
  using Right::Right;
  void start(const SamplingPlan& plan) override {
    if (plan.dataset_size % 5 != 0) throw ConfigError("no multiple of 5");
    Right::start(plan);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all;
    for (const Event& release : releases) {
      all.push_back(
          Event::sampled_without_replacement(static_cast<std::int64_t>(plan_.dataset_size),
                                             static_cast<std::int64_t>(fifth()), release));
    }
    return all;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (rows != plan_.dataset_size) throw ConfigError("the size is fixed");
    batch = shuffled(step, rows, random);
    batch.resize(fifth());
  }
};
/// A fifth of a shuffled epoch, each row once; charged like that, and not.
struct Shuffle : Subset {
  using Subset::Subset;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all;  // disjoint parts: the first step of an epoch pays for it
    for (std::size_t step = 0; step < releases.size(); ++step) {
      all.push_back(step % 5 == 0 ? releases[step] : Event::nothing());
    }
    return all;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (rows != plan_.dataset_size) throw ConfigError("the size is fixed");
    const Rows order = shuffled(step / 5, rows, random);
    const auto first = order.begin() + static_cast<std::ptrdiff_t>((step % 5) * fifth());
    batch.assign(first, first + static_cast<std::ptrdiff_t>(fifth()));
  }
};

/// Shuffled epochs whose order is public.
struct Ordered : Shuffle, PublicOrder {
  using Shuffle::Shuffle;
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

struct RefusesAll final : Right {
  using Right::Right;
  void start(const SamplingPlan&) override { throw ConfigError("no"); }
};
struct RefusesOddly final : Right {
  using Right::Right;
  void start(const SamplingPlan&) override { throw NumericError("no"); }
};
struct NoSize final : Right {
  using Right::Right;
  double expected_batch_size(std::uint64_t) const override { return 0.0; }
};
struct RealisedSize final : Right {
  using Right::Right;
  double expected_batch_size(std::uint64_t) const override { return size_; }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    Right::sample(step, rows, random, batch);
    size_ = static_cast<double>(batch.size()) + 0.5;
  }
  double size_ = 1.0;
};
struct OutOfRange final : Right {
  using Right::Right;
  void sample(std::uint64_t, std::size_t rows, const RandomSource&, Rows& batch) override {
    batch = {static_cast<std::uint32_t>(rows)};
  }
};
struct Twice final : Right {
  using Right::Right;
  void sample(std::uint64_t, std::size_t, const RandomSource&, Rows& batch) override {
    batch = {0, 0};
  }
};
struct Appends final : Right {
  using Right::Right;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    Rows chosen;
    Right::sample(step, rows, random, chosen);
    batch.insert(batch.end(), chosen.begin(), chosen.end());
  }
};
struct TrustsThePlan final : Right {
  using Right::Right;
  void sample(std::uint64_t step, std::size_t, const RandomSource& random, Rows& batch) override {
    draw(step, plan_.dataset_size, kRate, random, batch);
  }
};
struct FailsOnOtherSizes final : Right {
  using Right::Right;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (rows != plan_.dataset_size) throw PrivacyError("no");
    Right::sample(step, rows, random, batch);
  }
};
struct OwnRandomness final : Right {
  using Right::Right;
  void sample(std::uint64_t, std::size_t rows, const RandomSource& random, Rows& batch) override {
    draw(++draws_, rows, kRate, random, batch);
  }
  inline static std::uint64_t draws_ = 0;
};
struct CountsItsCalls final : Right {
  using Right::Right;
  void sample(std::uint64_t, std::size_t rows, const RandomSource& random, Rows& batch) override {
    draw(++draws_, rows, kRate, random, batch);
  }
  std::uint64_t draws_ = 0;
};
struct Shared final : Right {
  using Right::Right;
  void start(const SamplingPlan& plan) override {
    Right::start(plan);
    draws_ = 0;
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource& random, Rows& batch) override {
    draw(++draws_, rows, kRate, random, batch);
  }
  inline static std::uint64_t draws_ = 0;
};
struct OneCharge final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event>) const override { return {Event::zcdp(1.0)}; }
};
struct ChargesOddly final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event>) const override { throw ConfigError("no"); }
};
struct ChargesWhatWasDrawn final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return std::vector<Event>(releases.size(), Event::zcdp(static_cast<double>(drawn_)));
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    Right::sample(step, rows, random, batch);
    ++drawn_;
  }
  int drawn_ = 0;
};
struct Free final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return std::vector<Event>(releases.size(), Event::nothing());
  }
};
/// Pays once an epoch and draws each step anew: an example can be in two batches of an epoch.
struct EpochWithoutOne final : Shuffle {
  using Shuffle::Shuffle;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    Subset::sample(step, rows, random, batch);
  }
};
/// Pays at the end of an epoch for what its steps did: a prefix shows less than was spent.
struct PaysLate final : Shuffle {
  using Shuffle::Shuffle;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all;
    for (std::size_t step = 0; step < releases.size(); ++step) {
      all.push_back(step % 5 == 4 ? releases[step] : Event::nothing());
    }
    return all;
  }
};
struct SmallerNoise final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return std::vector<Event>(releases.size(), Event::gaussian(15.0));
  }
};
struct OtherPopulation final : Subset {
  using Subset::Subset;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all;
    for (const Event& release : releases) {
      all.push_back(
          Event::sampled_without_replacement(static_cast<std::int64_t>(10 * plan_.dataset_size),
                                             static_cast<std::int64_t>(10 * fifth()), release));
    }
    return all;
  }
};
struct OtherRate final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all;
    for (const Event& release : releases) all.push_back(Event::poisson_sampled(0.1, release));
    return all;
  }
};
/// Charges another mechanism than the releases.
struct ChargesLaplace final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return std::vector<Event>(releases.size(), Event::laplace(1.0));
  }
};
struct FreeLater final : Right {
  using Right::Right;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> all = Right::charges(releases);
    for (std::size_t step = 100; step < all.size(); ++step) all[step] = Event::nothing();
    return all;
  }
};
/// As likely as the expected size over the rows that are there, which are private.
struct RateOfTheRowsThere final : Right {
  using Right::Right;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    draw(step, rows, expected_batch_size(step) / static_cast<double>(rows), random, batch);
  }
};
/// States a rate and draws at another.
struct DrawsMore final : Right {
  using Right::Right;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    draw(step, rows, 0.22, random, batch);
  }
};
/// Says that it follows the schedule's batch sizes and charges its own.
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
struct SubsetAsPoisson final : Subset {
  using Subset::Subset;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return Right::charges(releases);
  }
};
struct ShuffleAsSubset final : Shuffle {
  using Shuffle::Shuffle;
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return Subset::charges(releases);
  }
};
struct PoissonAsSubset final : Subset {
  using Subset::Subset;
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    Right::sample(step, rows, random, batch);
  }
};
/// Batches of the right size and variance that always hold the same examples first.
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
       {"expected_batch_size_is_positive_and_planned", "is 0 for", findings<NoSize>()},
       {"expected_batch_size_is_positive_and_planned", "changed", findings<RealisedSize>()},
       {"charges_the_batch_sizes_that_it_follows", "implies batches of 20",
        findings<ChargesOtherSizes>()},
       {"batches_hold_distinct_rows_that_exist", "row 1 of 1", findings<OutOfRange>()},
       {"batches_hold_distinct_rows_that_exist", "twice", findings<Twice>()},
       {"batches_hold_distinct_rows_that_exist", "row 4000000000", findings<Appends>()},
       {"batches_fit_the_rows_that_are_there", "with 1 rows there", findings<TrustsThePlan>()},
       {"batches_fit_the_rows_that_are_there", "PrivacyError", findings<FailsOnOtherSizes>()},
       {"batches_are_repeatable", "other batches", findings<OwnRandomness>()},
       {"resumes_as_if_uninterrupted", "resumed at step", findings<CountsItsCalls>()},
       {"instances_are_independent", "other instances", findings<Shared>()},
       {"charges_each_release", "1 events for 0 releases", findings<OneCharge>()},
       {"charges_each_release", "threw ConfigError", findings<ChargesOddly>()},
       {"charges_depend_on_the_plan_alone", "after batches", findings<ChargesWhatWasDrawn>()},
       {"charges_cover_every_use_of_an_example", "cover 0", findings<Free>()},
       {"charges_cover_every_use_of_an_example", "in 2 batches", findings<EpochWithoutOne>()},
       {"charges_cover_every_use_of_an_example", "after step 0", findings<PaysLate>()},
       {"charges_cover_every_use_of_an_example", "charges so far cover 0.0",
        findings<SmallerNoise>()},
       {"charges_cover_every_use_of_an_example", "a data set of 1000", findings<OtherPopulation>()},
       {"charges_cover_every_use_of_an_example", "on average", findings<OtherRate>()},
       {"charges_cover_every_use_of_an_example", "cover 0", findings<ChargesLaplace>()},
       {"batches_are_drawn_as_charged", "after step", findings<FreeLater>()},
       {"batches_are_drawn_as_charged", "rows there instead of 100",
        findings<RateOfTheRowsThere>()},
       {"batches_are_drawn_as_charged", "excess of all batch sizes", findings<DrawsMore>()},
       {"batches_are_drawn_as_charged", "squared deviations", findings<SubsetAsPoisson>()},
       {"batches_are_drawn_as_charged", "consecutive batches share", findings<ShuffleAsSubset>()},
       {"batches_are_drawn_as_charged", "batch size varies", findings<PoissonAsSubset>()},
       {"batches_are_drawn_as_charged", "hold one example", findings<Favours>()},
       {"the_order_is_that_of_the_batches", "other rows than sample()",
        findings<OrderOfOneEpoch>()},
       {"the_order_is_that_of_the_batches", "other rows than sample()",
        findings<OrderWithoutOne>()},
       {"the_order_is_that_of_the_batches", "is in group", findings<GroupBeyond>()}},
      {"charges_the_batch_sizes_that_it_follows", "the_order_is_that_of_the_batches"});
}

TEST_CASE("right samplers of other kinds conform") {
  using privgrad::testing::Verdict;
  CHECK(findings_text(findings<Subset>(), Verdict::failed) == "");
  const std::string own_size =
      "charges_the_batch_sizes_that_it_follows: it decides about its batch sizes itself\n";
  const std::string no_order = "the_order_is_that_of_the_batches: its order is not public\n";
  CHECK(findings_text(findings<Subset>(), Verdict::skipped) == own_size + no_order);
  CHECK(findings_text(findings<Shuffle>(), Verdict::failed) == "");
  CHECK(findings_text(findings<Shuffle>(), Verdict::skipped) ==
        own_size + "batches_are_drawn_as_charged: it claims no amplification by sampling\n" +
            no_order);
  CHECK(findings_text(findings<Ordered>(), Verdict::failed) == "");
  CHECK(findings_text(findings<Ordered>(), Verdict::skipped) ==
        own_size + "batches_are_drawn_as_charged: it claims no amplification by sampling\n");
}

}  // namespace sampler_rules_test
