// The sampler `allocation`: each row draws its own step of an epoch.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/sampler.hpp"
#include "test_random.hpp"

namespace allocation_sampler_test {

using privgrad::Adjacency;
using privgrad::Event;
using privgrad::Sampler;
using privgrad::Value;

namespace {

using Rows = std::vector<std::uint32_t>;

auto allocation(int steps_per_epoch, std::uint64_t size,
                Adjacency adjacency = Adjacency::add_or_remove_one) {
  auto sampler = house().create<Sampler>("allocation",
                                         Value::Object{{"steps_per_epoch", steps_per_epoch, {}}});
  sampler->start({.dataset_size = size, .steps = 1000, .adjacency = adjacency});
  return sampler;
}

Rows draw(Sampler& sampler, std::uint64_t step, std::size_t rows, std::uint64_t seed = 1) {
  Rows batch{99};  // the previous content must not matter
  sampler.sample(step, rows, TestRandom(seed), batch);
  return batch;
}

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// Returns the step of each row in an epoch; each row has exactly one.
std::vector<std::uint32_t> steps_of(Sampler& sampler, std::uint64_t epoch,
                                    std::uint32_t epoch_steps, std::size_t rows,
                                    std::uint64_t seed = 1) {
  std::vector<std::uint32_t> steps(rows, kNone);
  for (std::uint32_t within = 0; within < epoch_steps; ++within) {
    for (const std::uint32_t row : draw(sampler, epoch * epoch_steps + within, rows, seed)) {
      REQUIRE(row < rows);
      REQUIRE(steps[row] == kNone);
      steps[row] = within;
    }
  }
  CHECK(std::count(steps.begin(), steps.end(), kNone) == 0);
  return steps;
}

}  // namespace

TEST_CASE("allocation: each row is in one step of each epoch", "[sampler][allocation]") {
  for (const int steps : {1, 2, 7, 1000}) {
    const auto sampler = allocation(steps, 100);
    for (const std::size_t rows : {std::size_t{0}, std::size_t{1}, std::size_t{100}})
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
        steps_of(*sampler, epoch, static_cast<std::uint32_t>(steps), rows);
  }
}

TEST_CASE("allocation: a row's step follows from key, epoch and row alone",
          "[sampler][allocation][privacy]") {
  const auto all = steps_of(*allocation(8, 1000), 3, 8, 1000);
  // A row's step does not depend on the number of following rows, or of rows in the plan.
  for (const std::size_t rows : {std::size_t{1}, std::size_t{63}, std::size_t{999}}) {
    const auto some = steps_of(*allocation(8, 1000), 3, 8, rows);
    CHECK(std::equal(some.begin(), some.end(), all.begin()));
    CHECK(steps_of(*allocation(8, rows), 3, 8, rows) == some);
  }
  CHECK(steps_of(*allocation(8, 1000), 3, 8, 1001).size() == 1001);
  // No draw depends on earlier draws or their order; a sampler that begins here draws the same.
  const auto sampler = allocation(8, 1000);
  draw(*sampler, 100, 1000);
  for (std::uint64_t within = 8; within-- > 0;) {
    const Rows batch = draw(*sampler, 24 + within, 1000);
    CHECK(batch == draw(*allocation(8, 1000), 24 + within, 1000));
    for (const std::uint32_t row : batch) CHECK(all[row] == within);
    for (const std::uint64_t seed : {1, 2})
      CHECK(draw(*sampler, 24 + within, 500, seed) ==
            draw(*allocation(8, 1000), 24 + within, 500, seed));
  }
  // Other epochs and other keys give other draws: about 125 of 1000 agree.
  const auto again = [&](const std::vector<std::uint32_t>& other) {
    int same = 0;
    for (std::size_t row = 0; row < 1000; ++row) same += all[row] == other[row] ? 1 : 0;
    return same;
  };
  // 6 standard deviations of Bin(1000, 1/8) are 63.
  CHECK(std::abs(again(steps_of(*allocation(8, 1000), 4, 8, 1000)) - 125) < 63);
  CHECK(std::abs(again(steps_of(*allocation(8, 1000), 3, 8, 1000, 2)) - 125) < 63);
}

// Three rows and three steps have 27 outcomes, with 26 degrees of freedom: P(chi2 > 80) = 2e-7.
// Equally likely outcomes imply uniform steps, independent rows, and binomial sizes.
TEST_CASE("allocation: every outcome of an epoch is equally likely",
          "[sampler][allocation][statistics]") {
  const auto sampler = allocation(3, 3);
  constexpr int kEpochs = 27'000;
  std::map<std::vector<std::uint32_t>, int> seen;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch)
    ++seen[steps_of(*sampler, epoch, 3, 3, 7)];
  double chi2 = 0.0;
  for (const auto& [outcome, count] : seen) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(seen.size() == 27);
  CHECK(chi2 < 80.0);
}

// The same for consecutive epochs: 64 outcomes of three rows in two epochs of two steps, 63 degrees
// of freedom: P(chi2 > 140) = 1e-7.
TEST_CASE("allocation: epochs are drawn independently", "[sampler][allocation][statistics]") {
  const auto sampler = allocation(2, 3);
  std::map<std::vector<std::uint32_t>, int> seen;
  for (std::uint64_t pair = 0; pair < 64'000; ++pair) {
    std::vector<std::uint32_t> both = steps_of(*sampler, 2 * pair, 2, 3, 7);
    for (const std::uint32_t step : steps_of(*sampler, 2 * pair + 1, 2, 3, 7)) both.push_back(step);
    ++seen[both];
  }
  double chi2 = 0.0;
  for (const auto& [outcome, count] : seen) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(seen.size() == 64);
  CHECK(chi2 < 140.0);
}

TEST_CASE("allocation: the divisor is the declared size over the steps, whatever is drawn",
          "[sampler][allocation]") {
  const auto sampler = allocation(8, 100);
  CHECK(sampler->expected_batch_size(0) == 12.5);
  draw(*sampler, 0, 1000);
  CHECK(sampler->expected_batch_size(0) == 12.5);
  CHECK(allocation(1000, 10)->expected_batch_size(999) == 0.01);
}

TEST_CASE("allocation: an epoch is charged whole, at its first step, by its smallest noise",
          "[sampler][allocation][privacy]") {
  const auto nothing = Event::nothing();
  std::vector<Event> releases;
  for (const double sigma : {3.0, 2.0, 4.0, 5.0, 6.0, 5.5, 7.0})
    releases.push_back(Event::gaussian(sigma));
  for (const Adjacency adjacency :
       {Adjacency::add_or_remove_one, Adjacency::zero_out, Adjacency::replace_one}) {
    // The last epoch has one step of three, but is charged for three.
    CHECK(allocation(3, 10, adjacency)->charges(releases) ==
          std::vector<Event>{Event::random_allocation(3, Event::gaussian(2.0)), nothing, nothing,
                             Event::random_allocation(3, Event::gaussian(5.0)), nothing, nothing,
                             Event::random_allocation(3, Event::gaussian(7.0))});
    CHECK(allocation(1, 10, adjacency)->charges(releases) == releases);
    CHECK(allocation(3, 10, adjacency)->charges({}).empty());
  }
  const std::vector<Event> none(4, nothing);
  CHECK(allocation(3, 10)->charges(none) == none);
  for (const Event& other :
       {Event::laplace(1.0), Event::composed({Event::gaussian(1.0), Event::gaussian(2.0)}),
        Event::zcdp(0.1)}) {
    const std::vector<Event> all(2, other);
    CHECK_THROWS_WITH(allocation(3, 10)->charges(all),
                      ContainsSubstring("proved for one gaussian a step only"));
  }
}

TEST_CASE("allocation: what makes no sense is refused", "[sampler][allocation]") {
  CHECK_THROWS_AS(allocation(0, 10), privgrad::ConfigError);
  CHECK_THROWS_AS(allocation((1 << 24) + 1, 10), privgrad::ConfigError);
  CHECK_THROWS_WITH(allocation(3, 0), ContainsSubstring("empty"));
  for (const Adjacency fixed : {Adjacency::zero_out, Adjacency::replace_one})
    CHECK_THROWS_WITH(draw(*allocation(3, 10, fixed), 0, 9), ContainsSubstring("9 rows"));
}

}  // namespace allocation_sampler_test
