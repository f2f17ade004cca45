#include <cmath>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/schedule.hpp"

using privgrad::AdaptiveLocalIterations;
using privgrad::ConfigError;
using privgrad::FederatedProgress;
using privgrad::Schedule;
using privgrad::Value;

namespace {

/// The schedule, started for so many rounds (Rs) and local steps (Rc).
struct Ali {
  Ali(std::uint64_t rounds, std::uint64_t steps, Value::Object params = {})
      : schedule(house().create<Schedule>("ali_dpfl", Value(std::move(params)))),
        chooses(dynamic_cast<AdaptiveLocalIterations*>(schedule.get())) {
    REQUIRE(chooses != nullptr);
    schedule->start({.steps = rounds, .slot = "local_iterations"});
    by_estimates = chooses->start_rounds(rounds, steps);
  }
  std::uint64_t next(const FederatedProgress& progress) { return chooses->next(progress); }

  privgrad::ComponentPtr<Schedule> schedule;
  AdaptiveLocalIterations* chooses;
  bool by_estimates = false;
};

/// The model of the paper's size: d = 1.66 million, sigma C / B = 1.1 * 0.1 / 75.
FederatedProgress progress() {
  FederatedProgress now;
  now.round = 5;
  now.rounds_left = 100;
  now.steps_left = 500;
  now.last = 8;
  now.parameters = 1663370;
  now.learning_rate = 0.5;
  now.clip_norm = 0.1;
  now.gradient_noise = 1.1 * 0.1 / 75.0;
  now.lipschitz = 0.05;
  now.smoothness = 0.8;
  now.divergence = 0.1;
  now.convexity = 0.5;
  now.heterogeneity = 0.2;
  return now;
}

/// G(tau) as printed, with the corrected h, for phi = lambda = 1; infinite where it says nothing.
double bound(const FederatedProgress& now, double tau) {
  const double noise = std::sqrt(static_cast<double>(now.parameters)) * now.gradient_noise;
  const double s = *now.divergence + 2.0 * noise, b = *now.smoothness, eta = now.learning_rate;
  const double h = s / b * (std::pow(eta * b + 1.0, tau) - 1.0) - eta * s * tau;
  const double all =
      std::min(static_cast<double>(now.rounds_left) * tau, static_cast<double>(now.steps_left));
  const double speed = eta - *now.lipschitz * h / tau;
  return speed > 0.0 ? 1.0 / (all * speed) + std::sqrt(3.0) / 3.0 : HUGE_VAL;
}

}  // namespace

TEST_CASE("ali_dpfl: the search finds the least bound over 1 to min(2 tau, 100)", "[ali]") {
  Ali ali(158, 1000);
  CHECK(ali.by_estimates);
  for (const double slope : {0.0, 0.01, 0.05, 0.2, 1.0}) {
    for (const std::uint64_t last : {1u, 3u, 8u, 70u}) {
      FederatedProgress now = progress();
      now.lipschitz = slope;
      now.last = last;
      std::uint64_t best = 1;
      for (std::uint64_t tau = 2; tau <= std::min<std::uint64_t>(2 * last, 100); ++tau) {
        if (bound(now, static_cast<double>(tau)) < bound(now, static_cast<double>(best)))
          best = tau;
      }
      INFO("slope " << slope << ", last " << last);
      CHECK(ali.next(now) == best);
    }
  }
}

TEST_CASE("ali_dpfl: without a gap it makes all the steps that are paid for", "[ali]") {
  // h = 0, so the bound is 1/(T eta phi): the least tau with T = Rc, which is Rc/Rs.
  Ali ali(100, 500);
  FederatedProgress now = progress();
  now.lipschitz = 0.0;
  CHECK(ali.next(now) == 5);
}

// Erratum: Eq. 11 divides xi by B in its second term, by which h(1) is not 0. As printed, a round
// of one step would have a gap of eta xi (1 - 1/B) against central descent, which it is.
TEST_CASE("erratum of Eq. 11: one local step has no gap", "[ali][errata]") {
  const double xi = 0.1, noise = 2.0 * 1.9, b = 0.8, eta = 0.5, batch = 75.0;
  const auto h = [&](double second, double x) {
    return (xi + noise) / b * (std::pow(eta * b + 1.0, x) - 1.0) - eta * second * x;
  };
  CHECK_THAT(h(xi + noise, 1.0), WithinAbs(0.0, 1e-12));
  const double as_printed = h((xi + noise * batch) / batch, 1.0);
  CHECK_THAT(as_printed, WithinRel(eta * xi * (1.0 - 1.0 / batch), 1e-9));
  // So the schedule takes one step rather than none, however bad the estimates are.
  Ali ali(158, 1000);
  FederatedProgress now = progress();
  now.lipschitz = 1e6;
  now.divergence = 1e6;
  CHECK(ali.next(now) == 1);
}

TEST_CASE("ali_dpfl: the closed form", "[ali]") {
  // sqrt(1 + (4/mu^2 + 3 C^2 + 2 Gamma T mu + b)/((2 + 2/T)(C^2 + b))): C = 0.1, mu = 0.5,
  // Gamma = 0.2, b = 1663370 (1.1 * 0.1 / 75)^2 = 3.57809..., T = min(100 * 8, 500) = 500:
  // sqrt(1 + (16 + 0.03 + 100 + 3.57809)/(2.004 * 3.58809)) = sqrt(17.634...) = 4.199...
  Ali ali(158, 1000, {{"form", "closed", {}}});
  CHECK(ali.next(progress()) == 4);
  FederatedProgress flat = progress();
  flat.convexity = -0.1;
  CHECK(ali.next(flat) == 100);
  FederatedProgress short_of_budget = flat;
  short_of_budget.rounds_left = 2;
  short_of_budget.steps_left = 7;
  CHECK(ali.next(short_of_budget) == 7);
}

TEST_CASE("ali_dpfl: with a round for every step it makes one, without estimates", "[ali]") {
  for (const auto& [rounds, steps] : {std::pair{317u, 317u}, std::pair{158u, 79u}}) {
    Ali ali(rounds, steps);
    CHECK_FALSE(ali.by_estimates);
    CHECK(ali.next(progress()) == 1);
  }
  Ali ali(158, 1000);
  FederatedProgress now = progress();
  now.rounds_left = now.steps_left = 40;
  CHECK(ali.next(now) == 1);
}

TEST_CASE("ali_dpfl: it begins with one step, and stays until it knows more", "[ali]") {
  Ali ali(158, 1000);
  FederatedProgress now = progress();
  now.last = 0;
  now.lipschitz = now.smoothness = now.divergence = {};
  CHECK(ali.next(now) == 1);
  now.last = 3;
  CHECK(ali.next(now) == 3);
}

TEST_CASE("ali_dpfl: memory mixes estimates with those before", "[ali]") {
  // With a slope of 1e6 the choice is 1 and with 0 it is 5 (above); half of 1e6 is still far too
  // much, and after 40 rounds of slope 0 nothing is left of it.
  Ali ali(100, 500, {{"memory", 0.5, {}}});
  FederatedProgress now = progress();
  now.lipschitz = 1e6;
  CHECK(ali.next(now) == 1);
  now.lipschitz = 0.0;
  CHECK(ali.next(now) == 1);
  for (int i = 0; i < 60; ++i) ali.next(now);
  CHECK(ali.next(now) == 5);
}

TEST_CASE("ali_dpfl: its place is federated.local_iterations", "[ali]") {
  const auto schedule = house().create<Schedule>("ali_dpfl", Value::Object{});
  CHECK_THROWS_AS(schedule->start({.steps = 3, .slot = "learning_rate"}), ConfigError);
}
