// Sampled Laplace and discrete Gaussian noise in pld and rdp, compared with
// tests/golden/sampled.jsonl.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accountants_pld.hpp"
#include "golden.hpp"
#include "renyi.hpp"

namespace sampled_noise {

using pld_tests::accountant;
using pld_tests::Options;
using pld_tests::pld_of;
using privgrad::Adjacency;
using privgrad::Event;
using privgrad::PrivacyAnswer;
using Json = nlohmann::json;

std::vector<Json> cases(const std::string& kind) {
  std::ifstream file(kSource / "tests/golden/sampled.jsonl");
  REQUIRE(file);
  std::vector<Json> all;
  for (std::string line; std::getline(file, line);) {
    Json one = Json::parse(line);
    if (one.at("kind") != kind) continue;
    one.erase("kind");
    all.push_back(as_doubles(one));
  }
  REQUIRE(!all.empty());
  return all;
}

Event release(const Json& given) {
  if (given.contains("scale")) return Event::laplace(given.at("scale"));
  return Event::discrete_gaussian(given.at("sigma"), given.at("sensitivity"));
}

Event sampled(const Json& given) { return Event::poisson_sampled(given.at("q"), release(given)); }

pld::LossPairPtr pair_of(const Json& given) {
  const pld::LossPairPtr pair =
      given.contains("scale")
          ? pld::laplace(given.at("scale"))
          : pld::discrete_gaussian(given.at("sigma"), given.at("sensitivity").get<double>());
  return pld::sampled(given.at("q"), pair);
}

TEST_CASE("rdp: moments of sampled Laplace and discrete Gaussian noise", "[accountant][golden]") {
  for (const char* kind : {"laplace_moment", "discrete_moment"}) {
    for (const Json& one : cases(kind)) {
      INFO(kind << " " << one.dump());
      const double order = one.at("order");
      const double exact = one.at("remove");
      CHECK(exact >= one.at("add").get<double>());  // the reason why one direction is enough
      const double got =
          one.contains("scale")
              ? rdp::SampledLaplace(one.at("q"), one.at("scale")).log_moment(order)
              : rdp::SampledGaussian::discrete(one.at("q"), one.at("sigma"), one.at("sensitivity"))
                    .log_moment(order);
      CHECK(got >= exact * (1.0 - 4e-16));
      CHECK(got <= exact * (1.0 + 1e-9) + 1e-300);
    }
  }
}

TEST_CASE("pld: delta of sampled Laplace and discrete Gaussian noise",
          "[accountant][pld][golden]") {
  for (const char* kind : {"laplace_delta", "discrete_delta"}) {
    for (const Json& one : cases(kind)) {
      INFO(kind << " " << one.dump());
      const std::uint64_t steps = one.at("steps");
      const double epsilon = one.at("epsilon");
      const PrivacyAnswer both =
          pld_of(sampled(one), steps, {.relative_width = 1e-4})->delta(epsilon);
      const double remove = one.at("remove"), add = one.at("add");
      pld_tests::check_holds(both, std::max(remove, add));
      // Discrete losses do not lie on a grid; a lower bound that must move them down is less tight.
      if (both.value > 1e-30) {
        CHECK(both.value <= std::max(remove, add) * (1.0 + (steps == 1 ? 1e-9 : 2e-3)));
      }
      for (const bool reverse : {false, true}) {
        const pld::LossPairPtr pair = reverse ? pld::reversed(pair_of(one)) : pair_of(one);
        const double exact = reverse ? add : remove;
        const pld::Interval got =
            pld::answer({{{pair, pair, steps}}}, {false, epsilon}, 1e-4, 0x1p20);
        INFO((reverse ? "add " : "remove ")
             << got.lower << " .. " << got.upper << ", " << got.note);
        CHECK(got.lower <= exact * (1.0 + 4e-16));
        CHECK(got.upper >= exact * (1.0 - 4e-16));
        CHECK(got.lower >= 0.8 * exact);
      }
    }
  }
}

TEST_CASE("sampled Laplace and discrete noise: pld and rdp agree", "[accountant][pld]") {
  for (const Event& event : {Event::poisson_sampled(0.01, Event::laplace(0.7)),
                             Event::poisson_sampled(0.2, Event::laplace(4.0)),
                             Event::poisson_sampled(0.02, Event::discrete_gaussian(0.8, 1)),
                             Event::poisson_sampled(0.02, Event::discrete_gaussian(70.0, 50))}) {
    const auto pld = pld_of(event, 1000, {.relative_width = 1e-3});
    const auto rdp = accountant({}, "rdp");
    rdp->compose(event, 1000);
    for (const double delta : {1e-3, 1e-6, 1e-12}) {
      const PrivacyAnswer answer = pld->epsilon(delta);
      const double bound = rdp->epsilon(delta).value;
      INFO(event.name() << ": " << *answer.lower << " .. " << answer.value << ", rdp " << bound
                        << ", " << answer.note);
      CHECK(*answer.lower <= bound);
      CHECK(answer.value <= bound * (1.0 + 1e-3));
      CHECK(bound <= 1.3 * answer.value);
    }
  }
}

// Discrete noise with a large sigma is almost the same as continuous noise.
TEST_CASE("sampled discrete noise is sampled Gaussian noise where its grid is fine",
          "[accountant][pld]") {
  const auto discrete = pld_of(Event::poisson_sampled(0.03, Event::discrete_gaussian(900.0, 1000)),
                               500, {.relative_width = 1e-3});
  const auto continuous = pld_of(pld_tests::sampled(0.03, 0.9), 500, {.relative_width = 1e-3});
  CHECK_THAT(discrete->epsilon(1e-6).value, WithinRel(continuous->epsilon(1e-6).value, 3e-3));
  for (const double order : {1.5, 2.0, 30.0}) {
    CHECK_THAT(rdp::SampledGaussian::discrete(0.03, 900.0, 1000.0).log_moment(order),
               WithinRel(rdp::SampledGaussian(0.03, 0.9).log_moment(order), 1e-9));
  }
}

TEST_CASE("sampled Laplace noise is never more than pure", "[accountant][pld]") {
  // ln(1 + q (e^(1 / b) - 1)) a step.
  const double pure = 3.0 * std::log1p(0.1 * std::expm1(1.0 / 0.4));
  const Event event = Event::poisson_sampled(0.1, Event::laplace(0.4));
  for (const char* name : {"pld", "rdp"}) {
    INFO(name);
    const auto made = accountant({.relative_width = 1e-4}, name);
    made->compose(event, 3);
    CHECK_THAT(made->epsilon(1e-30).value, WithinRel(pure, 1e-6));
    CHECK(made->epsilon(1e-30).value >= made->epsilon(1e-2).value);
    CHECK(made->delta(pure * (1.0 + 1e-9)).value == 0.0);
  }
}

TEST_CASE("sampled Laplace and discrete noise: what is refused", "[accountant][pld]") {
  const Event laplace = Event::poisson_sampled(0.1, Event::laplace(1.0));
  const Event discrete = Event::poisson_sampled(0.1, Event::discrete_gaussian(2.0, 1));
  const Event two =
      Event::poisson_sampled(0.1, Event::composed({Event::laplace(1.0), Event::laplace(2.0)}));
  const Event mixed =
      Event::poisson_sampled(0.1, Event::composed({Event::laplace(1.0), Event::gaussian(2.0)}));
  for (const char* name : {"pld", "rdp"}) {
    INFO(name);
    for (const Adjacency adjacency : {Adjacency::add_or_remove_one, Adjacency::zero_out}) {
      const auto made = accountant({.adjacency = adjacency}, name);
      CHECK_FALSE(made->refuses(laplace));
      CHECK_FALSE(made->refuses(discrete));
      CHECK_FALSE(made->refuses(Event::poisson_sampled(0.0, Event::laplace(1.0))));
      CHECK(made->refuses(two));
      CHECK(made->refuses(mixed));
    }
    const auto replacing = accountant({.adjacency = Adjacency::replace_one}, name);
    CHECK(replacing->refuses(laplace));
    CHECK(replacing->refuses(discrete));
  }
}

}  // namespace sampled_noise
