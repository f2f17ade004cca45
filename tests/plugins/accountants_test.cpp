#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "golden.hpp"
#include "house_plugins.hpp"
#include "privgrad/accountant.hpp"

namespace accountants_test {

using privgrad::Accountant;
using privgrad::Adjacency;
using privgrad::BoundKind;
using privgrad::Event;
using privgrad::Value;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

auto zcdp(const char* conversion = "optimal", Adjacency adjacency = Adjacency::add_or_remove_one) {
  auto accountant =
      house().create<Accountant>("zcdp", Value::Object{{"conversion", conversion, {}}});
  accountant->start(adjacency);
  return accountant;
}

auto zcdp_of(double rho, const char* conversion) {
  auto accountant = zcdp(conversion);
  accountant->compose(Event::zcdp(rho), 1);
  return accountant;
}

double epsilon_of(double rho, double delta, const char* conversion) {
  return zcdp_of(rho, conversion)->epsilon(delta).value;
}

/// Returns the total rho, recovered from the classic conversion: (sqrt(eps + L) - sqrt(L))^2.
double rho_of(const Accountant& classic) {
  const double big = 50.0;
  const double root = std::sqrt(classic.epsilon(std::exp(-big)).value + big) - std::sqrt(big);
  return root * root;
}

/// Checks an upper bound: below the true value by at most the tolerance of `expected`, and close to
/// it.
void check_upper(double got, double expected, double tolerance) {
  INFO("got " << got << ", expected " << expected);
  CHECK(got >= expected * (1.0 - 1e-15));
  CHECK(got <= expected * (1.0 + tolerance));
}

struct Case {
  double rho, parameter, value;
};

}  // namespace

// Expected values: 50-digit arithmetic, stationary point of rho (a-1)^2 = ln(1/delta) - ln a.
TEST_CASE("zcdp: the optimal conversion to epsilon", "[accountant]") {
  for (const Case& c :
       {Case{0.1, 1e-5, 1.914238832003598}, Case{0.1963, 1e-8, 3.6484589363030824},
        Case{1.0, 1e-6, 7.766216625311721}, Case{0.01, 1e-9, 0.8101744678675342},
        Case{20.0, 1e-6, 51.719404463000245}, Case{0.001, 1e-5, 0.1573353931612155}}) {
    check_upper(epsilon_of(c.rho, c.parameter, "optimal"), c.value, 1e-13);
  }
}

TEST_CASE("zcdp: the optimal conversion to delta", "[accountant]") {
  for (const Case& c :
       {Case{0.1, 1.0, 0.008933245771818364}, Case{0.01, 0.5, 3.505878060052391e-05},
        Case{5.0, 20.0, 2.3875492159453937e-06}, Case{0.1963, 4.0, 3.549998628851085e-10}}) {
    const auto answer = zcdp_of(c.rho, "optimal")->delta(c.parameter);
    check_upper(answer.value, c.value, 1e-12);
    CHECK(answer.bound == BoundKind::upper);
    CHECK_FALSE(answer.lower);
  }
}

TEST_CASE("zcdp: the classic conversion, both ways", "[accountant]") {
  // rho + 2 sqrt(rho ln(1/delta)), 50 digits.
  check_upper(epsilon_of(0.1963, 1e-8, "classic"), 3.9994458715320658, 1e-14);
  check_upper(epsilon_of(0.5, 1e-5, "classic"), 5.298525912188081, 1e-14);
  check_upper(zcdp_of(0.1963, "classic")->delta(4.0).value, 9.94646108035056e-09, 1e-13);
  // Below rho the bound is trivial.
  CHECK(zcdp_of(2.0, "classic")->delta(1.9).value == 1.0);
}

// The sensitivity of a sum of contributions with norm at most 1 is 1, 1 or 2: rho = (s/sigma)^2 /
// 2.
TEST_CASE("zcdp: a Gaussian costs what its adjacency makes of it", "[accountant]") {
  for (const auto& [adjacency, rho] :
       std::vector<std::pair<Adjacency, double>>{{Adjacency::add_or_remove_one, 0.125},
                                                 {Adjacency::zero_out, 0.125},
                                                 {Adjacency::replace_one, 0.5}}) {
    const auto accountant = zcdp("classic", adjacency);
    accountant->compose(Event::gaussian(2.0), 1);
    CHECK_THAT(rho_of(*accountant), WithinRel(rho, 1e-12));
  }
}

TEST_CASE("zcdp: what each event costs", "[accountant]") {
  const auto cost = [](const Event& event, std::uint64_t count = 1) {
    const auto accountant = zcdp("classic");
    accountant->compose(event, count);
    return rho_of(*accountant);
  };
  CHECK_THAT(cost(Event::zcdp(0.3)), WithinRel(0.3, 1e-12));
  CHECK_THAT(cost(Event::discrete_gaussian(5.0, 2)), WithinRel(0.08, 1e-12));  // 4 / 50
  CHECK_THAT(cost(Event::laplace(2.0)), WithinRel(0.125, 1e-12));  // epsilon 1/2, squared, halved
  CHECK_THAT(cost(Event::gaussian(1.0), 7), WithinRel(3.5, 1e-12));
  CHECK_THAT(cost(Event::self_composed(100, Event::gaussian(10.0))), WithinRel(0.5, 1e-12));
  CHECK_THAT(cost(Event::composed({Event::gaussian(1.0), Event::gaussian(2.0)})),
             WithinRel(0.625, 1e-12));
  CHECK(cost(Event::nothing(), 1000) == 0.0);
  CHECK(cost(Event::gaussian(1.0), 0) == 0.0);
  CHECK(cost(Event::self_composed(0, Event::non_private())) == 0.0);
  CHECK(cost(Event::discrete_gaussian(5.0, 0)) == 0.0);
}

TEST_CASE("zcdp: the papers' budget, (4, 1e-8) = 0.19635-zCDP", "[accountant]") {
  // 100 steps with sigma^2 = 100/R, where R = 0.3927037068805674 inverts the classic bound: R = 2
  // (sqrt(eps + L) - sqrt(L))^2.
  const auto accountant = zcdp("classic", Adjacency::zero_out);
  accountant->compose(Event::gaussian(std::sqrt(100.0 / 0.39270370688056744)), 100);
  CHECK_THAT(accountant->epsilon(1e-8).value, WithinRel(4.0, 1e-12));
}

TEST_CASE("zcdp: nothing released costs nothing, no noise costs everything", "[accountant]") {
  for (const char* conversion : {"optimal", "classic"}) {
    CHECK(zcdp(conversion)->epsilon(1e-5).value == 0.0);
    CHECK(zcdp(conversion)->delta(0.0).value == 0.0);
    const auto leak = zcdp(conversion);
    leak->compose(Event::non_private(), 1);
    leak->compose(Event::gaussian(1.0), 5);
    CHECK(leak->epsilon(1e-5).value == kInfinity);
    CHECK(leak->delta(100.0).value == 1.0);
    leak->start(Adjacency::zero_out);  // must forget the earlier event
    CHECK(leak->epsilon(1e-5).value == 0.0);
  }
}

TEST_CASE("zcdp: subsampling is refused with the way out, and nothing is added", "[accountant]") {
  const auto accountant = zcdp();
  accountant->compose(Event::gaussian(1.0), 3);
  const double before = accountant->epsilon(1e-5).value;
  const Event poisson = Event::poisson_sampled(0.01, Event::gaussian(1.0));
  const Event subset = Event::sampled_without_replacement(100, 10, Event::gaussian(1.0));
  for (const Event& event :
       {poisson, subset, Event::random_allocation(100, Event::gaussian(1.0)),
        Event::composed({Event::gaussian(1.0), poisson}),
        Event::self_composed(5, Event::composed({subset})), Event::unsupported("a mystery")}) {
    const auto reason = accountant->refuses(event);
    REQUIRE(reason);
    CHECK_THROWS_AS(accountant->compose(event, 1), privgrad::PrivacyError);
    CHECK(accountant->epsilon(1e-5).value == before);
  }
  CHECK_THAT(*accountant->refuses(poisson), ContainsSubstring("amplification: false"));
  CHECK_THAT(*accountant->refuses(Event::unsupported("a mystery")), ContainsSubstring("a mystery"));
  CHECK_FALSE(accountant->refuses(Event::gaussian(1.0)));
}

TEST_CASE("zcdp: out of range is an error, not an answer", "[accountant]") {
  const auto accountant = zcdp_of(0.1, "optimal");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double delta : {0.0, 1.0, -1e-5, 2.0, nan}) {
    CHECK_THROWS_AS(accountant->epsilon(delta), privgrad::ConfigError);
  }
  for (const double epsilon : {-1e-9, kInfinity, nan}) {
    CHECK_THROWS_AS(accountant->delta(epsilon), privgrad::ConfigError);
  }
  CHECK_THROWS_WITH(zcdp("tight"), ContainsSubstring("allowed are optimal, classic"));
}

TEST_CASE("zcdp: over its whole range a bound, ordered as bounds must be", "[accountant]") {
  const std::vector<double> rhos{1e-300, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e5, 1e8};
  const std::vector<double> deltas{1e-300, 1e-100, 1e-20, 1e-10,     1e-5,
                                   0.01,   0.5,    0.999, 1.0 - 1e-9};
  for (const double rho : rhos) {
    double previous = kInfinity;
    for (const double delta : deltas) {
      INFO("rho " << rho << ", delta " << delta);
      const double classic = epsilon_of(rho, delta, "classic");
      const double optimal = epsilon_of(rho, delta, "optimal");
      CHECK(optimal >= 0.0);
      CHECK(optimal <= classic);
      CHECK(optimal <= previous);  // a larger delta never costs a larger epsilon
      CHECK(optimal <= epsilon_of(rho * 1.01, delta, "optimal"));
      previous = optimal;
      // Every order gives a proof, so no order may give less than the infimum (up to rounding in
      // this sum).
      const double log_inverse_delta = -std::log(delta);
      for (double x = 1e-10; x < 1e12; x *= 3.0) {
        const double size = (1.0 + x) * rho + (log_inverse_delta + std::log1p(x)) / x;
        const double bound =
            (1.0 + x) * rho - std::log1p(1.0 / x) + (log_inverse_delta - std::log1p(x)) / x;
        CHECK(optimal <= std::max(0.0, bound) + 1e-14 * (1.0 + size));
      }
      // Round trip: the delta of that epsilon is at most the given delta.
      if (optimal > 0.0) {
        const double back = zcdp_of(rho, "optimal")->delta(optimal).value;
        CHECK(back <= delta * (1.0 + 1e-9) + 1e-300);
      }
    }
  }
}

TEST_CASE("zcdp: many small costs are neither lost nor rounded down", "[accountant]") {
  // 1 + 10^6 * 2^-54: each term alone would vanish in a plain sum.
  const auto accountant = zcdp("classic");
  accountant->compose(Event::zcdp(1.0), 1);
  for (int i = 0; i < 1000000; ++i) accountant->compose(Event::zcdp(0x1p-54), 1);
  const double exact = 1.0 + 1e6 * 0x1p-54;
  const auto reference = zcdp_of(exact, "classic");
  CHECK(accountant->epsilon(0.1).value >= reference->epsilon(0.1).value);
  CHECK_THAT(accountant->epsilon(0.1).value, WithinRel(reference->epsilon(0.1).value, 1e-14));
}

// 50-digit arithmetic, see tests/golden.
TEST_CASE("zcdp: every golden value of its kinds", "[accountant][golden]") {
  int compared = 0;
  const auto golden = golden_values();
  for (const auto& entry : golden.at("entries")) {
    const std::string kind = entry.at("kind");
    if (!kind.starts_with("zcdp_") && kind != "gauss_zcdp_rho") continue;
    INFO(entry.at("id").get<std::string>());
    const auto& given = entry.at("inputs");
    const auto& expected = entry.at("expected");
    const double tolerance = entry.at("tolerance").at("rel");
    if (kind == "zcdp_eps_classic") {
      check_upper(epsilon_of(given.at("rho"), given.at("delta"), "classic"), expected, tolerance);
    } else if (kind == "zcdp_eps_tight") {
      check_upper(epsilon_of(given.at("rho"), given.at("delta"), "optimal"), expected.at("eps"),
                  tolerance);
    } else if (kind == "zcdp_delta_classic") {
      check_upper(zcdp_of(given.at("rho"), "classic")->delta(given.at("eps")).value, expected,
                  tolerance);
    } else if (kind == "zcdp_delta_tight") {
      check_upper(zcdp_of(given.at("rho"), "optimal")->delta(given.at("eps")).value,
                  expected.at("delta"), tolerance);
    } else if (kind == "zcdp_rho_from_epsdelta") {
      // The inverse of the classic conversion: this rho must give that epsilon.
      check_upper(epsilon_of(expected.at("rho"), given.at("delta"), "classic"), given.at("eps"),
                  tolerance);
    } else {
      REQUIRE(kind == "gauss_zcdp_rho");
      const double multiplier =
          given.at("sigma").get<double>() / given.at("l2_sensitivity").get<double>();
      const auto accountant = zcdp("classic");
      accountant->compose(Event::gaussian(multiplier), 1);
      // Compares epsilons, because rho itself is not part of the interface.
      check_upper(accountant->epsilon(1e-5).value, epsilon_of(expected, 1e-5, "classic"), 1e-14);
    }
    ++compared;
  }
  CHECK(compared > 0);
}

// The interval of the joint noise multiplier is tested with joint_gaussian(); this test checks that
// each accountant that samples Gaussians combines them, at exactly their joint cost.
TEST_CASE("Gaussians on one sampled batch cost what their joint Gaussian does", "[accountant]") {
  const Event together = Event::poisson_sampled(
      0.05, Event::composed({Event::gaussian(3.0), Event::self_composed(1, Event::gaussian(4.0))}));
  const Event joint = Event::poisson_sampled(0.05, Event::gaussian(2.4));
  const Event apart = Event::composed({Event::poisson_sampled(0.05, Event::gaussian(3.0)),
                                       Event::poisson_sampled(0.05, Event::gaussian(4.0))});
  for (const char* name : {"rdp", "pld", "saddle_point"}) {
    for (const Adjacency adjacency :
         {Adjacency::add_or_remove_one, Adjacency::zero_out, Adjacency::replace_one}) {
      if (name == std::string("rdp") && adjacency == Adjacency::replace_one) continue;
      INFO(name << ", " << privgrad::to_text(adjacency));
      const auto cost = [&](const Event& event) {
        const auto accountant = house().create<privgrad::Accountant>(name, Value::Object{});
        accountant->start(adjacency);
        accountant->compose(event, 40);
        return accountant->epsilon(1e-5);
      };
      const privgrad::PrivacyAnswer got = cost(together);
      const privgrad::PrivacyAnswer expected = cost(joint);
      // The intervals of pld come from different grids.
      const double near = name == std::string("pld") ? 1e-6 : 1e-9;
      CHECK(got.value >= expected.lower.value_or(expected.value) * (1.0 - 1e-12));
      CHECK(got.value <= expected.value * (1.0 + near));
      CHECK(got.lower.has_value() == expected.lower.has_value());
      if (got.lower) CHECK(*got.lower <= expected.value);
      // Two releases on the same batch reveal more than two releases on separate batches.
      CHECK(cost(apart).value < got.value);
    }
  }
}

}  // namespace accountants_test
