#include "privgrad/statement/membership.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"

using namespace privgrad;
using core::least_found;
using core::most_found;
using core::ProvedPair;

TEST_CASE("what a test finds of members is bounded by both halves of the definition",
          "[membership][privacy]") {
  // Expected: the smaller of e^epsilon w + delta and 1 - e^-epsilon (1 - delta - w), w = wrongly.
  const double ln2 = std::log(2.0);
  CHECK_THAT(most_found(0.05, 0.0, 0.0), WithinAbs(0.05, 1e-13));
  CHECK_THAT(most_found(0.05, ln2, 0.0), WithinAbs(0.1, 1e-13));
  CHECK_THAT(most_found(0.05, ln2, 0.01), WithinAbs(0.11, 1e-13));
  CHECK_THAT(most_found(0.4, ln2, 0.0), WithinAbs(0.7, 1e-13));    // 0.8, and 1 - 0.6/2
  CHECK_THAT(most_found(0.4, ln2, 0.02), WithinAbs(0.71, 1e-13));  // 0.82, and 1 - 0.58/2
  CHECK(most_found(0.05, std::numeric_limits<double>::infinity(), 0.0) == 1.0);
  CHECK(most_found(0.5, 50.0, 0.6) == 1.0);
  // The result is rounded up.
  CHECK(most_found(0.05, 0.0, 0.0) > 0.05);
}

TEST_CASE("the best of several proved pairs bounds a test", "[membership]") {
  const std::vector<ProvedPair> pairs{{std::log(4.0), 0.0}, {std::log(2.0), 0.01}, {0.0, 0.5}};
  const core::TestBound bound = least_found(0.05, pairs);  // 0.2, 0.11 and 0.55
  CHECK_THAT(bound.found, WithinAbs(0.11, 1e-13));
  CHECK(bound.by.delta == 0.01);
  CHECK(bound.wrongly == 0.05);
  CHECK_THAT(core::least_missed(bound), WithinAbs(0.89, 1e-13));
  CHECK(core::least_missed({.wrongly = 0.05, .found = 1.0, .by = {}}) == 0.0);
}

TEST_CASE("a statement's test has the stated point where nothing better is proved",
          "[membership]") {
  // "counting" proves no delta below 1. At epsilon ln 2 and delta 1e-5 a test finds 0.10001.
  const core::Manifest manifest = counted({"privacy.target_delta=1e-5"});
  core::Plan plan;
  plan.manifest = &manifest;
  plan.charges = full_steps(2, 1.0);
  core::Outcome outcome;
  outcome.paid = {.charged = 2, .accounted = 2};
  outcome.epsilon = {std::log(2.0), BoundKind::upper, {}, ""};
  const core::MembershipTest test = core::membership_test(plan, outcome);
  CHECK(test.wrongly_accused == 0.05);
  CHECK_THAT(test.found_at_most, WithinAbs(0.10001, 1e-13));
  CHECK(test.epsilon.value() == std::log(2.0));
  CHECK(test.delta == 1e-5);
  outcome.epsilon.value = std::numeric_limits<double>::infinity();
  CHECK(core::membership_test(plan, outcome).found_at_most == 1.0);
}
