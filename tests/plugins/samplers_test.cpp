#include <cstdint>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/sampler.hpp"
#include "test_random.hpp"

using privgrad::Adjacency;
using privgrad::Event;
using privgrad::Sampler;
using privgrad::Value;

namespace {

std::vector<std::uint32_t> draw(Sampler& sampler, std::uint64_t step, std::size_t rows,
                                std::uint64_t seed = 1) {
  std::vector<std::uint32_t> batch{99};  // what was in it before must not matter
  sampler.sample(step, rows, TestRandom(seed), batch);
  return batch;
}

}  // namespace

TEST_CASE("full_batch: every row, charged in full", "[sampler]") {
  const auto sampler = house().create<Sampler>("full_batch", Value::Object{});
  sampler->start({.dataset_size = 4, .steps = 2, .adjacency = Adjacency::zero_out});
  CHECK(sampler->expected_batch_size() == 4.0);
  CHECK(draw(*sampler, 0, 4) == std::vector<std::uint32_t>{0, 1, 2, 3});
  const std::vector<Event> releases{Event::gaussian(1.0), Event::gaussian(2.0)};
  CHECK(sampler->charges(releases) == releases);
}

TEST_CASE("full_batch: the divisor is the plan's even when the rows are not", "[sampler]") {
  const auto sampler = house().create<Sampler>("full_batch", Value::Object{});
  SECTION("add_or_remove_one: the size is private, so it may differ") {
    sampler->start({.dataset_size = 4, .steps = 1, .adjacency = Adjacency::add_or_remove_one});
    CHECK(draw(*sampler, 0, 5).size() == 5);
    CHECK(draw(*sampler, 0, 0).empty());
    CHECK(sampler->expected_batch_size() == 4.0);
  }
  SECTION("the others: the size is public, so it may not") {
    for (const Adjacency adjacency : {Adjacency::replace_one, Adjacency::zero_out}) {
      sampler->start({.dataset_size = 4, .steps = 1, .adjacency = adjacency});
      CHECK_THROWS_AS(draw(*sampler, 0, 3), privgrad::ConfigError);
    }
  }
  SECTION("an empty data set has no divisor") {
    CHECK_THROWS_AS(
        sampler->start({.dataset_size = 0, .steps = 1, .adjacency = Adjacency::zero_out}),
        privgrad::ConfigError);
  }
}
