#include "noise_allocation.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "counted_manifest.hpp"

using namespace privgrad;
using core::Charge;

namespace {

using Noise = std::vector<double>;

std::vector<Charge> charged_in_full(const Noise& noise) {
  std::vector<Charge> charges;
  for (std::size_t t = 0; t < noise.size(); ++t)
    charges.push_back({t, Event::gaussian(noise[t]), Event::gaussian(noise[t])});
  return charges;
}

/// Returns the sum of 1/sigma^2 over all charges.
double inverse_squares(std::span<const Charge> charges) {
  double sum = 0.0;
  for (const Charge& one : charges) {
    const auto* gaussian = std::get_if<GaussianEvent>(&one.cost.kind());
    if (gaussian != nullptr) sum += 1.0 / (gaussian->noise_multiplier * gaussian->noise_multiplier);
  }
  return sum;
}

}  // namespace

TEST_CASE("steps cost 1/sigma^2 if each is charged for its noise by one factor", "[allocation]") {
  const Noise noise{1.0, 2.0};
  const auto costs = [&](const Event& first, const Event& second) {
    return core::costs_inverse_square(
        std::vector<Charge>{{0, Event::gaussian(1.0), first}, {1, Event::gaussian(2.0), second}},
        noise);
  };
  CHECK(costs(Event::gaussian(1.0), Event::gaussian(2.0)));
  CHECK(costs(Event::gaussian(0.5), Event::gaussian(1.0)));
  CHECK_FALSE(costs(Event::gaussian(1.0), Event::gaussian(1.9)));
  CHECK_FALSE(costs(Event::gaussian(1.0), Event::nothing()));
  CHECK_FALSE(costs(Event::poisson_sampled(0.5, Event::gaussian(1.0)), Event::gaussian(2.0)));
  CHECK_FALSE(core::costs_inverse_square({}, noise));
}

TEST_CASE("a budget is divided by influence as the Lagrange conditions say", "[allocation]") {
  // The sum of q_t s_t^2 at a given sum of 1/s_t^2 is smallest if s_t^2 is in proportion to
  // q_t^(-1/2). For q = (1, 16, 81) that is 1 : 1/4 : 1/9. At uniform noise 2 the steps cost 3/4,
  // and with s_t^2 = c (1, 1/4, 1/9) they cost 14/c, so c is 56/3.
  const Noise influence{1.0, 16.0, 81.0};
  core::KeptNumbers kept;
  const Noise noise = core::noise_by_cost(influence, 2.0, charged_in_full, inverse_squares, kept);
  REQUIRE(noise.size() == 3);
  const double c = 56.0 / 3.0;
  CHECK_THAT(noise[0], WithinRel(std::sqrt(c), 1e-6));
  CHECK_THAT(noise[1], WithinRel(std::sqrt(c / 4.0), 1e-6));
  CHECK_THAT(noise[2], WithinRel(std::sqrt(c / 9.0), 1e-6));
  CHECK_THAT(inverse_squares(charged_in_full(noise)), WithinRel(0.75, 1e-6));
}

TEST_CASE("steps that are paid for together have one noise, by their influence in all",
          "[allocation]") {
  // Blocks of two steps, with influence 1 + 0 and 10 + 6.
  const auto in_blocks = [](const Noise& noise) {
    std::vector<Charge> charges = charged_in_full(noise);
    charges[1].cost = charges[3].cost = Event::nothing();
    return charges;
  };
  core::KeptNumbers kept;
  const Noise noise =
      core::noise_by_cost(Noise{1.0, 0.0, 10.0, 6.0}, 2.0, in_blocks, inverse_squares, kept);
  CHECK(noise[0] == noise[1]);
  CHECK(noise[2] == noise[3]);
  CHECK_THAT(noise[0] / noise[2], WithinRel(2.0, 1e-6));
}
