#include <nlohmann/json.hpp>
#include <vector>

#include "accountants_pld.hpp"
#include "golden.hpp"

namespace pld_tests {

namespace {

using Json = nlohmann::json;

auto golden_steps(const Json& given, Adjacency adjacency = Adjacency::add_or_remove_one) {
  auto made = accountant({.adjacency = adjacency});
  if (given.contains("components")) {
    for (const auto& part : given.at("components")) {
      made->compose(sampled(part[0], part[1]), part[2]);
    }
  } else {
    made->compose(sampled(given.at("q"), given.at("sigma")), given.value("steps", 1));
  }
  return made;
}

/// Returns one direction of an add_or_remove_one entry, computed below the accountant's interface.
pld::Interval golden_direction(const Json& given, bool add, const pld::Question& question) {
  std::vector<pld::Step> steps;
  const auto one = [&](double q, double sigma, std::uint64_t count) {
    auto pair = sampled_gaussian(q, sigma);
    if (add) pair = pld::reversed(pair);
    steps.push_back({pair, pair, count});
  };
  if (given.contains("components")) {
    for (const auto& part : given.at("components")) one(part[0], part[1], part[2]);
  } else {
    one(given.at("q"), given.at("sigma"), given.at("steps"));
  }
  return pld::answer({steps}, question, 0.0002, 0x1p22);
}

double exact_of(const Json& value) { return std::stod(value.get<std::string>()); }

void check_golden(const PrivacyAnswer& got, const Json& exact) {
  check_holds(got, exact_of(exact));
}

/// \returns whether pld supports the kind.
bool check_entry(const std::string& kind, const Json& entry) {
  const auto& given = entry.at("inputs");
  const auto& exact = entry.contains("expected_hp") ? entry.at("expected_hp") : Json();
  const auto in_grid = [&](double upper, const Json& low, const Json& high) {
    CHECK(upper >= low.get<double>());
    CHECK(upper <= high.get<double>());
  };
  const bool epsilons = kind == "pld_sgm_eps" || kind == "pld_het_eps";
  if (epsilons || kind == "pld_sgm_delta" || kind == "pld_het_delta") {
    const std::string direction = given.at("direction");
    const auto& grid = entry.at("accept_grid");
    for (std::size_t i = 0; i < (epsilons ? 1 : exact.size()); ++i) {
      const pld::Question question{
          epsilons, (epsilons ? given.at("delta") : given.at("eps")[i]).get<double>()};
      const Json& expected = epsilons ? exact : exact[i];
      double upper = 0.0;
      if (direction == "max") {
        const PrivacyAnswer got = golden_steps(given)->epsilon(question.given);
        check_golden(got, expected);
        upper = got.value;
      } else {
        const pld::Interval got = golden_direction(given, direction == "add", question);
        check_golden({got.upper, BoundKind::upper, got.lower, got.note}, expected);
        upper = got.upper;
      }
      in_grid(upper, epsilons ? grid.at("min") : grid.at("min")[i],
              epsilons ? grid.at("max") : grid.at("max")[i]);
    }
  } else if (kind == "pld_sgm_eps_replace") {
    const PrivacyAnswer got =
        golden_steps(given, Adjacency::replace_one)->epsilon(given.at("delta"));
    check_golden(got, exact);
    in_grid(got.value, entry.at("accept_grid").at("min"), entry.at("accept_grid").at("max"));
  } else if (kind == "pld_sgm_delta_1step") {
    const double epsilon = given.at("eps");
    if (epsilon < 0.0) return true;  // accountants never get this question
    const double larger = std::max(exact_of(exact.at("remove")), exact_of(exact.at("add")));
    check_holds(golden_steps(given)->delta(epsilon), larger);
    check_golden(golden_steps(given, Adjacency::replace_one)->delta(epsilon), exact.at("replace"));
  } else if (kind == "laplace_delta") {
    const auto accountant = pld_of(Event::laplace(given.at("scale")), given.at("n"));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      check_golden(accountant->delta(given.at("eps")[i]), exact[i]);
      check_width(accountant->delta(given.at("eps")[i]), 0.01);
    }
  } else if (kind == "discrete_gaussian") {
    const auto accountant = pld_of(Event::discrete_gaussian(given.at("sigma"), 1));
    for (std::size_t i = 0; i < exact.at("delta").size(); ++i) {
      check_golden(accountant->delta(given.at("eps")[i]), exact.at("delta")[i]);
    }
  } else if (kind == "gauss_delta") {
    check_golden(pld_of(Event::gaussian(given.at("sigma")))->delta(given.at("eps")), exact);
  } else if (kind == "gauss_eps" || kind == "gauss_composed_eps") {
    const auto accountant = pld_of(Event::gaussian(given.at("sigma")), given.value("steps", 1));
    check_golden(accountant->epsilon(given.at("delta")), exact);
    check_width(accountant->epsilon(given.at("delta")), 1e-9);
  } else if (kind == "calib_sigma_pld") {
    const double sigma = entry.at("expected");
    const double relative = entry.at("tolerance").at("rel");
    const double target = given.at("target_eps");
    const auto at = [&](double s) {
      return pld_of(sampled(given.at("q"), s), given.at("steps"))->epsilon(given.at("delta"));
    };
    // The noise is never too small, and too large only within the file's tolerance.
    CHECK(at(sigma * (1.0 - 1e-9)).value > target);
    CHECK(at(sigma * (1.0 + relative)).value <= target);
  } else if (kind == "calib_steps_pld") {
    const std::uint64_t steps = entry.at("expected").at("steps");
    const auto at = [&](std::uint64_t n) {
      return pld_of(sampled(given.at("q"), given.at("sigma")), n)->epsilon(given.at("delta"));
    };
    check_golden(at(steps), exact.at("eps_at_steps"));
    check_golden(at(steps + 1), exact.at("eps_at_steps_plus_1"));
    CHECK(at(steps + 1).value > given.at("target_eps"));
  } else {
    return false;
  }
  return true;
}

}  // namespace

// 50-digit arithmetic, see tests/golden.
TEST_CASE("pld: every golden value of its kinds", "[accountant][pld][golden][slow]") {
  int compared = 0;
  const auto golden = golden_values();
  for (const auto& entry : golden.at("entries")) {
    INFO(entry.at("id").get<std::string>());
    if (check_entry(entry.at("kind"), entry)) ++compared;
  }
  CHECK(compared > 250);
}

}  // namespace pld_tests
