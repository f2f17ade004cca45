// The loss distribution of an epoch of random allocation, bounded from both sides, and its
// compositions.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "answer.hpp"
#include "ratio_law.hpp"
#include "ratio_pair.hpp"
#include "support.hpp"

namespace allocation_tests {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNodes = 1000;

struct Moments {
  double mass = 0.0, mean = 0.0, square = 0.0;
};

Moments moments_of(const pld::RatioLaw& law) {
  Moments moments{.mean = law.beyond};
  for (std::size_t k = 0; k < law.value.size(); ++k) {
    moments.mass += law.mass[k];
    moments.mean += law.mass[k] * law.value[k];
    moments.square += law.mass[k] * law.value[k] * law.value[k];
  }
  return moments;
}

/// Returns epsilon of this many epochs, in one direction.
pld::Interval epsilon_of(const pld::RatioBracket& law, const std::string& direction,
                         std::uint64_t epochs, double delta) {
  const auto pair = direction == "add" ? pld::reversed_pair_of_ratio : pld::pair_of_ratio;
  return pld::answer({{{pair(law.upper), pair(law.lower), epochs}}},
                     {.wants_epsilon = true, .given = delta}, 1e-4, 1048576.0);
}

/// Whether two intervals overlap, as they must around the same number.
bool overlap(const pld::Interval& ours, double low, double high) {
  return ours.lower <= high && low <= ours.upper;
}

/// A pair that counts how often it is evaluated.
class Counted final : public pld::LossPair {
 public:
  Counted(pld::LossPairPtr pair, std::size_t& looks) : pair_(std::move(pair)), looks_(looks) {}
  pld::Tails at(double threshold) const override {
    ++looks_;
    return pair_->at(threshold);
  }
  std::vector<pld::Sample> samples() const override { return pair_->samples(); }
  bool is_one_of_two_sides() const override { return pair_->is_one_of_two_sides(); }
  bool symmetric() const override { return pair_->symmetric(); }

 private:
  pld::LossPairPtr pair_;
  std::size_t& looks_;
};

std::vector<Json> golden_allocations() {
  std::ifstream file(kSource / "tests/golden/allocation.jsonl");
  REQUIRE(file);
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  return cases;
}

}  // namespace

TEST_CASE("allocation: a law has mass 1 and mean 1, and its variance is on its side",
          "[accountant][pld][allocation]") {
  for (const std::uint64_t steps : {1, 2, 3, 7, 100, 4096}) {
    for (const double sigma : {0.4, 1.0, 5.0}) {
      CAPTURE(steps, sigma);
      const pld::RatioBracket law = pld::allocation_ratio(steps, sigma, kNodes);
      const double variance = std::expm1(1.0 / (sigma * sigma)) / static_cast<double>(steps);
      const Moments upper = moments_of(law.upper), lower = moments_of(law.lower);
      for (const Moments& side : {upper, lower}) {
        CHECK_THAT(side.mass, WithinAbs(1.0, 1e-8));
        CHECK_THAT(side.mean, WithinAbs(1.0, 1e-8));
      }
      CHECK(upper.mass >= 1.0);
      CHECK(lower.mass <= 1.0);
      // For few steps with little noise, the variance depends on the last 1e-19 of P.
      if (sigma >= 1.0) CHECK(upper.square >= 1.0 + variance);
      CHECK(lower.square <= 1.0 + variance);
    }
  }
}

TEST_CASE("allocation: one step is the Gaussian mechanism", "[accountant][pld][allocation]") {
  for (const double sigma : {0.3, 1.0, 4.0}) {
    const pld::RatioBracket law = pld::allocation_ratio(1, sigma, 2 * kNodes);
    const auto gaussian = pld::gaussian(sigma);
    for (const double epsilon : {0.0, 0.1, 1.0, 5.0}) {
      CAPTURE(sigma, epsilon);
      const pld::Divergence exact = gaussian->divergence(epsilon);
      for (const auto pair : {pld::pair_of_ratio, pld::reversed_pair_of_ratio}) {
        const pld::Divergence upper = pair(law.upper)->divergence(epsilon);
        const pld::Divergence lower = pair(law.lower)->divergence(epsilon);
        CHECK(upper.value + upper.error >= exact.value - exact.error);
        CHECK(lower.value - lower.error <= exact.value + exact.error);
        CHECK(upper.value - lower.value <= 1e-3 * exact.value + 1e-15);
      }
    }
  }
}

TEST_CASE("allocation: every golden value is inside", "[accountant][pld][allocation][slow]") {
  double widest = 0.0;
  for (const Json& given : golden_allocations()) {
    CAPTURE(given.dump());
    const auto law = pld::allocation_ratio(given.at("steps"), given.at("noise_multiplier"), kNodes);
    const auto epsilon = [&](const std::string& direction) {
      return epsilon_of(law, direction, given.at("epochs"), given.at("delta"));
    };
    if (given.contains("exact")) {
      for (const auto& [direction, exact] : given.at("exact").items()) {
        const pld::Interval ours = epsilon(direction);
        CHECK(ours.lower <= exact.get<double>());
        CHECK(ours.upper >= exact.get<double>());
      }
      continue;
    }
    double high = 0.0, low = 0.0;
    for (const auto& [direction, within] : given.at("within").items()) {
      const pld::Interval ours = epsilon(direction);
      CHECK(overlap(ours, within[0], within[1]));
      high = std::max(high, ours.upper);
      low = std::max(low, ours.lower);
    }
    if (high > 0.0) widest = std::max(widest, (high - low) / high);
  }
  CHECK(widest <= 2e-3);
}

TEST_CASE("allocation: more nodes, a narrower interval inside the wider one",
          "[accountant][pld][allocation]") {
  for (const auto& [steps, sigma] : {std::pair{50, 0.6}, {1000, 1.0}}) {
    double width = 1.0;
    pld::Interval wide{.lower = 0.0, .upper = 1e9, .note = ""};
    for (const std::size_t nodes : {250, 500, 1000}) {
      const auto law = pld::allocation_ratio(static_cast<std::uint64_t>(steps), sigma, nodes);
      const pld::Interval interval = epsilon_of(law, "remove", 1, 1e-6);
      CHECK(overlap(interval, wide.lower, wide.upper));
      CHECK(interval.upper - interval.lower < width / 2.0);
      width = interval.upper - interval.lower;
      wide = interval;
    }
  }
}

TEST_CASE("allocation: no grid is made finer once the laws' distance is what is left",
          "[accountant][pld][allocation]") {
  const auto law = pld::allocation_ratio(100, 1.0, kNodes);
  std::size_t looks = 0;
  const auto counted = [&](const pld::RatioLaw& side) {
    return std::make_shared<Counted>(pld::pair_of_ratio(side), looks);
  };
  const std::vector<std::vector<pld::Step>> epochs{{{counted(law.upper), counted(law.lower), 64}}};
  const pld::Interval found =
      pld::answer(epochs, {.wants_epsilon = true, .given = 1e-5}, 5e-5, 1048576.0);
  CHECK(found.upper - found.lower < 3e-4 * found.upper);
  CHECK(looks < 12'000);  // the largest grids need twice as many
}

TEST_CASE("allocation: many steps, a narrow interval", "[accountant][pld][allocation]") {
  const auto law = pld::allocation_ratio(100'000, 1.0, 1300);
  const pld::Interval one = epsilon_of(law, "remove", 1, 1e-5);
  CHECK(one.upper - one.lower < 1.8e-4 * one.upper);
}

// For tiny deltas, a law leaves more mass above its last value than a grid above its last node.
TEST_CASE("allocation: deep tails have answers too", "[accountant][pld][allocation]") {
  const auto law = pld::allocation_ratio(20, 0.5, kNodes);
  for (const std::string direction : {"remove", "add"}) {
    const pld::Interval deep = epsilon_of(law, direction, 2, 1e-12);
    CHECK(deep.upper - deep.lower < 0.02 * deep.upper);
  }
}

// For such a large epsilon, only P's mass of 1e-19 beyond a law's last value counts.
TEST_CASE("allocation: what lies beyond the last value counts, in sums and in compositions",
          "[accountant][pld][allocation]") {
  const auto normal = [](double z) { return 0.5 * std::erfc(-z * std::sqrt(0.5)); };
  const auto gaussian_delta = [&](double epsilon, double mu) {
    return normal(0.5 * mu - epsilon / mu) - std::exp(epsilon) * normal(-0.5 * mu - epsilon / mu);
  };
  for (const double sigma : {0.5, 1.0}) {
    for (const std::uint64_t steps : {1, 2, 3, 8}) {
      CAPTURE(sigma, steps);
      const pld::RatioLaw law = pld::allocation_ratio(steps, sigma, kNodes).upper;
      const double epsilon = std::log(law.value.back()) + 0.2;
      const pld::Divergence upper = pld::pair_of_ratio(law)->divergence(epsilon);
      // By Jensen's inequality, E (M - x)_+ does not grow if all terms of M except one are set to
      // their mean, 1.
      const auto t = static_cast<double>(steps);
      const double one = gaussian_delta(std::log(t * std::exp(epsilon) - t + 1.0), 1.0 / sigma) / t;
      REQUIRE(one > 0.0);
      CHECK(upper.value >= one);
    }
    const auto law = pld::allocation_ratio(1, sigma, kNodes);
    const double epsilon = 2.0 * std::log(law.upper.value.back()) + 0.2;
    const pld::Interval two =
        pld::answer({{{pld::pair_of_ratio(law.upper), pld::pair_of_ratio(law.lower), 2}}},
                    {.wants_epsilon = false, .given = epsilon}, 1e-4, 1048576.0);
    CHECK(two.upper >= gaussian_delta(epsilon, std::sqrt(2.0) / sigma));
  }
}

TEST_CASE("allocation: the cost falls with the steps of an epoch, from that of the full release",
          "[accountant][pld][allocation]") {
  for (const std::string direction : {"remove", "add"}) {
    double last = epsilon_of(pld::allocation_ratio(1, 1.0, kNodes), direction, 3, 1e-6).upper;
    for (const std::uint64_t steps : {2, 4, 16, 256}) {
      const pld::Interval now =
          epsilon_of(pld::allocation_ratio(steps, 1.0, kNodes), direction, 3, 1e-6);
      CHECK(now.upper < last);
      last = now.lower;
    }
  }
}

}  // namespace allocation_tests
