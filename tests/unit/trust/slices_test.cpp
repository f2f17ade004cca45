// Sums that several processes make together, each releasing a slice: the same bits as from one
// process.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "house_plugins.hpp"
#include "payments.hpp"
#include "piecewise_echo.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/paid_elsewhere.hpp"
#include "privgrad/trust/shared_sum.hpp"
#include "privgrad/trust/testing.hpp"
#include "thread_cluster.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::BoundedOnGrid;
using core::Clip;
using core::CorrelatedMechanism;
using core::kExactLevels;
using core::Mechanism;
using core::PaidNoise;
using core::RandomKey;
using core::Slice;
using core::Slices;

namespace {

using Cells = std::vector<std::int64_t>;
using Rows = std::vector<std::uint32_t>;
using Ends = std::vector<std::size_t>;

constexpr std::size_t kGroups = 2600;  // 5200 parameters: six chunks of noise
constexpr std::size_t kSlicedRows = 23;

Dataset examples() {
  std::mt19937 random(12);
  std::normal_distribution<float> normal;
  std::vector<float> features(2 * kGroups * kSlicedRows);
  for (float& x : features) x = normal(random);
  return Dataset(ExampleShape{{2 * kGroups}, 0}, std::move(features),
                 std::vector<float>(kSlicedRows));
}

Rows batch() {
  Rows rows(kSlicedRows - 1);
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = (7 * i) % kSlicedRows;
  std::sort(rows.begin(), rows.end());
  return rows;
}

/// Returns a program that adds up at once, a program with pieces that do not end with a chunk of
/// noise, and a program with a single piece, which leaves most processes without a slice.
std::vector<std::unique_ptr<Program>> programs() {
  std::vector<std::unique_ptr<Program>> all;
  all.push_back(std::make_unique<ExactEcho>(kGroups));
  all.push_back(std::make_unique<PiecewiseEcho>(
      kGroups, Ends{700, 701, 1600, 2100, 3333, 3900, 4444, 5000, 2 * kGroups}));
  all.push_back(std::make_unique<PiecewiseEcho>(kGroups, Ends{2 * kGroups}));
  return all;
}

/// Returns the sum of the process's share of the batch.
BoundedOnGrid share_of_sum(const Program& program, const Dataset& data, const Cluster& cluster,
                           double count_share, Executor& executor, core::SumMemory& memory) {
  const auto groups = groups_of(program);
  const Clip clip{
      .rule = flat_clipping(), .groups = groups, .clip_norm = 3.0, .count_share = count_share};
  const Rows rows = batch();
  const auto share = core::share_of(rows, data.rows(), cluster.rank(), cluster.size());
  return core::deferred_exact_sum(program, data, share, clip, executor, 0, memory);
}

/// Returns the sum computed by a single process.
BoundedOnGrid whole_sum(const Program& program, const Dataset& data, double count_share) {
  const auto groups = groups_of(program);
  return core::exact_sum(
      program, data, batch(),
      Clip{.rule = flat_clipping(), .groups = groups, .clip_norm = 3.0, .count_share = count_share},
      serial);
}

constexpr std::size_t kProcesses[] = {1, 2, 3, 5, 8};

}  // namespace

TEST_CASE("every element of a sum is in one slice, and the first process always has some") {
  for (const auto& program : programs()) {
    for (const std::size_t processes : kProcesses) {
      for (const bool with_count : {false, true}) {
        const Slices slices(*program, processes, with_count);
        const std::size_t size = 2 * kGroups + (with_count ? 1 : 0);
        std::size_t end = 0;
        for (std::size_t rank = 0; rank < processes; ++rank) {
          const Slice slice = slices.of(rank);
          CHECK(slice.first == end);
          CHECK(slice.of == size);
          CHECK(slices.parameters_of(rank).of == 2 * kGroups);
          end += slice.size;
          CHECK(slices.ends()[rank] == end);
        }
        CHECK(end == size);
        CHECK(slices.parameters_of(0).size > 0);
        CHECK(slices.parameter_ends().back() == 2 * kGroups);
      }
    }
  }
}

TEST_CASE("slices of a sum that processes share are the sum that one makes", "[exact][privacy]") {
  const Dataset data = examples();
  for (const auto& program : programs()) {
    for (const double count_share : {0.0, 0.3}) {
      const Cells expected = core::cells_for_testing(whole_sum(*program, data, count_share));
      for (const std::size_t processes : kProcesses) {
        std::vector<Cells> slices(processes);
        std::vector<std::size_t> rows(processes);
        ThreadCluster::run(processes, [&](Cluster& cluster) {
          core::SumMemory memory;
          const BoundedOnGrid sum = core::add_shares(
              share_of_sum(*program, data, cluster, count_share, serial, memory), kSlicedRows - 1,
              Slices(*program, processes, count_share != 0.0), cluster, serial);
          slices[cluster.rank()] = core::cells_for_testing(sum);
          rows[cluster.rank()] = sum.rows();
        });
        Cells together;
        for (const Cells& slice : slices)
          together.insert(together.end(), slice.begin(), slice.end());
        CHECK((together == expected));
        CHECK(rows == std::vector<std::size_t>(processes, kSlicedRows - 1));
      }
    }
  }
}

TEST_CASE("a release in slices has the bits of one release", "[exact][mechanism][privacy]") {
  const Dataset data = examples();
  const auto aggregator = independent_noise(1.5);
  const RandomKey key = RandomKey::from_seed(40);
  for (const auto& program : programs()) {
    for (const double count_share : {0.0, 0.3}) {
      Payments payments(std::vector<Event>{Event::gaussian(1.5)});
      const Released whole =
          Mechanism(aggregator, key, serial)
              .release(whole_sum(*program, data, count_share), payments.take(0), 10.0);
      for (const std::size_t processes : kProcesses) {
        Payments again(std::vector<Event>{Event::gaussian(1.5)});
        const std::string told = Mechanism(aggregator, key, serial)
                                     .pay_for_noise(3.0, again.take(0), 10.0)
                                     .secret_text();
        const Slices slices(*program, processes, count_share != 0.0);
        std::optional<Released> together;
        ThreadCluster::run(processes, [&](Cluster& cluster) {
          const auto executor = core::make_executor(2);
          core::SumMemory memory;
          BoundedOnGrid sum = core::add_shares(
              share_of_sum(*program, data, cluster, count_share, *executor, memory),
              kSlicedRows - 1, slices, cluster, *executor);
          const Released slice = PaidNoise::of(told).release(
              std::move(sum), slices.of(cluster.rank()).first, *executor);
          auto all = core::put_together(slice, slices.ends(), cluster);
          if (all) together.emplace(std::move(*all));
        });
        REQUIRE(together);
        CHECK((values(*together) == values(whole)));
        CHECK(together->noise_stddev() == whole.noise_stddev());
      }
    }
  }
}

TEST_CASE("noise that was paid for fits its own sum, and no other", "[exact][mechanism][privacy]") {
  const Dataset data = examples();
  const ExactEcho program(kGroups);
  const auto aggregator = independent_noise(1.5);
  Payments payments(std::vector<Event>{Event::gaussian(1.5), Event::gaussian(1.5)});
  Mechanism mechanism(aggregator, RandomKey::from_seed(40), serial);
  // A contribution of twice the length with the same noise has half of the charged noise.
  const PaidNoise noise = mechanism.pay_for_noise(1.5, payments.take(0), 10.0);
  CHECK_THROWS_AS(noise.release(whole_sum(program, data, 0.0), 0, serial), PrivacyError);
  // The step is used up, whichever process makes its release.
  Payments again(std::vector<Event>{Event::gaussian(1.5)});
  CHECK_THROWS_WITH(mechanism.pay_for_noise(3.0, again.take(0), 10.0),
                    "step 0 was released before; its noise must not be used again");
  // The charge must match the release: a receipt for more noise than in the recipe is refused.
  Payments other(std::vector<Event>{Event::gaussian(9.0), Event::gaussian(9.0)});
  (void)other.take(0);
  CHECK_THROWS_WITH(mechanism.pay_for_noise(3.0, other.take(1), 10.0),
                    "step 1 was paid for other noise than its recipe asks for");
  CHECK_THROWS_AS(PaidNoise::of(noise.secret_text().substr(1)), IoError);
}

namespace {

struct Tree {
  explicit Tree(Value::Object params) {
    auto made = house().create<Aggregator>("tree", std::move(params));
    const std::vector<double> sigma(kSteps, 0.7);
    made->start({.steps = kSteps, .noise_multipliers = sigma});
    parts.push_back({std::move(*core::CorrelatedRecipes::of(*made, kSteps))});
  }
  static constexpr std::uint64_t kSteps = 12;
  std::vector<core::CorrelatedPart> parts;
};

/// Returns the receipt of a process that was notified of a charged step.
core::Receipt told(const Tree& tree, std::uint64_t step) {
  const Event release = Event::gaussian(tree.parts.front().recipes.own_multiplier(step));
  const core::Charge charge{step, release, release};
  return std::move(core::PaidElsewhere::receipts({&charge, 1}).front());
}

/// Makes the releases of steps [first, last) by this many processes.
/// \param state  the state from which to continue; "": from the beginning.
/// \returns the releases, and the state that process 0 saves after them.
std::pair<std::vector<std::vector<float>>, std::string> released(
    const Tree& tree, std::size_t processes, std::uint64_t first, std::uint64_t last,
    const std::string& state, Payments& payments) {
  const Dataset data = examples();
  const PiecewiseEcho program(kGroups, {700, 701, 1600, 2100, 3333, 3900, 4444, 5000, 2 * kGroups});
  const Slices slices(program, processes, false);
  std::vector<std::vector<float>> all;
  std::string saved;
  ThreadCluster::run(processes, [&](Cluster& cluster) {
    CorrelatedMechanism mechanism(tree.parts, RandomKey::from_seed(5), serial, kSlicedRows,
                                  slices.of(cluster.rank()));
    if (!state.empty()) {
      core::StateReader in(state, "test");
      mechanism.restore(in);
    }
    for (std::uint64_t step = first; step < last; ++step) {
      core::SumMemory memory;
      std::vector<BoundedOnGrid> sums;
      sums.push_back(core::add_shares(share_of_sum(program, data, cluster, 0.0, serial, memory),
                                      kSlicedRows - 1, slices, cluster, serial));
      const std::vector<Released> slice = mechanism.release(
          std::move(sums), cluster.rank() == 0 ? payments.take(step) : told(tree, step), 10.0);
      if (auto whole = core::put_together(slice.front(), slices.ends(), cluster))
        all.push_back(values(*whole));
    }
    core::StateWriter out;
    out.put_together_by([&](std::span<const std::byte> own, std::size_t element) {
      std::vector<std::size_t> ends(slices.ends().begin(), slices.ends().end());
      for (std::size_t& end : ends) end *= element;
      std::vector<std::byte> bytes(ends.back());
      const std::size_t begin = cluster.rank() == 0 ? 0 : ends[cluster.rank() - 1];
      std::copy(own.begin(), own.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin));
      cluster.gather(bytes, ends);
      return bytes;
    });
    mechanism.save(out);
    if (cluster.rank() == 0) saved = out.text();
  });
  return {all, saved};
}

}  // namespace

TEST_CASE("correlated releases in slices have the bits of one process's, and so has their state",
          "[exact][correlated][privacy]") {
  for (const Value::Object& params :
       {Value::Object{}, Value::Object{{"momentum", Value(0.9), {}}},
        Value::Object{{"restart_every", Value(5), {}}, {"completion", Value(true), {}}}}) {
    const Tree tree(params);
    Payments payments(tree.parts.front().recipes);
    const auto [expected, expected_state] = released(tree, 1, 0, Tree::kSteps, "", payments);
    for (const std::size_t processes : {2u, 3u, 8u}) {
      // The run is interrupted after seven steps, and continued by another number of processes.
      Payments some(tree.parts.front().recipes);
      const auto [first, state] = released(tree, processes, 0, 7, "", some);
      const auto [then, end] = released(tree, 9 - processes, 7, Tree::kSteps, state, some);
      CHECK((first == std::vector(expected.begin(), expected.begin() + 7)));
      CHECK((then == std::vector(expected.begin() + 7, expected.end())));
      CHECK((end == expected_state));
    }
  }
}

TEST_CASE("a process that is told that a step was paid for makes that step, and no other",
          "[exact][correlated][privacy]") {
  const Tree tree(Value::Object{});
  const Dataset data = examples();
  const ExactEcho program(kGroups);
  CorrelatedMechanism mechanism(tree.parts, RandomKey::from_seed(5), serial, kSlicedRows,
                                Slice{0, 2 * kGroups, 2 * kGroups});
  const auto release = [&](std::uint64_t step) {
    std::vector<BoundedOnGrid> sums;
    sums.push_back(whole_sum(program, data, 0.0));
    mechanism.release(std::move(sums), told(tree, step), 10.0);
  };
  release(0);
  CHECK_THROWS_WITH(release(0), "step 0 cannot be released, the next one is 1");
  CHECK_THROWS_WITH(release(2), "step 2 cannot be released, the next one is 1");
  release(1);
}
