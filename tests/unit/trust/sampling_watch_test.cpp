#include "privgrad/trust/sampling_watch.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad;
using core::Charge;
using core::CountLaw;
using core::SamplingLaw;
using core::SamplingWatch;

namespace {

using Rows = std::vector<std::uint32_t>;
using Random = std::mt19937_64;
/// Makes the batch of a step.
using Draw = std::function<Rows(std::uint64_t step, Random& random)>;

const Event kRelease = Event::gaussian(1.0);

std::vector<Charge> charges_of(std::uint64_t steps, const Event& cost) {
  std::vector<Charge> charges;
  for (std::uint64_t step = 0; step < steps; ++step) charges.push_back({step, kRelease, cost});
  return charges;
}
std::vector<Charge> coins(std::uint64_t steps, double rate) {
  return charges_of(steps, Event::poisson_sampled(rate, kRelease));
}
/// Returns charges in which every `epoch`-th step pays for the following steps of its epoch.
std::vector<Charge> epochs(std::uint64_t steps, std::uint64_t epoch) {
  std::vector<Charge> charges = charges_of(steps, kRelease);
  for (Charge& charge : charges)
    if (charge.step % epoch != 0) charge.cost = Event::nothing();
  return charges;
}

/// The same, for cycles of coins.
std::vector<Charge> cycles(std::uint64_t steps, std::uint64_t cycle, double rate) {
  std::vector<Charge> charges = epochs(steps, cycle);
  for (Charge& charge : charges)
    if (charge.step % cycle == 0) charge.cost = Event::poisson_sampled(rate, kRelease);
  return charges;
}

/// Returns rows that are drawn by their own coins.
Rows by_coins(Random& random, std::size_t rows, double rate) {
  Rows batch;
  std::geometric_distribution<std::uint64_t> skip(rate);
  for (std::uint64_t row = skip(random); row < rows; row += 1 + skip(random))
    batch.push_back(static_cast<std::uint32_t>(row));
  return batch;
}
Rows shuffled(Random& random, std::size_t rows) {
  Rows all(rows);
  std::iota(all.begin(), all.end(), 0u);
  std::shuffle(all.begin(), all.end(), random);
  return all;
}
Rows subset(Random& random, std::size_t rows, std::size_t size) {
  Rows all = shuffled(random, rows);
  all.resize(size);
  return all;
}

/// Whether the watch ends the run, with one line that names the sampler.
bool ends(const std::vector<Charge>& charges, std::size_t rows, const Draw& draw,
          std::uint64_t seed = 1) {
  Random random(seed);
  SamplingWatch watch(charges, "test/sampler");
  try {
    for (std::uint64_t step = 0; step < charges.size(); ++step)
      watch.check(step, rows, draw(step, random));
  } catch (const PluginError& error) {
    const std::string words = error.what();
    CHECK(words.starts_with("test/sampler: "));
    CHECK(words.find('\n') == std::string::npos);
    return true;
  }
  return false;
}

constexpr std::size_t kWatchedRows = 1000;
constexpr double kRate = 0.05;

}  // namespace

TEST_CASE("the law of a step is the one that it was charged by", "[checks][sampling]") {
  using Kind = SamplingLaw::Kind;
  const auto poisson = core::sampling_law(coins(3, 0.25), 1);
  CHECK(poisson.kind == Kind::poisson);
  CHECK(poisson.rate == 0.25);
  const auto some =
      core::sampling_law(charges_of(2, Event::sampled_without_replacement(40, 10, kRelease)), 1);
  CHECK(some.kind == Kind::without_replacement);
  CHECK(some.rows == 40);
  CHECK(some.size == 10);
  CHECK(some.rate == 0.25);
  CHECK(core::sampling_law(charges_of(3, kRelease), 1).kind == Kind::any);
  // Every third step pays for three.
  const auto shared = epochs(8, 3);
  for (std::uint64_t step = 0; step < shared.size(); ++step) {
    const auto law = core::sampling_law(shared, step);
    CHECK(law.kind == Kind::once);
    CHECK(law.first == step / 3 * 3);
    CHECK(law.last == std::min<std::uint64_t>(law.first + 2, 7));
  }
  // A charge larger than each single release may cover all of them together.
  auto together = shared;
  together[0].cost = Event::self_composed(3, kRelease);
  CHECK(core::sampling_law(together, 1).kind == Kind::any);
}

TEST_CASE("a sampled release that pays for several steps is for rows in cycles",
          "[checks][sampling][privacy]") {
  const auto charges = cycles(8, 3, 0.25);
  for (std::uint64_t step = 0; step < charges.size(); ++step) {
    const auto law = core::sampling_law(charges, step);
    CHECK(law.kind == SamplingLaw::Kind::poisson);
    CHECK(law.rate == 0.25);
    CHECK(law.first == step / 3 * 3);
    CHECK(law.steps == 3);  // also in the last cycle, which is cut short
  }
  CHECK(core::sampling_law(coins(3, 0.25), 1).steps == 1);
}

TEST_CASE("a run ends where a row is drawn beside its own step of a cycle",
          "[checks][sampling][privacy]") {
  constexpr std::uint64_t kCycle = 4, kSteps = 4000;
  constexpr double kOwnRate = 0.2;
  const auto charges = cycles(kSteps, kCycle, kOwnRate);
  const auto own = [](std::uint64_t step, Random& random, double rate, std::uint64_t shift = 0) {
    Rows batch = by_coins(random, kWatchedRows / kCycle, rate);
    for (std::uint32_t& row : batch)
      row = static_cast<std::uint32_t>(row * kCycle + (step + shift) % kCycle);
    return batch;
  };
  CHECK_FALSE(
      ends(charges, kWatchedRows, [&](auto step, Random& r) { return own(step, r, kOwnRate); }));
  // Each row in the step of the next row; and one row in every step.
  CHECK(
      ends(charges, kWatchedRows, [&](auto step, Random& r) { return own(step, r, kOwnRate, 1); }));
  CHECK(ends(charges, kWatchedRows, [&](auto step, Random& r) {
    Rows batch = own(step, r, kOwnRate);
    if (step % kCycle != 0) batch.push_back(0);
    return batch;
  }));
  // Immediately, because of a single row.
  SamplingWatch watch(charges, "test/sampler");
  watch.check(0, kWatchedRows, Rows{0, 4, 996});
  CHECK_THROWS_WITH(watch.check(1, kWatchedRows, Rows{1, 996}),
                    ContainsSubstring("another step of the cycle"));
  // Other coins: more, fewer, one row always, one row never, and the same rows again.
  CHECK(ends(charges, kWatchedRows, [&](auto step, Random& r) { return own(step, r, 0.25); }));
  CHECK(ends(charges, kWatchedRows, [&](auto step, Random& r) { return own(step, r, 0.15); }));
  CHECK(ends(charges, kWatchedRows, [&](auto step, Random& r) {
    Rows batch = own(step, r, kOwnRate);
    if (step % kCycle == 2 && std::find(batch.begin(), batch.end(), 6u) == batch.end())
      batch.push_back(6);
    return batch;
  }));
  CHECK(ends(charges, kWatchedRows, [&](auto step, Random& r) {
    Rows batch = own(step, r, kOwnRate);
    std::erase(batch, 6u);
    return batch;
  }));
  CHECK(ends(charges, kWatchedRows, [&](auto step, Random&) {
    Random same(step % kCycle);
    return own(step, same, kOwnRate);
  }));
}

TEST_CASE("samplers that keep to the law never end a run", "[checks][sampling][long]") {
  // By the bound, any run ends with a probability of at most 10^4 2^-64 = 5e-16.
  const int runs = trials(10'000, "runs of samplers that keep to their law");
  const auto poisson = coins(200, 0.05);
  const auto rare = coins(200, 0.001), nearly_all = coins(200, 0.97);
  const auto some = charges_of(200, Event::sampled_without_replacement(101, 7, kRelease));
  const auto in_cycles = cycles(200, 3, 0.3);
  int ended = 0;
  for (int run = 0; run < runs; ++run) {
    const auto seed = static_cast<std::uint64_t>(run);
    ended += ends(
        poisson, 101, [](auto, Random& r) { return by_coins(r, 101, 0.05); }, seed);
    ended += ends(
        rare, 101, [](auto, Random& r) { return by_coins(r, 101, 0.001); }, seed);
    ended += ends(
        nearly_all, 101, [](auto, Random& r) { return by_coins(r, 101, 0.97); }, seed);
    ended += ends(
        in_cycles, 101,
        [](auto step, Random& r) {
          Rows batch = by_coins(r, (101 + 2 - step % 3) / 3, 0.3);
          for (std::uint32_t& row : batch) row = static_cast<std::uint32_t>(row * 3 + step % 3);
          return batch;
        },
        seed);
    if (run % 10 == 0)
      ended += ends(
          some, 101, [](auto, Random& r) { return subset(r, 101, 7); }, seed);
  }
  CHECK(ended == 0);
}

// With 256 batches, 100 draws contain a repetition except with probability 10^-9; each single batch
// looks correct.
TEST_CASE("batches that follow from few random bits end a run", "[checks][sampling]") {
  const auto of_eight_bits = [](const auto& draw) {
    return [draw](std::uint64_t step, Random& random) {
      Random few(random() % 256);
      return draw(step, few);
    };
  };
  CHECK(ends(coins(100, 0.2), 1000,
             of_eight_bits([](auto, Random& few) { return by_coins(few, 1000, 0.2); })));
  CHECK(ends(charges_of(100, Event::sampled_without_replacement(1000, 50, kRelease)), 1000,
             of_eight_bits([](auto, Random& few) { return subset(few, 1000, 50); })));
  // With few rows equal batches occur by chance: 8 rows, each with a coin of 1/2.
  CHECK_FALSE(
      ends(coins(1000, 0.5), 8, [](auto, Random& random) { return by_coins(random, 8, 0.5); }));
}

TEST_CASE("a long run by coins, whose rate is scheduled, is not ended", "[checks][sampling]") {
  constexpr std::uint64_t kSteps = 20'000;
  std::vector<Charge> charges = coins(kSteps, 0.01);
  for (Charge& charge : charges)
    if (charge.step % 3 == 0) charge.cost = Event::poisson_sampled(0.2, kRelease);
  CHECK_FALSE(ends(charges, 300, [](std::uint64_t step, Random& random) {
    return by_coins(random, 300, step % 3 == 0 ? 0.2 : 0.01);
  }));
}

// Tests the basis of the false-alarm rate at a rate that can be counted: 10 000 runs with a correct
// law, each checked after each of its 300 steps, at alpha = 1/20. If the bound were invalid, or
// valid only for a single check, more than a twentieth of the runs would be ended: 500; 600 have a
// probability below 1e-5.
TEST_CASE("a law that holds is refuted at any step of a run no more often than alpha",
          "[checks][sampling][statistics]") {
  Random random(5);
  std::binomial_distribution<int> draws(40, 0.1);
  int refuted = 0;
  for (int run = 0; run < 10'000; ++run) {
    CountLaw law;
    bool is_refuted = false;
    for (int step = 0; step < 300 && !is_refuted; ++step) {
      law.add(40.0, 0.1, draws(random));
      is_refuted = law.is_refuted(std::log(20.0));
    }
    refuted += is_refuted ? 1 : 0;
  }
  CHECK(refuted <= 600);
}

// E exp(lambda X) = (1 + q (exp(lambda) - 1))^n for the binomial distribution: 300 draws where 200
// of 2000 were expected are refuted by the best lambda, which is near ln(3/2 9/8.5) = 0.46, with an
// evidence near n KL(0.15 || 0.1) = 24.4: 0.5 gives 300 / 2 - 2000 ln(1 + 0.1 (e^0.5 - 1)) = 24.22,
// minus ln 22 for the choice and 1 for rounding.
TEST_CASE("the evidence against a law is that of the best bet, less the choice",
          "[checks][sampling]") {
  CountLaw law;
  law.add(2000.0, 0.1, 300.0);
  const double evidence =
      150.0 - 2000.0 * std::log(1.0 + 0.1 * (std::exp(0.5) - 1.0)) - std::log(22.0) - 1.0;
  CHECK(evidence > 20.0);
  CHECK(law.is_refuted(evidence - 1e-9));
  CHECK_FALSE(law.is_refuted(evidence + 1e-9));
}

TEST_CASE("a sampler that draws otherwise than it was charged ends the run",
          "[checks][sampling][privacy]") {
  const auto honest = [](auto, Random& random) { return by_coins(random, kWatchedRows, kRate); };
  CHECK_FALSE(ends(coins(300, kRate), kWatchedRows, honest));

  SECTION("twice as many rows, within 10 steps") {
    CHECK(ends(coins(10, kRate), kWatchedRows,
               [](auto, Random& random) { return by_coins(random, kWatchedRows, 2 * kRate); }));
  }
  SECTION("half of the rows, within 20 steps") {
    CHECK(ends(coins(20, kRate), kWatchedRows,
               [](auto, Random& random) { return by_coins(random, kWatchedRows, kRate / 2); }));
  }
  SECTION("a tenth more, within 500 steps") {
    CHECK(ends(coins(500, kRate), kWatchedRows,
               [](auto, Random& random) { return by_coins(random, kWatchedRows, 1.1 * kRate); }));
  }
  SECTION("one row in every batch, within 40 steps") {
    CHECK(ends(coins(40, kRate), kWatchedRows, [](auto, Random& random) {
      Rows batch = by_coins(random, kWatchedRows, kRate);
      if (std::find(batch.begin(), batch.end(), 777u) == batch.end()) batch.push_back(777);
      return batch;
    }));
  }
  SECTION("one row never, within 70 expected draws") {
    CHECK(ends(coins(1400, kRate), kWatchedRows, [](auto, Random& random) {
      Rows batch = by_coins(random, kWatchedRows, kRate);
      batch.erase(std::remove(batch.begin(), batch.end(), 777u), batch.end());
      return batch;
    }));
  }
  SECTION("batches of the right sizes, and always the first rows, within 10 steps") {
    CHECK(ends(coins(10, kRate), kWatchedRows, [](auto, Random& random) {
      Rows batch = by_coins(random, kWatchedRows, kRate);
      std::iota(batch.begin(), batch.end(), 0u);
      return batch;
    }));
  }
  SECTION("a permutation that is cut into batches, within an epoch") {
    Rows order;
    CHECK(ends(coins(20, kRate), kWatchedRows, [&](std::uint64_t step, Random& random) {
      if (step == 0) order = shuffled(random, kWatchedRows);
      return Rows(order.begin() + static_cast<std::ptrdiff_t>(50 * step),
                  order.begin() + static_cast<std::ptrdiff_t>(50 * (step + 1)));
    }));
  }
  SECTION("subsets of a fixed size, within 100 steps") {
    CHECK(ends(coins(100, kRate), kWatchedRows,
               [](auto, Random& random) { return subset(random, kWatchedRows, 50); }));
  }
  SECTION("one half of the rows at twice the rate, within 20 steps") {
    CHECK(ends(coins(20, kRate), kWatchedRows,
               [](auto, Random& random) { return by_coins(random, kWatchedRows / 2, 2 * kRate); }));
  }
}

TEST_CASE("subsets are as large as was charged, of all rows, and new ones in each step",
          "[checks][sampling][privacy]") {
  const auto some = charges_of(400, Event::sampled_without_replacement(200, 10, kRelease));
  CHECK_FALSE(ends(some, 200, [](auto, Random& random) { return subset(random, 200, 10); }));
  CHECK(ends(some, 200, [](auto, Random& random) { return subset(random, 200, 11); }));
  CHECK(ends(some, 201, [](auto, Random& random) { return subset(random, 201, 10); }));
  CHECK(ends(some, 200, [](auto, Random&) { return Rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; }));
  CHECK(ends(some, 200, [](std::uint64_t step, Random&) {
    Rows batch(10);
    std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(10 * (step % 20)));
    return batch;
  }));
}

TEST_CASE("what is charged once is drawn once", "[checks][sampling][privacy]") {
  const auto charges = epochs(12, 4);
  const auto batch_of = [](std::uint64_t step) {
    const auto first = static_cast<std::uint32_t>(2 * (step % 4));
    return Rows{first, first + 1};
  };
  CHECK_FALSE(ends(charges, 8, [&](std::uint64_t step, Random&) { return batch_of(step); }));
  for (const std::uint32_t row : {0u, 1u, 2u, 3u, 4u, 5u}) {  // the rows of the steps 8, 9 and 10
    CAPTURE(row);
    CHECK(ends(charges, 8, [&](std::uint64_t step, Random&) {
      return step == 11 ? Rows{row, 6} : batch_of(step);
    }));
  }
  // Steps are charged in full, so any batch is allowed.
  CHECK_FALSE(ends(charges_of(50, kRelease), 8, [](auto, Random&) { return Rows{0, 1, 2}; }));
}

TEST_CASE("a run may begin anywhere, and an epoch with it", "[checks][sampling]") {
  const auto charges = epochs(12, 4);
  SamplingWatch watch(charges, "test/sampler");
  watch.check(6, 8, Rows{4, 5});
  CHECK_THROWS_AS(watch.check(7, 8, Rows{5, 6}), PluginError);
  SamplingWatch other(charges, "test/sampler");
  other.check(7, 8, Rows{5, 6});
  other.check(8, 8, Rows{5, 6});
  CHECK(other.batches() == 2);
}

TEST_CASE("a batch that repeats or invents rows is refused", "[checks][sampling]") {
  for (const auto& charges : {coins(3, 0.5), charges_of(3, kRelease), epochs(3, 3)}) {
    SamplingWatch watch(charges, "test/sampler");
    CHECK_THROWS_AS(watch.check(0, 4, Rows{1, 1}), PluginError);
    CHECK_THROWS_AS(watch.check(0, 4, Rows{4}), PluginError);
  }
}

namespace {

/// Epochs of random allocation, each charged at its first step.
std::vector<Charge> allocated(std::uint64_t steps, std::uint64_t epoch) {
  std::vector<Charge> charges = charges_of(steps, Event::nothing());
  for (Charge& charge : charges)
    if (charge.step % epoch == 0)
      charge.cost = Event::random_allocation(static_cast<std::int64_t>(epoch), kRelease);
  return charges;
}

/// Draws the steps of an epoch when the first one comes.
class Epochs {
 public:
  using Steps = std::vector<std::uint64_t>;
  /// \param steps_of  the step of each row.
  Epochs(std::uint64_t epoch, std::function<Steps(std::uint64_t number, Random&)> steps_of)
      : epoch_(epoch), steps_of_(std::move(steps_of)) {}
  Rows operator()(std::uint64_t step, Random& random) {
    if (step % epoch_ == 0) drawn_ = steps_of_(step / epoch_, random);
    Rows batch;
    for (std::uint32_t row = 0; row < drawn_.size(); ++row)
      if (drawn_[row] == step % epoch_) batch.push_back(row);
    return batch;
  }
  static Steps right(Random& random, std::size_t rows, std::uint64_t epoch) {
    Steps steps(rows);
    std::uniform_int_distribution<std::uint64_t> step(0, epoch - 1);
    for (std::uint64_t& one : steps) one = step(random);
    return steps;
  }

 private:
  std::uint64_t epoch_;
  std::function<Steps(std::uint64_t, Random&)> steps_of_;
  Steps drawn_;
};

bool epochs_end(std::uint64_t epochs, std::uint64_t epoch, std::size_t rows,
                const std::function<Epochs::Steps(std::uint64_t, Random&)>& steps_of,
                std::uint64_t seed = 1) {
  return ends(allocated(epochs * epoch, epoch), rows, Epochs(epoch, steps_of), seed);
}

}  // namespace

TEST_CASE("the law of an epoch of random allocation is that of all its steps",
          "[checks][sampling][allocation]") {
  const auto charges = allocated(8, 3);
  for (std::uint64_t step = 0; step < charges.size(); ++step) {
    const auto law = core::sampling_law(charges, step);
    CHECK(law.kind == SamplingLaw::Kind::allocated);
    CHECK(law.steps == 3);
    CHECK(law.first == step / 3 * 3);
    CHECK(law.last == std::min<std::uint64_t>(law.first + 2, 7));
  }
}

TEST_CASE("samplers that draw epochs as they are charged never end a run",
          "[checks][sampling][allocation][long]") {
  const int runs = trials(2'000, "runs of epochs that are drawn as they are charged");
  int ended = 0;
  for (int run = 0; run < runs; ++run) {
    const auto seed = static_cast<std::uint64_t>(run);
    using StepsAndRows = std::pair<std::uint64_t, std::size_t>;
    for (const auto& of : {StepsAndRows{20, 101}, {2, 101}, {1, 7}, {60, 5}, {7, 0}}) {
      const auto draw = [&of](auto, Random& random) {
        return Epochs::right(random, of.second, of.first);
      };
      ended += epochs_end(12, of.first, of.second, draw, seed);
    }
  }
  CHECK(ended == 0);
}

TEST_CASE("a sampler whose epochs are not drawn as they are charged ends the run",
          "[checks][sampling][allocation][privacy]") {
  constexpr std::uint64_t kEpoch = 20;
  const auto right = [](auto, Random& random) {
    return Epochs::right(random, kWatchedRows, kEpoch);
  };
  CHECK_FALSE(epochs_end(50, kEpoch, kWatchedRows, right));

  SECTION("a row in two batches of an epoch, at once") {
    auto draw = Epochs(kEpoch, right);
    CHECK(ends(allocated(kEpoch, kEpoch), kWatchedRows, [&](std::uint64_t step, Random& random) {
      Rows batch = draw(step, random);
      if (std::find(batch.begin(), batch.end(), 7u) == batch.end() && step % 2 == 0)
        batch.push_back(7);
      return batch;
    }));
  }
  SECTION("a row in no batch, at the end of the epoch") {
    CHECK(epochs_end(1, kEpoch, kWatchedRows, [&](auto number, Random& random) {
      auto steps = right(number, random);
      steps[7] = kEpoch;
      return steps;
    }));
  }
  SECTION("a permutation that is cut into batches, within 5 epochs") {
    CHECK(epochs_end(5, kEpoch, kWatchedRows, [](auto, Random& random) {
      Epochs::Steps steps(kWatchedRows);
      const Rows order = shuffled(random, kWatchedRows);
      for (std::size_t i = 0; i < kWatchedRows; ++i) steps[order[i]] = i / 50;
      return steps;
    }));
  }
  SECTION("the first epoch's steps again, in the second") {
    Epochs::Steps first;
    CHECK(epochs_end(2, kEpoch, kWatchedRows, [&](auto number, Random& random) {
      if (number == 0) first = right(number, random);
      return first;
    }));
  }
  SECTION("the first epoch's batches again in another order, in the second") {
    Epochs::Steps first;
    CHECK(epochs_end(2, kEpoch, kWatchedRows, [&](auto number, Random& random) {
      if (number == 0) first = right(number, random);
      Epochs::Steps steps = first;
      for (std::uint64_t& step : steps) step = (7 * step + 3 * number) % kEpoch;
      return steps;
    }));
  }
  SECTION("all in the first half of the steps, at once") {
    CHECK(epochs_end(1, kEpoch, kWatchedRows, [](auto, Random& random) {
      return Epochs::right(random, kWatchedRows, kEpoch / 2);
    }));
  }
  SECTION("no more than 50 in a batch, and those beyond in the next one, within 10 epochs") {
    CHECK(epochs_end(10, kEpoch, kWatchedRows, [&](auto number, Random& random) {
      auto steps = right(number, random);
      std::vector<int> sizes(kEpoch + 1, 0);
      for (std::uint64_t& step : steps) {
        while (step + 1 < kEpoch && sizes[step] == 50) ++step;
        ++sizes[step];
      }
      return steps;
    }));
  }
  SECTION("more steps than were charged, at once") {
    auto charges = allocated(8, 8);
    charges[0].cost = Event::random_allocation(4, kRelease);
    CHECK(ends(charges, 10,
               Epochs(8, [](auto, Random& random) { return Epochs::right(random, 10, 8); })));
  }
  SECTION("from the middle of an epoch on, of which nothing is known") {
    const auto charges = allocated(8, 4);
    SamplingWatch watch(charges, "test/sampler");
    CHECK_THROWS_WITH(watch.check(2, 8, Rows{4, 5}),
                      ContainsSubstring("the steps before are not known"));
  }
}

TEST_CASE("a watch that goes on in the middle of an epoch knows who had a step",
          "[checks][sampling][allocation][privacy]") {
  const auto charges = allocated(8, 4);
  SamplingWatch watch(charges, "test/sampler");
  watch.check(0, 4, Rows{2});
  watch.check(1, 4, Rows{});
  const auto saved = [&] {
    core::StateWriter out;
    watch.save(out);
    return out.text();
  };
  const std::string text = saved();
  const auto restored = [&](const std::vector<Charge>& of, const std::string& from) {
    auto made = std::make_unique<SamplingWatch>(of, "test/sampler");
    core::StateReader in(from, "a checkpoint");
    made->restore(in);
    return made;
  };
  CHECK_THROWS_WITH(restored(charges, text)->check(2, 4, Rows{2}),
                    ContainsSubstring("a row is in two batches"));
  const auto made = restored(charges, text);
  made->check(2, 4, Rows{0, 1});
  CHECK_THROWS_WITH(made->check(3, 4, Rows{}), ContainsSubstring("a row is in no batch"));
  // The text belongs to another run, whose step 0 begins no such epoch, or which has no row 4.
  CHECK_THROWS_AS(restored(allocated(8, 1), text), IoError);
  CHECK_THROWS_AS(restored(coins(8, 0.25), text), IoError);
  // Nothing is saved about a finished epoch, because the rows' steps are then irrelevant.
  watch.check(2, 4, Rows{0, 1});
  watch.check(3, 4, Rows{3});
  CHECK(saved().size() == text.size() - 4 * sizeof(std::uint32_t));
}
