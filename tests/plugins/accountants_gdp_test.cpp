#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "golden.hpp"
#include "house_plugins.hpp"
#include "privgrad/accountant.hpp"

namespace accountants_gdp_test {

using privgrad::Accountant;
using privgrad::Adjacency;
using privgrad::BoundKind;
using privgrad::Event;
using privgrad::Value;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

auto gdp(bool clt = false, Adjacency adjacency = Adjacency::add_or_remove_one) {
  auto accountant = house().create<Accountant>("gdp", Value::Object{{"clt", clt, {}}});
  accountant->start(adjacency);
  return accountant;
}

auto gdp_of(const Event& event, std::uint64_t count = 1,
            Adjacency adjacency = Adjacency::add_or_remove_one) {
  auto accountant = gdp(false, adjacency);
  accountant->compose(event, count);
  return accountant;
}

Event sampled(double q, double sigma) { return Event::poisson_sampled(q, Event::gaussian(sigma)); }

/// Checks an exact value that is rounded up.
void check_exact(double got, double expected, double relative, double absolute = 0.0) {
  INFO("got " << got << ", expected " << expected);
  CHECK(got >= expected * (1.0 - 1e-15));
  CHECK(got <= expected * (1.0 + relative) + absolute);
}

struct Case {
  double sigma, parameter, value;
};

}  // namespace

// Balle and Wang's formula in 50-digit arithmetic.
TEST_CASE("gdp: the exact delta of one Gaussian", "[accountant]") {
  for (const Case& c :
       {Case{1.0, 1.0, 0.12693673750664394}, Case{1.1, 8.0, 3.403512339000801e-18},
        Case{0.2, 30.0, 0.000131326271113373}, Case{4.0, 0.0, 0.09947644966022579},
        Case{0.7, 20.0, 1.3471409490437106e-41}, Case{50.0, 0.05, 4.109573341021319e-05}}) {
    const auto answer = gdp_of(Event::gaussian(c.sigma))->delta(c.parameter);
    check_exact(answer.value, c.value, 1e-12);
    CHECK(answer.bound == BoundKind::exact);
  }
}

TEST_CASE("gdp: the exact epsilon of one Gaussian", "[accountant]") {
  for (const Case& c : {Case{1.0, 1e-5, 4.3771780956812245}, Case{0.1, 1e-5, 91.81728962466374},
                        Case{50.0, 1e-3, 0.025231749149958765}, Case{4.0, 1e-12, 1.669313829615767},
                        Case{100.0, 0.01, 0.0}}) {
    check_exact(gdp_of(Event::gaussian(c.sigma))->epsilon(c.parameter).value, c.value, 1e-12);
  }
}

// Expected values: mpmath, 400 digits, Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu).
TEST_CASE("gdp: far out, in every direction", "[accountant]") {
  struct Far {
    double mu, epsilon, log_delta;
  };
  for (const Far& c :
       {Far{9.5367431640625e-07, 3.814697265625e-06, -25.71200328140103994},
        Far{9.5367431640625e-07, 0.0, -14.781882144403616826},
        Far{0.0009765625, 0.03, -486.54760548027182895}, Far{0.5, 18.0, -647.81263421760023389},
        Far{1.0, 36.5, -656.11562230607290156}, Far{8.0, 320.0, -654.20912065008460813},
        Far{64.0, 4000.0, -469.85291197413942554}, Far{1024.0, 554288.0, -433.47926531151283558},
        Far{16384.0, 134381568.0, -53.231901303037703888},
        Far{4.0, 1.0, -0.076113216884781804235}}) {
    INFO("mu " << c.mu << ", epsilon " << c.epsilon);
    const double delta = gdp_of(Event::gaussian(1.0 / c.mu))->delta(c.epsilon).value;
    // Every mu is a power of two, so that 1 / mu is exact.
    CHECK_THAT(std::log(delta), WithinRel(c.log_delta, 1e-11));
  }
}

TEST_CASE("gdp: squares of mu add, under each adjacency", "[accountant]") {
  const double one = gdp_of(Event::gaussian(0.5))->epsilon(1e-5).value;  // mu = 2
  CHECK_THAT(gdp_of(Event::gaussian(1.0), 4)->epsilon(1e-5).value, WithinRel(one, 1e-12));
  CHECK_THAT(gdp_of(Event::gaussian(1.0), 4, Adjacency::zero_out)->epsilon(1e-5).value,
             WithinRel(one, 1e-12));
  CHECK_THAT(gdp_of(Event::gaussian(1.0), 1, Adjacency::replace_one)->epsilon(1e-5).value,
             WithinRel(one, 1e-12));
  const Event mixed = Event::composed(
      {Event::gaussian(1.0), Event::self_composed(3, Event::gaussian(1.0)), sampled(0.0, 1.0)});
  CHECK_THAT(gdp_of(mixed)->epsilon(1e-5).value, WithinRel(one, 1e-12));
  CHECK_THAT(gdp_of(sampled(1.0, 0.5))->epsilon(1e-5).value, WithinRel(one, 1e-12));
  // 1 + 10^6 * 2^-40: small terms are not lost.
  const auto many = gdp_of(Event::gaussian(1.0));
  for (int i = 0; i < 100000; ++i) many->compose(Event::gaussian(0x1p20), 1);
  CHECK_THAT(
      many->epsilon(1e-5).value,
      WithinRel(gdp_of(Event::gaussian(1.0 / std::sqrt(1.0 + 1e5 * 0x1p-40)))->epsilon(1e-5).value,
                1e-12));
}

TEST_CASE("gdp: nothing released costs nothing, no noise costs everything", "[accountant]") {
  CHECK(gdp()->epsilon(1e-5).value == 0.0);
  CHECK(gdp()->delta(0.0).value == 0.0);
  CHECK(gdp_of(Event::gaussian(1.0), 0)->epsilon(1e-5).value == 0.0);
  const auto leak = gdp_of(Event::non_private());
  CHECK(leak->epsilon(1e-5).value == kInfinity);
  CHECK(leak->delta(100.0).value == 1.0);
  leak->start(Adjacency::zero_out);  // must forget the earlier event
  CHECK(leak->epsilon(1e-5).value == 0.0);
}

TEST_CASE("gdp: what is not a Gaussian is refused, and nothing is added", "[accountant]") {
  const auto accountant = gdp_of(Event::gaussian(3.0), 2);
  const double before = accountant->epsilon(1e-5).value;
  for (const Event& event :
       {sampled(0.1, 1.0), Event::laplace(1.0), Event::zcdp(0.1), Event::discrete_gaussian(2.0, 1),
        Event::sampled_without_replacement(9, 3, Event::gaussian(1.0)),
        Event::random_allocation(3, Event::gaussian(1.0)),
        Event::composed({Event::gaussian(1.0), Event::self_composed(2, Event::laplace(1.0))}),
        Event::unsupported("a mystery")}) {
    REQUIRE(accountant->refuses(event));
    CHECK_THROWS_AS(accountant->compose(event, 1), privgrad::PrivacyError);
    CHECK(accountant->epsilon(1e-5).value == before);
  }
  CHECK_THAT(*accountant->refuses(sampled(0.1, 1.0)), ContainsSubstring("clt: true"));
}

TEST_CASE("gdp: the central limit is an estimate and says so", "[accountant]") {
  const auto accountant = gdp(true);
  accountant->compose(Event::gaussian(10.0), 1);
  CHECK(accountant->epsilon(1e-5).bound == BoundKind::exact);
  accountant->compose(sampled(0.01, 4.0), 10000);
  CHECK(accountant->epsilon(1e-5).bound == BoundKind::estimate);
  CHECK(accountant->delta(1.0).bound == BoundKind::estimate);
  CHECK_THAT(accountant->epsilon(1e-5).note, ContainsSubstring("estimate"));
  accountant->start(Adjacency::add_or_remove_one);
  CHECK(accountant->epsilon(1e-5).bound == BoundKind::exact);
  CHECK(gdp(true, Adjacency::replace_one)->refuses(sampled(0.1, 1.0)));
  CHECK(gdp(true)->refuses(Event::poisson_sampled(0.1, Event::laplace(1.0))));
}

TEST_CASE("gdp: over its whole range there and back, and ordered", "[accountant]") {
  for (const double mu : {1e-8, 1e-4, 1e-2, 0.3, 1.0, 3.0, 20.0, 1e3, 2e4}) {
    double previous = kInfinity;
    for (const double delta : {1e-300, 1e-100, 1e-20, 1e-10, 1e-5, 0.01, 0.5, 0.999}) {
      INFO("mu " << mu << ", delta " << delta);
      const auto accountant = gdp_of(Event::gaussian(1.0 / mu));
      const double epsilon = accountant->epsilon(delta).value;
      CHECK(epsilon >= 0.0);
      CHECK(epsilon <= previous);
      previous = epsilon;
      // Epsilon is below the bound of zero-concentrated privacy with rho = mu^2/2.
      CHECK(epsilon <= 0.5 * mu * mu + mu * std::sqrt(-2.0 * std::log(delta)) + 1e-12 * mu * mu);
      if (epsilon > 0.0) {
        const double back = accountant->delta(epsilon).value;
        CHECK(back <= delta * (1.0 + 1e-12));
        CHECK(back >= delta * (1.0 - 1e-6));
        CHECK(accountant->delta(epsilon * 0.999).value > delta);
      } else {
        CHECK(accountant->delta(0.0).value <= delta * (1.0 + 1e-12));
      }
    }
  }
}

TEST_CASE("gdp: out of range is an error, not an answer", "[accountant]") {
  const auto accountant = gdp_of(Event::gaussian(1.0));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double delta : {0.0, 1.0, -1e-5, nan}) {
    CHECK_THROWS_AS(accountant->epsilon(delta), privgrad::ConfigError);
  }
  for (const double epsilon : {-1e-9, kInfinity, nan}) {
    CHECK_THROWS_AS(accountant->delta(epsilon), privgrad::ConfigError);
  }
}

// 50-digit arithmetic, see tests/golden.
TEST_CASE("gdp: every golden value of its kinds", "[accountant][golden]") {
  int compared = 0;
  const auto golden = golden_values();
  for (const auto& entry : golden.at("entries")) {
    const std::string kind = entry.at("kind");
    INFO(entry.at("id").get<std::string>());
    const auto& given = entry.at("inputs");
    const auto& expected = entry.at("expected");
    const double relative = entry.at("tolerance").value("rel", 0.0);
    const double absolute = entry.at("tolerance").value("abs", 0.0);
    if (kind == "gauss_delta") {
      check_exact(gdp_of(Event::gaussian(given.at("sigma")))->delta(given.at("eps")).value,
                  expected, relative);
    } else if (kind == "gauss_eps") {
      check_exact(gdp_of(Event::gaussian(given.at("sigma")))->epsilon(given.at("delta")).value,
                  expected, relative, absolute);
    } else if (kind == "gauss_composed_eps") {
      const auto accountant = gdp_of(Event::gaussian(given.at("sigma")), given.at("steps"));
      check_exact(accountant->epsilon(given.at("delta")).value, expected, relative);
    } else if (kind == "gauss_sigma") {
      // The smallest multiplier that meets the target.
      const auto delta = [&](double sigma) {
        return gdp_of(Event::gaussian(sigma))->delta(given.at("eps")).value;
      };
      CHECK(delta(expected.get<double>() * (1.0 + relative)) <= given.at("delta"));
      CHECK(delta(expected.get<double>() * (1.0 - relative)) > given.at("delta"));
    } else if (kind == "gdp_clt") {
      const auto accountant = gdp(true);
      accountant->compose(sampled(given.at("q"), given.at("sigma")), given.at("steps"));
      CHECK_THAT(accountant->epsilon(given.at("delta")).value,
                 WithinRel(expected.at("eps").get<double>(), relative));
    } else {
      continue;
    }
    ++compared;
  }
  CHECK(compared == 38);
}

}  // namespace accountants_gdp_test
