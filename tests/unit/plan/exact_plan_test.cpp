#include "privgrad/plan/exact_plan.hpp"

#include <cmath>

#include "counted_manifest.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"

using namespace privgrad;
using core::Manifest;
using core::PlanNumbers;

TEST_CASE("a batch may have twice its expected rows where their number is public", "[exact]") {
  const auto most = [&](std::vector<double> batch_size) {
    PlanNumbers plan;
    plan.batch_size = std::move(batch_size);
    return core::most_rows(Adjacency::zero_out, plan);
  };
  CHECK(most({3.0, 100.0, 20.0}) == 200);
  CHECK(most({2.25}) == 5);
  CHECK(most({0.1}) == 1);
  CHECK(most({1e18}) == core::kMostBatchRows);
}

TEST_CASE("a batch may have any number of rows where their number is private", "[exact][privacy]") {
  PlanNumbers plan;
  plan.batch_size = {3.0};
  CHECK(core::most_rows(Adjacency::add_or_remove_one, plan) == core::kMostBatchRows);
}

TEST_CASE("the largest noise of a step is drawn in whole numbers, and a larger one is refused",
          "[exact]") {
  // 2^26 cells per clip norm, and noise of at most 2^60 cells.
  const Manifest manifest = counted();
  const auto check = [&](double noise) {
    PlanNumbers plan;
    plan.noise_multiplier = {1.0, noise, 1.0};
    plan.batch_size = {1.0, 1.0, 1.0};
    core::check_exact_range(manifest.aggregator, manifest.adjacency, plan, nullptr);
  };
  CHECK_NOTHROW(check(0x1p34));
  CHECK_THROWS_WITH(check(std::nextafter(0x1p34, 0x1p35)),
                    ContainsSubstring("allowed in exact arithmetic is"));
}
