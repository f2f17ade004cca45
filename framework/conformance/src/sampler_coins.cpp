#include "sampler_coins.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "sampler_plans.hpp"

namespace privgrad::testing {
namespace {

constexpr std::size_t kCoinRows = 1000, kKeys = 2000;
constexpr std::size_t kManyRows = 100000, kKeysOfMany = 16;

/// Draws are compared if two of them are equal with a chance of at most 2^-64. So few draws are
/// made that an equal pair cannot be chance.
constexpr double kBits = 64.0;

/// A batch that a sampler drew from some rows, each with the same probability.
struct DrawnAmong {
  std::size_t rows = 0;
  double probability = 0.0;
  Batch batch;  ///< Rows below `rows`.
};
/// A function that draws the batch of a step; the step depends on the key's number.
/// \param rows  the number of rows in the data set.
using DrawByKey = std::function<DrawnAmong(std::size_t key, std::size_t rows)>;

template <class Draw>
void require_no_two(std::vector<Draw> draws, const std::string& what) {
  std::ranges::sort(draws);
  require(std::ranges::adjacent_find(draws) == draws.end(),
          what +
              ": its coins follow from few random bits, or from each other, so that whoever "
              "guesses some knows the others, and no amplification is due for them");
}

/// Odd, so it has an inverse modulo 2^64.
constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15u;
constexpr std::uint64_t inverse_of_base() {
  std::uint64_t inverse = kBase;  // 3 bits are correct; each round doubles their number
  for (int round = 0; round < 5; ++round) inverse *= 2 - kBase * inverse;
  return inverse;
}
constexpr std::uint64_t kInverse = inverse_of_base();
static_assert(kBase * kInverse == 1);

/// Gives each run of a batch's members a number: the sum over the run of distance * kBase^place,
/// modulo 2^64, for the distances from each member to the next. Equal runs have equal numbers,
/// wherever they begin.
class Runs {
 public:
  /// \param length  the length of a run, in distances, > 0.
  explicit Runs(std::size_t length) : length_(length) {
    for (std::size_t i = 1; i < length; ++i) last_power_ *= kBase;
  }

  void add(Batch batch, std::vector<std::uint64_t>& numbers) const {
    std::ranges::sort(batch);
    if (batch.size() <= length_) return;
    const auto distance = [&](std::size_t i) { return std::uint64_t{batch[i + 1] - batch[i]}; };
    std::uint64_t number = 0, power = 1;
    for (std::size_t i = 0; i < length_; ++i, power *= kBase) number += distance(i) * power;
    numbers.push_back(number);
    for (std::size_t i = 0; i + length_ + 1 < batch.size(); ++i) {
      number = (number - distance(i)) * kInverse + distance(i + length_) * last_power_;
      numbers.push_back(number);
    }
  }

 private:
  std::size_t length_;
  std::uint64_t last_power_ = 1;
};

/// Counts how often two rows are in the same batch.
class Pairs {
 public:
  explicit Pairs(std::size_t rows) : rows_(rows), together_(rows * rows, 0) {}

  void add(Batch batch) {
    std::ranges::sort(batch);
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t j = i + 1; j < batch.size(); ++j) ++together_[batch[i] * rows_ + batch[j]];
  }

  /// \param q  the probability of one row. The variance of a sum over the pairs at one distance is
  ///   larger than for independent terms, because pairs share rows: by at most 2 q^3 per pair.
  void check(double q) const {
    const std::string of_keys = "of " + std::to_string(kKeys) + " random streams, the number of ";
    const double mean = static_cast<double>(kKeys) * q * q;
    for (std::size_t distance = 1; distance < rows_; ++distance) {
      double all = 0.0;
      for (std::size_t row = 0; row + distance < rows_; ++row) {
        const auto count = static_cast<double>(together_[row * rows_ + row + distance]);
        all += count;
        require_near(count, mean, mean, of_keys + "those that draw two rows together");
      }
      const auto pairs = static_cast<double>(rows_ - distance);
      require_near(
          all, pairs * mean, pairs * mean * (1.0 + 2.0 * q),
          of_keys + "pairs of rows " + std::to_string(distance) + " apart that are drawn together");
    }
  }

 private:
  std::size_t rows_;
  std::vector<std::uint32_t> together_;  // [rows, rows]
};

/// Draws a batch in one of the plan's steps. The key determines the step: any step or, with cycles,
/// any cycle's first step, so that all batches are drawn from the same rows.
DrawnAmong drawn_by_key(const Checker& checker, SamplingPlan plan, std::size_t key,
                        std::size_t rows) {
  plan.dataset_size = rows;
  const auto sampler = started(checker, plan);
  const auto paid = charges(*sampler, plan, plan.steps);
  const auto how = paid ? sampling_of(paid->front()) : std::nullopt;
  require(how.has_value(), "it claims amplification for some numbers of examples, and none for " +
                               std::to_string(rows));
  const std::uint64_t cycle = cycle_of(*paid);
  PublicStream steps(kSeed ^ (key << 8));
  const std::uint64_t step =
      cycle * steps.uniform_below(std::max<std::uint64_t>(1, plan.steps / cycle));
  Batch batch;
  sampler->sample(step, rows, PublicSource(5000 + key), batch);
  require_rows(batch, rows, " in " + text_of(plan));
  if (cycle > 1) batch = batches_of_groups(std::vector<Batch>{batch}, cycle).front().front();
  return {.rows = (rows + cycle - 1) / cycle, .probability = how->rate, .batch = batch};
}

/// Breaks the rule if the coins of a batch are fewer, or less independent, than each single coin
/// suggests.
void require_independent_coins(const DrawByKey& draw) {
  std::vector<DrawnAmong> drawn;
  for (std::size_t key = 0; key < kKeys; ++key) drawn.push_back(draw(key, kCoinRows));
  const std::size_t rows = drawn.front().rows;
  const double q = drawn.front().probability;
  // Two coins agree with probability q^2 + (1 - q)^2.
  if (-std::log2(q * q + (1.0 - q) * (1.0 - q)) * static_cast<double>(rows) >= kBits) {
    std::vector<Batch> batches;
    for (const DrawnAmong& one : drawn) {
      batches.push_back(one.batch);
      std::ranges::sort(batches.back());
    }
    require_no_two(std::move(batches),
                   "two of " + std::to_string(kKeys) + " random streams give the same batch");
  }
  Pairs pairs(rows);
  for (const DrawnAmong& one : drawn) pairs.add(one.batch);
  pairs.check(q);

  std::vector<std::uint64_t> numbers;
  for (std::size_t key = 0; key < kKeysOfMany; ++key) {
    const DrawnAmong one = draw(kKeys + key, kManyRows);
    if (one.probability >= 1.0) return;
    // Distances have a geometric law, so two distances agree with probability p / (2 - p).
    const double bits = std::log2((2.0 - one.probability) / one.probability);
    Runs(static_cast<std::size_t>(std::ceil(kBits / bits))).add(one.batch, numbers);
  }
  require_no_two(std::move(numbers),
                 "a run of rows is drawn as another one is, of the same or another random stream");
}

}  // namespace

void check_coins(Checker& checker) {
  checker.rule("coins_of_rows_are_independent", [&] {
    for_each_amplified(checker, {.dataset_size = 1000, .steps = 200},
                       [&](const SamplingPlan& plan, const auto&, const auto&) {
                         require_independent_coins([&](std::size_t key, std::size_t rows) {
                           return drawn_by_key(checker, plan, key, rows);
                         });
                       });
  });
}

}  // namespace privgrad::testing
