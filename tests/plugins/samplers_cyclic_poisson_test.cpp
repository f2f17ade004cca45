// The sampler `cyclic_poisson`: each row is drawn by its own coin, in one step of each cycle.
#include <cmath>
#include <cstdint>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/sampler.hpp"
#include "test_random.hpp"

namespace cyclic_poisson_test {

using privgrad::Adjacency;
using privgrad::Event;
using privgrad::Sampler;
using privgrad::Value;

namespace {

using Rows = std::vector<std::uint32_t>;

constexpr std::uint64_t kSteps = 1000;

auto cyclic(double batch_size, int cycle, std::uint64_t size,
            Adjacency adjacency = Adjacency::zero_out, std::uint64_t steps = kSteps) {
  auto sampler = house().create<Sampler>(
      "cyclic_poisson", Value::Object{{"batch_size", batch_size, {}}, {"cycle", cycle, {}}});
  sampler->start({.dataset_size = size, .steps = steps, .adjacency = adjacency});
  return sampler;
}

Rows draw(Sampler& sampler, std::uint64_t step, std::size_t rows) {
  Rows batch{99};  // the previous content must not matter
  sampler.sample(step, rows, TestRandom(1), batch);
  return batch;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const privgrad::Error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cyclic_poisson: a row is drawn in its own step of each cycle alone",
          "[sampler][cyclic][privacy]") {
  constexpr std::uint64_t kRows = 50;
  for (const int cycle : {1, 3, 7}) {
    const auto sampler = cyclic(5.0, cycle, kRows);
    std::vector<int> drawn(kRows, 0);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      std::uint32_t before = 0;
      for (const std::uint32_t row : draw(*sampler, step, kRows)) {
        CHECK(row % static_cast<std::uint32_t>(cycle) == step % static_cast<std::uint64_t>(cycle));
        CHECK((before == 0 || row > before));
        before = row;
        ++drawn.at(row);
      }
    }
    // kSteps / cycle coins of probability 5 cycle / 50 have the mean 100; six standard deviations.
    const double rate = 5.0 * cycle / 50.0;
    for (const int times : drawn)
      CHECK(std::abs(times - 100.0) < 6.0 * std::sqrt(100.0 * (1.0 - rate)) + 1.0);
  }
}

TEST_CASE("cyclic_poisson: coins of probability 1 take the whole group", "[sampler][cyclic]") {
  const auto sampler = cyclic(4.0, 3, 12);
  CHECK(draw(*sampler, 0, 12) == Rows{0, 3, 6, 9});
  CHECK(draw(*sampler, 4, 12) == Rows{1, 4, 7, 10});
}

TEST_CASE("cyclic_poisson: a cycle is charged at its first step, by its smallest noise",
          "[sampler][cyclic][privacy]") {
  const auto sampler = cyclic(5.0, 3, 60);
  std::vector<Event> releases;
  for (const double noise : {4.0, 2.0, 3.0, 5.0, 5.0}) releases.push_back(Event::gaussian(noise));
  CHECK(sampler->charges(releases) ==
        std::vector<Event>{Event::poisson_sampled(0.25, Event::gaussian(2.0)), Event::nothing(),
                           Event::nothing(), Event::poisson_sampled(0.25, Event::gaussian(5.0)),
                           Event::nothing()});
  // With cycles of one step it equals poisson.
  CHECK(cyclic(15.0, 1, 60)->charges(releases).back() ==
        Event::poisson_sampled(0.25, Event::gaussian(5.0)));
  CHECK(sampler->expected_batch_size(7) == 5.0);
}

TEST_CASE("cyclic_poisson: what has no proof, or no rows, is refused",
          "[sampler][cyclic][privacy]") {
  CHECK_THAT(refusal([] {
               const auto sampler = cyclic(5.0, 3, 60, Adjacency::add_or_remove_one);
               sampler->charges(std::vector<Event>{Event::gaussian(1.0)});
             }),
             ContainsSubstring("add_or_remove_one"));
  CHECK_THAT(refusal([] { cyclic(21.0, 3, 60); }), ContainsSubstring("20 may be in a step"));
  CHECK_THAT(refusal([] { cyclic(1.0, 5, 60, Adjacency::zero_out, 4); }),
             ContainsSubstring("cycle is 5"));
  CHECK_THAT(refusal([] { draw(*cyclic(5.0, 3, 60), 0, 59); }), ContainsSubstring("59 rows"));
}

}  // namespace cyclic_poisson_test
