// Sums that are added up while they are released: the same whole numbers, and the same bits after
// noise, as sums that were added up in advance.
#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "exact_echo.hpp"
#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "piecewise_echo.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/testing.hpp"
#include "support.hpp"

using namespace privgrad;
using core::BoundedOnGrid;
using core::kExactLevels;
using core::Mechanism;
using core::RandomKey;
using core::SumMemory;

namespace {

using Cells = std::vector<std::int64_t>;
using Rows = std::vector<std::uint32_t>;
using Ends = std::vector<std::size_t>;

/// Runs the last chunk first: overwriting chunks that should have come earlier shows at once.
class BackwardsExecutor final : public Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    while (chunks > 0) body(--chunks);
  }
};

Dataset examples(std::size_t width, std::size_t count) {
  std::mt19937 random(12);
  std::normal_distribution<float> normal;
  std::vector<float> features(width * count);
  for (float& x : features) x = normal(random);
  return Dataset(ExampleShape{{width}, 0}, std::move(features), std::vector<float>(count, 0.0f));
}

Rows first_rows(std::size_t count) {
  Rows rows(count);
  for (std::uint32_t i = 0; i < count; ++i) rows[i] = i;
  return rows;
}

/// One group: only the number of groups matters to ExactEcho, so all parameters may have one scale.
struct Setting {
  const Program& program;
  const Dataset& data;
  double count_share = 0.0;
  std::vector<ParameterGroup> groups = groups_of(program);
  core::Clip clip() const {
    return {
        .rule = flat_clipping(), .groups = groups, .clip_norm = 2.0, .count_share = count_share};
  }
  BoundedOnGrid now(const Rows& rows) const {
    return core::exact_sum(program, data, rows, clip(), serial);
  }
  BoundedOnGrid deferred(const Rows& rows, SumMemory& memory,
                         core::ContributionCheck* check = nullptr) const {
    return core::deferred_exact_sum(program, data, rows, clip(), serial, 0, memory,
                                    PrivacyUnit::example, check);
  }
};

/// A ledger that was charged for one step with noise 1.5.
class Payment {
 public:
  core::Receipt take() {
    const std::vector<core::Charge> charges{{0, Event::gaussian(1.5), Event::gaussian(1.5)}};
    return std::move(ledger_.charge(charges).front());
  }

 private:
  TempDir dir_;
  CountingAccountant accountant_;
  core::Ledger ledger_{dir_.path() / "ledger.jsonl",
                       {.target_epsilon = {}, .target_delta = 1e-5},
                       accountant_,
                       "fake",
                       {}};
};

const RandomKey kKey = RandomKey::from_seed(40);

Released release(BoundedOnGrid sum, Executor& executor) {
  const auto aggregator = independent_noise(1.5);
  Payment payment;
  return Mechanism(aggregator, kKey, executor).release(std::move(sum), payment.take(), 10.0);
}

/// Used instead of Catch's ==, which prints two long vectors if they differ.
bool same(const Released& released, const std::vector<float>& expected) {
  return std::equal(released.values().begin(), released.values().end(), expected.begin(),
                    expected.end());
}

/// Computes the release from the definition, with whole numbers that were added up in advance.
std::vector<float> expected_release(Cells cells) {
  const double sigma = 1.5 * static_cast<double>(kExactLevels);
  const unsigned shift = core::release_shift(sigma);
  core::RoundedGaussianStream(kKey, 0).release(0, sigma, shift, cells, cells);
  const double width =
      std::ldexp(2.0 / static_cast<double>(kExactLevels), static_cast<int>(shift)) / 10.0;
  std::vector<float> floats;
  for (const std::int64_t cell : cells)
    floats.push_back(static_cast<float>(static_cast<double>(cell) * width));
  return floats;
}

constexpr std::size_t kManyGroups = 70'000;
/// Some pieces are smaller than a chunk of noise, and none ends where a chunk ends.
const Ends kEnds{1, 30'001, 31'000, 60'000, 65'537, 140'000};

}  // namespace

TEST_CASE("a deferred sum is the sum: of no, one and several passes, with and without a count",
          "[exact][privacy]") {
  const PiecewiseEcho program(50, {7, 90, 100});
  const Dataset data = examples(100, 30);
  for (const double share : {0.0, 0.3}) {
    const Setting setting{program, data, share};
    SumMemory memory;
    for (const std::size_t count : {0u, 1u, 8u, 19u, 30u}) {
      const BoundedOnGrid sum = setting.deferred(first_rows(count), memory);
      CHECK(core::cells_for_testing(sum) ==
            core::cells_for_testing(setting.now(first_rows(count))));
      CHECK(sum.size() == (share == 0.0 ? 100 : 101));
      CHECK(sum.rows() == count);
      CHECK(sum.levels() == kExactLevels);
      CHECK(sum.l2_bound() == 2.0);
    }
  }
}

TEST_CASE("a release has the same bits whether its sum was added up before or comes in pieces",
          "[exact][mechanism][privacy]") {
  const PiecewiseEcho program(kManyGroups, kEnds);
  const Dataset data = examples(2 * kManyGroups, 11);
  for (const double share : {0.0, 0.3}) {  // an even number of elements, and an odd one
    const Setting setting{program, data, share};
    for (const std::size_t count : {3u, 11u}) {  // one pass, and two passes
      const Rows rows = first_rows(count);
      const auto expected = expected_release(core::cells_for_testing(setting.now(rows)));
      BackwardsExecutor backwards;
      const auto two = core::make_executor(2), four = core::make_executor(4);
      for (Executor* executor :
           std::initializer_list<Executor*>{&serial, &backwards, two.get(), four.get()}) {
        SumMemory memory;
        CHECK(same(release(setting.deferred(rows, memory), *executor), expected));
        CHECK(same(release(setting.now(rows), *executor), expected));
      }
    }
  }
}

TEST_CASE("what was released stays as it is while its memory could be used again",
          "[exact][mechanism]") {
  const PiecewiseEcho program(kManyGroups, kEnds);
  const Dataset data = examples(2 * kManyGroups, 8);
  const Setting setting{program, data};
  SumMemory memory;
  const auto expected = [&](const Rows& rows) {
    return expected_release(core::cells_for_testing(setting.now(rows)));
  };
  const Rows a{0, 1, 2}, b{5, 6}, c{7};
  const Released first = release(setting.deferred(a, memory), serial);
  {
    const Released second = release(setting.deferred(b, memory), serial);
    CHECK(same(first, expected(a)));
    CHECK(same(second, expected(b)));
  }
  Released third = release(setting.deferred(c, memory), serial);
  const float* const place = third.values().data();
  const Released moved = std::move(third);
  CHECK(third.values().empty());  // NOLINT: what was moved away has no values
  const Released fourth = release(setting.deferred(b, memory), serial);
  CHECK(same(first, expected(a)));
  CHECK(moved.values().data() == place);
  CHECK(same(moved, expected(c)));
  CHECK(same(fourth, expected(b)));
}

// A sum that was added up passes its memory, twice as large, to the release: behind the last value,
// this memory contains bytes of sums without noise until they are overwritten.
TEST_CASE("behind what is released lies nothing of the sum", "[exact][mechanism][privacy]") {
  const PiecewiseEcho program(kManyGroups, kEnds);
  const Dataset data = examples(2 * kManyGroups, 11);
  for (const double share : {0.0, 0.3}) {
    const Setting setting{program, data, share};
    for (const int threads : {1, 2}) {
      const auto executor = core::make_executor(threads);
      SumMemory memory;
      const Released now = release(setting.now(first_rows(11)), *executor);
      const Released deferred = release(setting.deferred(first_rows(11), memory), *executor);
      for (const Released* released : {&now, &deferred}) {
        const std::size_t size = released->values().size();
        CHECK(std::all_of(released->values().data() + size, released->values().data() + 2 * size,
                          [](float behind) { return behind == 0.0f; }));
      }
    }
  }
}

TEST_CASE("a deferred sum is not released once its memory was used for other examples",
          "[exact][mechanism][privacy]") {
  const PiecewiseEcho program(50, {7, 90, 100});
  const Dataset data = examples(100, 30);
  const Setting setting{program, data};
  const auto words = ContainsSubstring("after the memory of its examples was used for others");
  SumMemory memory;
  BoundedOnGrid first = setting.deferred(first_rows(5), memory);
  BoundedOnGrid second = setting.deferred(Rows{7, 8}, memory);
  CHECK_THROWS_AS(release(std::move(first), serial), PrivacyError);
  CHECK(same(release(std::move(second), serial),
             expected_release(core::cells_for_testing(setting.now(Rows{7, 8})))));

  auto short_lived = std::make_optional<SumMemory>();
  BoundedOnGrid third = setting.deferred(first_rows(5), *short_lived);
  short_lived.reset();
  CHECK_THROWS_WITH(release(std::move(third), serial), words);

  // Moving keeps the same memory.
  SumMemory home;
  BoundedOnGrid fourth = setting.deferred(first_rows(5), home);
  const SumMemory elsewhere = std::move(home);
  CHECK(same(release(std::move(fourth), serial),
             expected_release(core::cells_for_testing(setting.now(first_rows(5))))));
}

TEST_CASE("pieces that are not those of the parameters are refused", "[exact]") {
  const Dataset data = examples(100, 3);
  const auto refused = [&](Ends ends, const std::string& words) {
    const PiecewiseEcho program(50, std::move(ends));
    const Setting setting{program, data};
    SumMemory memory;
    CHECK_THROWS_WITH(setting.deferred(first_rows(3), memory), ContainsSubstring(words));
    CHECK_THROWS_AS(setting.deferred(first_rows(3), memory), PluginError);
  };
  refused({50, 99}, "end at parameter 99, expected at 100");
  refused({50, 101}, "end at parameter 101, expected at 100");
  refused({50, 50, 100}, "do not ascend");
  refused({60, 50, 100}, "do not ascend");
  refused({0, 100}, "do not ascend");
}

TEST_CASE("without pieces, or with some that no cache holds, a sum is added up as a whole",
          "[exact]") {
  for (const Ends& ends : {Ends{}, Ends{140'000}}) {
    // No pieces are requested from a program that lies about them.
    const PiecewiseEcho program(kManyGroups, ends, true);
    const Dataset data = examples(2 * kManyGroups, 3);
    const Setting setting{program, data};
    SumMemory memory;
    const bool is_same = core::cells_for_testing(setting.deferred(first_rows(3), memory)) ==
                         core::cells_for_testing(setting.now(first_rows(3)));
    CHECK(is_same);
  }
}

TEST_CASE("a program whose pieces are not what add_cells() adds is found by the look at an example",
          "[exact][checks][privacy]") {
  const Dataset data = examples(100, 19);  // the last pass has three examples
  for (const bool lies : {false, true}) {
    const PiecewiseEcho program(50, {7, 90, 100}, lies);
    const Setting setting{program, data};
    const auto sum_with_look = [&](std::size_t place) {
      SumMemory memory;
      core::ContributionCheck check{
          .place = place, .program = "test/program", .clipping = "test/clipping"};
      return core::cells_for_testing(setting.deferred(first_rows(19), memory, &check));
    };
    if (lies) {
      CHECK_THROWS_WITH(sum_with_look(17),
                        ContainsSubstring("test/program: an example's cells are not as long as"));
    } else {
      const Cells plain = core::cells_for_testing(setting.now(first_rows(19)));
      for (const std::size_t place : {0u, 15u, 16u, 17u}) CHECK(sum_with_look(place) == plain);
    }
  }
}

TEST_CASE("one piece of a sum that is not its examples' is found, whichever it is",
          "[exact][checks][privacy]") {
  /// Adds one cell too many to one piece if several examples are added and none is left out.
  struct AddsOne final : PiecewiseEcho {
    explicit AddsOne(std::size_t piece) : PiecewiseEcho(50, {7, 90, 100}), wrong(piece) {}
    void choose(Pass& pass, std::span<const std::uint8_t> taken) const override {
      PiecewiseEcho::choose(pass, taken);
      const bool is_all = std::find(taken.begin(), taken.end(), 0) == taken.end();
      if (taken.size() > 1) is_wrong = is_all ? &pass : nullptr;
    }
    void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const override {
      PiecewiseEcho::add_piece(pass, piece, sum);
      if (is_wrong == &pass && piece == wrong) ++sum[0];
    }
    std::size_t wrong;
    mutable const Pass* is_wrong = nullptr;
  };
  const Dataset data = examples(100, 19);  // the last pass has three examples
  for (const std::size_t piece : {0u, 1u, 2u}) {
    const AddsOne program(piece);
    const Setting setting{program, data};
    SumMemory memory;
    core::ContributionCheck check{
        .place = 17, .others = {1}, .program = "test/program", .clipping = "test/clipping"};
    CHECK_THROWS_WITH(core::cells_for_testing(setting.deferred(first_rows(19), memory, &check)),
                      ContainsSubstring("a sum of cells is not that of its examples' cells"));
  }
}
