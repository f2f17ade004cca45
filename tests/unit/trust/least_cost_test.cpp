#include "privgrad/trust/least_cost.hpp"

#include <cmath>
#include <limits>

#include "house_plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "support.hpp"
#include "test_components.hpp"

using namespace privgrad;
using core::LeastCost;

namespace {

LeastCost least_of(const Event& event, std::uint64_t count = 1,
                   Adjacency adjacency = Adjacency::add_or_remove_one) {
  LeastCost least(adjacency);
  least.compose(event, count);
  return least;
}

Event sampled(double q, double sigma) { return Event::poisson_sampled(q, Event::gaussian(sigma)); }

/// Checks that the value is not above the expected value, and only slightly below.
void check_just_below(double got, double expected, double tolerance = 1e-7) {
  INFO("got " << got << ", expected " << expected);
  CHECK(got <= expected);
  CHECK(got >= expected * (1.0 - tolerance));
}

/// Returns a built-in accountant, made in the same way as by the core.
ComponentPtr<Accountant> made_by_core(const char* name, Adjacency adjacency) {
  const Component& component = house().find<Accountant>(name);
  const Params defaults = Params::make(name, component.factory.info.params, Value(Value::Object{}));
  auto accountant =
      core::make_accountant(component, defaults, core::certifier_of(component, house()));
  accountant->start(adjacency);
  return accountant;
}

}  // namespace

// Expected values: mpmath 1.4, 50 digits, the closed forms for the Gaussian (Balle and Wang 2018,
// Theorem 8) and for its Poisson-sampled mixture, integrated numerically as a check.
TEST_CASE("what one release spends at least is what it spends", "[least_cost][privacy]") {
  check_just_below(least_of(Event::gaussian(1.0)).delta(1.0), 0.12693673750664395);
  check_just_below(least_of(Event::gaussian(0.5)).delta(10.0), 9.9402028161181528e-06);
  check_just_below(least_of(Event::gaussian(2.0), 1, Adjacency::replace_one).delta(1.0),
                   0.12693673750664395);
  check_just_below(least_of(sampled(0.01, 1.0)).delta(0.0), 0.0038292492254802623);
  check_just_below(least_of(sampled(0.01, 1.0)).delta(1.0), 2.7320092615461311e-09, 1e-6);
  // Each single step of an epoch of 100 steps is such a batch.
  check_just_below(least_of(Event::random_allocation(100, Event::gaussian(1.0))).delta(1.0),
                   2.7320092615461311e-09, 1e-6);
  check_just_below(least_of(Event::random_allocation(1, Event::gaussian(1.0))).delta(1.0),
                   0.12693673750664395);
  // A batch of all examples is not a sample, and a batch of one in 100 is a coin of probability
  // 0.01.
  check_just_below(least_of(Event::sampled_without_replacement(10, 10, Event::gaussian(2.0)), 1,
                            Adjacency::replace_one)
                       .delta(1.0),
                   0.12693673750664395);
  check_just_below(
      least_of(Event::sampled_without_replacement(100, 1, Event::gaussian(1.0))).delta(0.0),
      0.0038292492254802623);
  check_just_below(least_of(Event::laplace(0.5)).delta(1.0), 0.39346934028736658);
  check_just_below(least_of(Event::zcdp(0.5)).delta(1.0), 0.12693673750664395);
  // For large epsilon, where e^epsilon exceeds doubles: mu = 50 at epsilon 1000 and 2000.
  check_just_below(least_of(Event::gaussian(0.02)).delta(1000.0), 0.99999968032650774);
  check_just_below(least_of(Event::gaussian(0.02)).delta(2000.0), 2.8202890555336322e-51, 1e-3);
}

TEST_CASE("what is spent at least does not shrink by adding, and knows no sampling of nothing",
          "[least_cost][privacy]") {
  LeastCost least(Adjacency::zero_out);
  CHECK(least.delta(0.0) == 0.0);
  least.compose(Event::nothing(), 3);
  least.compose(Event::poisson_sampled(0.0, Event::non_private()), 1);
  least.compose(Event::gaussian(1.0), 0);
  CHECK(least.delta(0.0) == 0.0);
  // 4 Gaussians with noise multiplier 2 equal one Gaussian with 1.
  least.compose(Event::gaussian(2.0), 4);
  check_just_below(least.delta(1.0), 0.12693673750664395);
  for (int i = 1; i <= 100; ++i) {
    const double before = least.delta(1.0);
    least.compose(sampled(0.01 * i, 3.0 - 0.02 * i), 1);
    CHECK(least.delta(1.0) >= before);
  }
  least.compose(Event::poisson_sampled(0.3, Event::non_private()), 1);
  CHECK(least.delta(30.0) >= 0.29999);
  CHECK(least.delta(std::numeric_limits<double>::infinity()) == 0.0);
  least.compose(Event::non_private(), 1);
  CHECK(least.delta(1e300) >= 0.999999);
}

TEST_CASE("no right accountant is below what is spent at least", "[least_cost][privacy]") {
  const Event many = Event::self_composed(20, sampled(0.1, 1.5));
  for (const Adjacency adjacency :
       {Adjacency::add_or_remove_one, Adjacency::zero_out, Adjacency::replace_one}) {
    for (const Event& event :
         {Event::gaussian(0.01), Event::gaussian(1.0), Event::gaussian(300.0), Event::gaussian(1e9),
          Event::laplace(0.1), Event::laplace(10.0), Event::zcdp(0.02), sampled(0.01, 1.0),
          sampled(0.9, 0.5), sampled(1.0, 2.0), sampled(1e-6, 0.3), many,
          Event::composed({many, Event::gaussian(3.0), Event::laplace(4.0)})}) {
      for (const char* name : {"gdp", "zcdp", "rdp", "pld", "saddle_point"}) {
        const auto accountant = made_by_core(name, adjacency);
        if (accountant->refuses(event)) continue;
        INFO(name << ", " << to_text(adjacency));
        accountant->compose(event, 1);
        for (const double delta : {1e-12, 1e-5, 0.1, 0.6}) {
          CHECK_NOTHROW(accountant->epsilon(delta));
        }
        for (const double epsilon : {0.0, 0.3, 3.0, 30.0}) {
          CHECK_NOTHROW(accountant->delta(epsilon));
        }
      }
    }
  }
}

TEST_CASE("an epsilon of 0 is right where the noise is large against delta, and no error",
          "[least_cost][privacy]") {
  // The total variation of N(0, 1) and N(1, 1) is 0.3829.
  const auto accountant = made_by_core("gdp", Adjacency::add_or_remove_one);
  accountant->compose(Event::gaussian(1.0), 1);
  CHECK(accountant->epsilon(0.5).value == 0.0);
  CHECK(accountant->epsilon(0.38).value > 0.0);
}

namespace {

/// Proves only a share of the epsilon of gdp.
class Stingy final : public Accountant {
 public:
  explicit Stingy(const Params&) : gdp_(house().create<Accountant>("gdp", Value::Object{})) {}
  void start(Adjacency adjacency) override { gdp_->start(adjacency); }
  std::optional<std::string> refuses(const Event& event) const override {
    return gdp_->refuses(event);
  }
  void compose(const Event& event, std::uint64_t count) override { gdp_->compose(event, count); }
  PrivacyAnswer epsilon(double delta) const override { return cut(gdp_->epsilon(delta)); }
  PrivacyAnswer delta(double epsilon) const override { return cut(gdp_->delta(epsilon)); }
  inline static double share = 1.0;
  inline static BoundKind bound = BoundKind::upper;

 private:
  static PrivacyAnswer cut(PrivacyAnswer answer) {
    answer.value *= share;
    answer.bound = bound;
    return answer;
  }
  ComponentPtr<Accountant> gdp_;
};

}  // namespace

TEST_CASE("an accountant that proves too little is named, and an estimate proves nothing",
          "[least_cost][privacy]") {
  const Catalog catalog = house_with({offer<Accountant, Stingy>("stingy")});
  const Component& component = catalog.find<Accountant>("stingy");
  const auto accountant = core::make_accountant(component, Params(), nullptr);
  accountant->start(Adjacency::replace_one);
  accountant->compose(Event::gaussian(2.0), 3);
  for (const double share : {0.0, 0.5, 0.999}) {
    Stingy::share = share;
    Stingy::bound = BoundKind::upper;
    CHECK_THROWS_AS(accountant->epsilon(1e-5), PluginError);
    CHECK_THROWS_WITH(accountant->epsilon(1e-5),
                      ContainsSubstring("the accountant stingy broke its contract"));
    CHECK_THROWS_AS(accountant->delta(1.0), PluginError);
    Stingy::bound = BoundKind::estimate;
    CHECK_NOTHROW(accountant->epsilon(1e-5));
    CHECK_NOTHROW(accountant->delta(1.0));
  }
  Stingy::share = 1.0;
  Stingy::bound = BoundKind::upper;
  CHECK_NOTHROW(accountant->epsilon(1e-5));
  CHECK_NOTHROW(accountant->delta(1.0));
  // After a new start, nothing is spent.
  Stingy::share = 0.0;
  accountant->start(Adjacency::replace_one);
  CHECK(accountant->epsilon(1e-5).value == 0.0);
}
