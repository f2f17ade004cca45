#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "golden.hpp"
#include "house_plugins.hpp"
#include "privgrad/accountant.hpp"
#include "renyi.hpp"
#include "trials.hpp"

namespace accountants_rdp_test {

using privgrad::Accountant;
using privgrad::Adjacency;
using privgrad::BoundKind;
using privgrad::Event;
using privgrad::Value;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Options {
  std::vector<double> orders = {};  ///< Empty: the default ones, refined.
  const char* conversion = "improved";
  Adjacency adjacency = Adjacency::add_or_remove_one;
  bool refine = true;
};

auto rdp_accountant(const Options& options = {}) {
  Value::Object params{{"conversion", options.conversion, {}}, {"refine", options.refine, {}}};
  if (!options.orders.empty()) {
    params.push_back({"orders", Value::List(options.orders.begin(), options.orders.end()), {}});
  }
  auto accountant = house().create<Accountant>("rdp", Value(std::move(params)));
  accountant->start(options.adjacency);
  return accountant;
}

auto rdp_of(const Event& event, std::uint64_t count = 1, const Options& options = {}) {
  auto accountant = rdp_accountant(options);
  accountant->compose(event, count);
  return accountant;
}

Event sampled(double q, double sigma) { return Event::poisson_sampled(q, Event::gaussian(sigma)); }

/// Checks an upper bound: below the true value by at most a last digit, and close to it.
void check_upper(double got, double expected, double relative, double absolute = 0.0) {
  INFO("got " << got << ", expected " << expected);
  CHECK(got >= expected - 1e-15 * std::fabs(expected));
  CHECK(got <= expected + relative * std::fabs(expected) + absolute);
}

/// Returns the divergence of one Poisson-sampled Gaussian.
double divergence(double q, double sigma, double order) {
  return rdp::SampledGaussian(q, sigma).log_moment(order) / (order - 1.0);
}

/// Returns ln of the binomial sum for integer orders (Mironov, Talwar and Zhang 2019, Section 3.3),
/// in long double: independent of the quadrature.
long double binomial_log_moment(double q, double sigma, int order) {
  long double sum = 0.0L;
  long double binomial = 1.0L;
  for (int k = 0; k <= order; ++k) {
    const long double log_weight = k * std::log(static_cast<long double>(q)) +
                                   (order - k) * std::log1p(-static_cast<long double>(q));
    // E[f^a] - 1: the weights alone add up to 1.
    sum += binomial * std::exp(log_weight) *
           std::expm1(static_cast<long double>(k) * (k - 1) / (2.0L * sigma * sigma));
    binomial = binomial * (order - k) / (k + 1);
  }
  return std::log1p(sum);
}

}  // namespace

// Expected values: 60-digit trapezoid sums of E[f^a - 1 - a (f - 1)], a quarter of the step size,
// independent code.
TEST_CASE("rdp: sampled Gaussians at the far ends of the range", "[accountant]") {
  struct Case {
    double q, sigma, order, log_moment;
  };
  for (const Case& c :
       {Case{1e-6, 0.2, 1.5, 0.000011208365791213591382},
        Case{1e-6, 0.2, 30.0, 10460.534683261070568},
        Case{1e-6, 1, 1.001, 8.5999773339209033823e-16},
        Case{1e-6, 1, 20.5, 3.4345875266649847443e-10},
        Case{0.01, 1e4, 5.0, 1.0000000052965000623e-11},
        Case{0.01, 1e4, 20000.0, 0.00019999039694149977843},
        Case{1e-6, 1e4, 1.0001, 5.00050002500189885e-25},
        Case{0.999999999, 1.0, 3.3, 3.7949999970308537696},
        Case{0.999, 0.5, 1.2, 0.47934016510374236212},
        Case{0.01, 0.2, 200.5, 499073.53837770933217}, Case{0.5, 10, 1e4, 493018.52819440054691},
        Case{0.3, 3, 700.25, 26359.685404881874406},
        Case{1e-6, 0.5, 1.00001, 2.6773478177361835031e-16},
        Case{1e-6, 2, 60.25, 5.0696792307672636959e-10},
        Case{1e-3, 30, 2000.5, 0.0022284087121031003497},
        Case{1e-3, 1, 500.5, 121542.54348286944042}}) {
    INFO("q " << c.q << ", sigma " << c.sigma << ", order " << c.order);
    check_upper(rdp::SampledGaussian(c.q, c.sigma).log_moment(c.order), c.log_moment, 1e-11);
  }
}

TEST_CASE("rdp: the quadrature is just above the binomial sum at integer orders",
          "[accountant][long]") {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> unit;
  const int count = trials(20'000, "random settings");
  for (int trial = 0; trial < count; ++trial) {
    const double q = std::exp(std::log(1e-6) * unit(engine));
    const double sigma = std::exp(std::log(0.5) + std::log(1000.0) * unit(engine));
    const int order = 2 + static_cast<int>(40 * unit(engine));
    const long double expected = binomial_log_moment(q, sigma, order);
    if (!std::isfinite(expected)) continue;
    INFO("q " << q << ", sigma " << sigma << ", order " << order);
    const long double got = rdp::SampledGaussian(q, sigma).log_moment(order);
    // The sum itself is accurate to a few rounding errors of 1e-19 times its exponents, which are
    // below 1e4.
    CHECK(got >= expected * (1.0L - 1e-16L));
    CHECK(got <= expected * (1.0L + 1e-11L));
  }
}

TEST_CASE("rdp: divergences grow with the order, q and the noise's lack", "[accountant][long]") {
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> unit;
  const int count = trials(20'000, "random settings");
  for (int trial = 0; trial < count; ++trial) {
    const double q = std::exp(std::log(1e-6) * unit(engine)) * 0.98;
    const double sigma = 0.005 * std::exp(std::log(1e5) * unit(engine));
    const double order = 1.0 + std::exp(std::log(1e-4) + std::log(1e6) * unit(engine));
    INFO("q " << q << ", sigma " << sigma << ", order " << order);
    const double value = divergence(q, sigma, order);
    CHECK(value > 0.0);
    CHECK(std::isfinite(value));
    CHECK(value <= divergence(q, sigma, 1.0 + (order - 1.0) * 1.01) * (1.0 + 1e-11));
    CHECK(value <= divergence(q * 1.01, sigma, order) * (1.0 + 1e-11));
    CHECK(value >= divergence(q, sigma * 1.01, order) * (1.0 - 1e-11));
    // Sampling never costs more than no sampling (quasi-convexity).
    CHECK(value <= order / (2.0 * sigma * sigma) * (1.0 + 1e-11));
  }
}

// Settings and expected values are in the file, from 50-digit arithmetic.
TEST_CASE("rdp: published settings of DP-SGD", "[accountant]") {
  struct Case {
    double q, sigma;
    std::uint64_t steps;
    const char* conversion;
    double epsilon;
  };
  const std::vector<double> tenths = [] {
    std::vector<double> orders;
    for (int i = 11; i < 110; ++i) orders.push_back(i / 10.0);
    for (int i = 11; i < 64; ++i) orders.push_back(i);
    return orders;
  }();
  for (const Case& c : {Case{256.0 / 60000.0, 1.1, 14063, "improved", 2.5966555286809165},
                        Case{256.0 / 60000.0, 1.1, 14063, "classic", 3.0083810468337937}}) {
    const Options fixed{.orders = tenths, .conversion = c.conversion};
    const auto answer = rdp_of(sampled(c.q, c.sigma), c.steps, fixed)->epsilon(1e-5);
    check_upper(answer.value, c.epsilon, 1e-10);
    CHECK(answer.bound == BoundKind::upper);
    // Refined orders can only lower the result, and not by much between tenths.
    const auto refined =
        rdp_of(sampled(c.q, c.sigma), c.steps, {.conversion = c.conversion})->epsilon(1e-5);
    CHECK(refined.value <= answer.value);
    CHECK(refined.value >= answer.value * 0.999);
  }
  CHECK_THAT(rdp_of(sampled(256.0 / 60000.0, 1.1), 14063, {.orders = tenths})->epsilon(1e-5).note,
             ContainsSubstring("order = 8.1"));
}

TEST_CASE("rdp: the table of ALI-DPFL, as its search should have ended", "[accountant]") {
  std::vector<double> integers;
  for (int i = 2; i <= 64; ++i) integers.push_back(i);
  const Options theirs{.orders = integers, .conversion = "classic"};
  for (const auto& [target, steps] : std::vector<std::pair<double, std::uint64_t>>{{1.55, 78},
                                                                                   {1.65, 118},
                                                                                   {1.85, 230},
                                                                                   {2.0, 314},
                                                                                   {2.5, 596},
                                                                                   {2.75, 770},
                                                                                   {3.75, 1537}}) {
    INFO("target " << target);
    CHECK(rdp_of(sampled(0.015, 1.1), steps, theirs)->epsilon(1e-5).value <= target);
    CHECK(rdp_of(sampled(0.015, 1.1), steps + 1, theirs)->epsilon(1e-5).value > target);
  }
}

// For rho-zCDP the infimum over all real orders has a stationary point in closed form. The expected
// values, of 50 digits, are also in the zcdp accountant's test.
TEST_CASE("rdp: refined orders reach the infimum over the real orders", "[accountant]") {
  struct Case {
    double rho, delta, epsilon;
  };
  for (const Case& c :
       {Case{0.1, 1e-5, 1.914238832003598}, Case{0.1963, 1e-8, 3.6484589363030824},
        Case{20.0, 1e-6, 51.719404463000245}, Case{0.001, 1e-5, 0.1573353931612155}}) {
    check_upper(rdp_of(Event::zcdp(c.rho))->epsilon(c.delta).value, c.epsilon, 1e-6);
  }
  check_upper(rdp_of(Event::zcdp(0.1))->delta(1.0).value, 0.008933245771818364, 1e-6);
  // Beyond both ends of the list: orders near 1.02 and near 15000. 3e4 + 2 sqrt(3e4 ln 1e5) is the
  // classic optimum; at order 1.02 the improved conversion is lower.
  const double classic =
      rdp_of(Event::zcdp(3e4), 1, {.conversion = "classic"})->epsilon(1e-5).value;
  check_upper(classic, 3e4 + 2.0 * std::sqrt(3e4 * std::log(1e5)), 1e-6);
  CHECK(rdp_of(Event::zcdp(3e4))->epsilon(1e-5).value < classic);
  CHECK(classic < rdp_of(Event::zcdp(3e4), 1, {.refine = false})->epsilon(1e-5).value);
  CHECK(rdp_of(Event::zcdp(5e-8))->epsilon(1e-5).value <
        0.5 * rdp_of(Event::zcdp(5e-8), 1, {.refine = false})->epsilon(1e-5).value);
}

TEST_CASE("rdp: the best of a list is the best of its single orders", "[accountant]") {
  const std::vector<double> orders{1.3, 2, 3.7, 5, 8, 11.5, 20, 40, 100, 500};
  for (const double sigma : {0.5, 1.0, 3.0, 20.0}) {
    for (const double delta : {1e-300, 1e-9, 1e-3, 0.5}) {
      double best = kInfinity;
      for (const double order : orders) {
        best = std::min(
            best, rdp_of(sampled(0.02, sigma), 200, {.orders = {order}})->epsilon(delta).value);
      }
      CHECK(rdp_of(sampled(0.02, sigma), 200, {.orders = orders})->epsilon(delta).value == best);
    }
  }
}

TEST_CASE("rdp: the best order at the end of the list is a warning", "[accountant]") {
  const auto note = [](std::vector<double> orders) {
    return rdp_of(sampled(256.0 / 60000.0, 1.1), 14063, {.orders = std::move(orders)})
        ->epsilon(1e-5)
        .note;
  };
  CHECK_THAT(note({2, 4, 6}), ContainsSubstring("largest allowed"));
  CHECK_THAT(note({20, 40}), ContainsSubstring("smallest allowed"));
  CHECK(note({2, 8, 20}) == "order = 8");
}

TEST_CASE("rdp: what each event costs", "[accountant]") {
  const auto same = [](const Event& a, const Event& b, double tolerance = 1e-14,
                       Adjacency adjacency = Adjacency::add_or_remove_one) {
    const Options options{.adjacency = adjacency};
    CHECK_THAT(rdp_of(a, 1, options)->epsilon(1e-6).value,
               WithinRel(rdp_of(b, 1, options)->epsilon(1e-6).value, tolerance));
  };
  same(Event::gaussian(2.0), Event::zcdp(0.125));
  same(Event::gaussian(2.0), Event::zcdp(0.125), 1e-14, Adjacency::zero_out);
  same(Event::gaussian(2.0), Event::zcdp(0.5), 1e-14, Adjacency::replace_one);
  same(Event::discrete_gaussian(5.0, 2), Event::zcdp(0.08));
  same(Event::discrete_gaussian(5.0, 2), Event::zcdp(0.08), 1e-14, Adjacency::replace_one);
  same(Event::self_composed(100, Event::gaussian(10.0)), Event::zcdp(0.5));
  same(sampled(1.0, 2.0), Event::gaussian(2.0));
  same(Event::poisson_sampled(1.0, Event::laplace(3.0)), Event::laplace(3.0));
  same(Event::sampled_without_replacement(10, 10, Event::gaussian(3.0)), Event::gaussian(3.0));
  same(Event::self_composed(7, sampled(0.01, 1.0)),
       Event::composed({Event::self_composed(3, sampled(0.01, 1.0)),
                        Event::self_composed(4, sampled(0.01, 1.0))}));
  // Four Gaussians on one sample equal one Gaussian with half the noise; their cost differs from
  // four samples.
  same(Event::poisson_sampled(0.01, Event::self_composed(4, Event::gaussian(2.0))),
       sampled(0.01, 1.0), 1e-12);
  CHECK(rdp_of(sampled(0.0, 1.0), 100)->epsilon(1e-6).value == 0.0);
  CHECK(rdp_of(Event::nothing(), 100)->epsilon(1e-6).value == 0.0);
  CHECK(rdp_of(Event::gaussian(1.0), 0)->delta(0.0).value == 0.0);
  CHECK(rdp_of(Event::poisson_sampled(0.5, Event::non_private()))->epsilon(1e-6).value ==
        kInfinity);
  CHECK(rdp_of(Event::non_private())->delta(10.0).value == 1.0);
}

// Laplace noise is pure: epsilon is at most the sum of s/b.
TEST_CASE("rdp: Laplace is never more than pure", "[accountant]") {
  CHECK_THAT(rdp_of(Event::laplace(2.0), 3)->epsilon(1e-300).value, WithinRel(1.5, 1e-2));
  CHECK(rdp_of(Event::laplace(2.0), 3)->epsilon(1e-300).value <= 1.5 * (1 + 1e-14));
  CHECK_THAT(
      rdp_of(Event::laplace(2.0), 3, {.adjacency = Adjacency::replace_one})->epsilon(1e-300).value,
      WithinRel(3.0, 1e-2));
  CHECK(rdp_of(Event::laplace(2.0), 3)->delta(1.51).value == 0.0);
  CHECK(rdp_of(Event::laplace(2.0), 3)->delta(1.49).value > 0.0);
  // Small and large scales: D_a of order 2 is ln(2/3 e^(1/b) + 1/3 e^(-2/b)), here in long double.
  for (const double scale : {1e-3, 0.02, 0.5, 3.0, 100.0, 1e4}) {
    const long double e = 1.0L / scale;
    const long double expected =
        e > 100 ? e + std::log(2.0L / 3)
                : std::log1p(2.0L / 3 * std::expm1(e) + std::expm1(-2 * e) / 3);
    check_upper(rdp::laplace_log_moment(scale, 2.0), static_cast<double>(expected), 1e-12);
  }
}

// Theorem 27 at order 2 in closed form: ln(1 + q^2 min(4 (e^(1/s^2) - 1), 2 e^(1/s^2))), where s is
// the noise divided by the sensitivity of an exchange, which is twice the bound on one
// contribution.
TEST_CASE("rdp: sampling without replacement, under replace_one alone", "[accountant]") {
  const Event event = Event::sampled_without_replacement(1000, 10, Event::gaussian(4.0));
  const Options second{.orders = {2.0}, .adjacency = Adjacency::replace_one};
  const double moment = std::log1p(1e-4 * 4.0 * std::expm1(0.25));
  const double expected = 50.0 * moment - std::log(2.0) + std::log(1e5) - std::log(2.0);
  check_upper(rdp_of(event, 50, second)->epsilon(1e-5).value, expected, 1e-12);
  CHECK_THAT(*rdp_accountant()->refuses(event), ContainsSubstring("replace_one only"));
  CHECK_THAT(*rdp_accountant({.adjacency = Adjacency::zero_out})->refuses(event),
             ContainsSubstring("replace_one only"));
  // Refinement stays within the list, and is never worse than the list.
  const Options listed{.adjacency = Adjacency::replace_one, .refine = false};
  const Options refined{.adjacency = Adjacency::replace_one};
  CHECK(rdp_of(event, 50, refined)->epsilon(1e-5).value <=
        rdp_of(event, 50, listed)->epsilon(1e-5).value);
}

TEST_CASE("rdp: what has no proof is refused, and nothing is added", "[accountant]") {
  for (const Adjacency adjacency :
       {Adjacency::add_or_remove_one, Adjacency::zero_out, Adjacency::replace_one}) {
    const auto accountant = rdp_accountant({.adjacency = adjacency});
    accountant->compose(Event::gaussian(3.0), 2);
    const double before = accountant->epsilon(1e-5).value;
    const Event zcdp = Event::poisson_sampled(0.1, Event::zcdp(1.0));
    for (const Event& event :
         {zcdp, Event::composed({Event::gaussian(1.0), zcdp}), Event::self_composed(2, zcdp),
          Event::unsupported("a mystery"),
          Event::sampled_without_replacement(9, 3, Event::zcdp(0.1)),
          Event::random_allocation(3, Event::gaussian(1.0)),
          Event::poisson_sampled(0.1, Event::poisson_sampled(0.1, Event::gaussian(1.0)))}) {
      REQUIRE(accountant->refuses(event));
      CHECK_THROWS_AS(accountant->compose(event, 1), privgrad::PrivacyError);
      CHECK(accountant->epsilon(1e-5).value == before);
    }
    CHECK(accountant->refuses(sampled(0.1, 1.0)).has_value() ==
          (adjacency == Adjacency::replace_one));
  }
  CHECK_THAT(*rdp_accountant({.adjacency = Adjacency::replace_one})->refuses(sampled(0.1, 1.0)),
             ContainsSubstring("no proof under replace_one"));
}

TEST_CASE("rdp: zero_out costs a sampled Gaussian what add_or_remove_one does", "[accountant]") {
  CHECK(rdp_of(sampled(0.01, 0.8), 500, {.adjacency = Adjacency::zero_out})->epsilon(1e-5).value ==
        rdp_of(sampled(0.01, 0.8), 500)->epsilon(1e-5).value);
}

TEST_CASE("rdp: neither the order of steps nor earlier queries change the answer", "[accountant]") {
  const auto forward = rdp_accountant();
  const auto backward = rdp_accountant();
  for (int i = 0; i < 60; ++i) {
    forward->compose(sampled(0.01, 0.8 + 0.02 * (i % 40)), 1);
    backward->compose(sampled(0.01, 0.8 + 0.02 * ((59 - i) % 40)), 1);
    if (i % 7 == 0) backward->epsilon(1e-5);
  }
  CHECK_THAT(backward->epsilon(1e-5).value, WithinRel(forward->epsilon(1e-5).value, 1e-13));
  const auto asked = rdp_accountant();
  for (int i = 0; i < 60; ++i) {
    asked->compose(sampled(0.01, 0.8 + 0.02 * (i % 40)), 1);
    asked->epsilon(1e-6);
    asked->delta(1.0);
  }
  CHECK(asked->epsilon(1e-5).value == forward->epsilon(1e-5).value);
}

TEST_CASE("rdp: queries on several threads agree", "[accountant]") {
  const auto accountant = rdp_accountant();
  for (int i = 0; i < 50; ++i) accountant->compose(sampled(0.01, 1.0 + 0.01 * i), 1);
  std::vector<double> answers(4);
  {
    std::vector<std::jthread> threads;
    for (double& answer : answers) {
      threads.emplace_back([&] { answer = accountant->epsilon(1e-5).value; });
    }
  }
  for (const double answer : answers) CHECK(answer == answers.front());
}

TEST_CASE("rdp: a number, and a bound, over the whole range", "[accountant][long]") {
  std::mt19937_64 engine(11);
  std::uniform_real_distribution<double> unit;
  const int count = trials(1500, "random settings");
  for (int trial = 0; trial < count; ++trial) {
    const double q = std::exp(std::log(1e-6) * unit(engine));
    const double sigma = 0.2 * std::exp(std::log(5e4) * unit(engine));
    const auto steps = static_cast<std::uint64_t>(std::exp(std::log(1e7) * unit(engine)));
    const double delta = std::exp(-690.0 * unit(engine));
    INFO("q " << q << ", sigma " << sigma << ", steps " << steps << ", delta " << delta);
    const auto accountant = rdp_of(sampled(q, sigma), steps);
    const double epsilon = accountant->epsilon(delta).value;
    CHECK(epsilon >= 0.0);
    CHECK(std::isfinite(epsilon));
    CHECK(epsilon <= rdp_of(Event::gaussian(sigma), steps)->epsilon(delta).value * (1 + 1e-9));
    CHECK(epsilon <=
          rdp_of(sampled(q, sigma), steps, {.conversion = "classic"})->epsilon(delta).value *
              (1 + 1e-12));
    if (epsilon > 0.0) CHECK(accountant->delta(epsilon).value <= delta * (1.0 + 1e-5) + 1e-300);
  }
}

TEST_CASE("rdp: out of range is an error, not an answer", "[accountant]") {
  const auto accountant = rdp_of(sampled(0.1, 1.0));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double delta : {0.0, 1.0, -1e-5, 2.0, nan}) {
    CHECK_THROWS_AS(accountant->epsilon(delta), privgrad::ConfigError);
  }
  for (const double epsilon : {-1e-9, kInfinity, nan}) {
    CHECK_THROWS_AS(accountant->delta(epsilon), privgrad::ConfigError);
  }
  CHECK_THROWS_AS(rdp_accountant({.orders = {1.0}}), privgrad::ConfigError);
  CHECK_THROWS_AS(rdp_accountant({.conversion = "tight"}), privgrad::ConfigError);
}

namespace {

using Json = nlohmann::json;

Options golden_options(const Json& golden, const Json& given) {
  return {
      .orders = golden.at("orders").at(given.at("orders").get<std::string>()),
      .conversion = given.value("conversion", "improved") == "classic" ? "classic" : "improved"};
}

/// Returns the divergence D_a for the kinds that the file contains.
double golden_divergence(const std::string& kind, const Json& given, double order) {
  if (kind == "laplace_rdp") {
    return rdp::laplace_log_moment(given.at("scale"), order) / (order - 1.0);
  }
  const double q = given.at("q");
  const double sigma = given.at("sigma");
  if (q == 1.0) return rdp::concentrated_log_moment(0.5 / (sigma * sigma), order) / (order - 1.0);
  if (kind == "rdp_wor") return rdp::SubsetGaussian(q, sigma).log_moment(order) / (order - 1.0);
  return divergence(q, sigma, order);
}

void check_divergences(const std::string& kind, const Json& entry) {
  const auto& orders = entry.at("inputs").at("orders");
  for (std::size_t i = 0; i < orders.size(); ++i) {
    INFO("order " << orders[i]);
    const double got = golden_divergence(kind, entry.at("inputs"), orders[i]);
    const double expected = entry.at("expected")[i];
    // A rounding error of rdp = K / (a - 1), in addition to the one in check_upper; the file allows
    // more, including abs 1e-14, which is not needed.
    check_upper(got, expected, entry.at("tolerance").at("rel"));
    if (entry.contains("accept_double")) {
      CHECK(got <= entry.at("accept_double").at("max")[i].get<double>());
    }
  }
}

/// Checks one entry through the accountant.
/// \returns whether rdp supports its kind.
bool check_answer(const std::string& kind, const Json& golden, const Json& entry) {
  const auto& given = entry.at("inputs");
  const auto& expected = entry.at("expected");
  const double relative = entry.at("tolerance").value("rel", 0.0);
  const double absolute = entry.at("tolerance").value("abs", 0.0);
  const auto steps_of = [&](std::uint64_t steps) {
    return rdp_of(sampled(given.at("q"), given.at("sigma")), steps, golden_options(golden, given));
  };
  if (kind == "rdp_to_eps") {
    const auto accountant = rdp_of(Event::zcdp(given.at("rho")), 1, golden_options(golden, given));
    check_upper(accountant->epsilon(given.at("delta")).value,
                std::max(0.0, expected.at("eps").get<double>()), relative, absolute);
  } else if (kind == "rdp_to_delta") {
    const auto accountant = rdp_of(Event::zcdp(given.at("rho")), 1, golden_options(golden, given));
    check_upper(accountant->delta(given.at("eps")).value,
                std::min(1.0, expected.at("delta").get<double>()), relative,
                std::numeric_limits<double>::denorm_min());  // where the true value underflows
  } else if (kind == "dpsgd_eps_rdp") {
    check_upper(steps_of(given.at("steps"))->epsilon(given.at("delta")).value,
                std::max(0.0, expected.at("eps").get<double>()), relative, absolute);
  } else if (kind == "dpsgd_delta_rdp") {
    const auto accountant = steps_of(given.at("steps"));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      check_upper(accountant->delta(given.at("eps")[i]).value,
                  std::min(1.0, expected[i].get<double>()), relative);
    }
  } else if (kind == "het_eps_rdp") {
    const auto accountant = rdp_accountant(golden_options(golden, given));
    for (const auto& part : given.at("components")) {
      accountant->compose(sampled(part[0], part[1]), part[2]);
    }
    check_upper(accountant->epsilon(given.at("delta")).value,
                std::max(0.0, expected.at("eps").get<double>()), relative, absolute);
  } else if (kind == "calib_sigma_rdp") {
    const auto epsilon = [&](double sigma) {
      return rdp_of(sampled(given.at("q"), sigma), given.at("steps"), golden_options(golden, given))
          ->epsilon(given.at("delta"))
          .value;
    };
    CHECK(epsilon(expected.get<double>() * (1.0 + relative)) <= given.at("target_eps"));
    CHECK(epsilon(expected.get<double>() * (1.0 - relative)) > given.at("target_eps"));
  } else if (kind == "calib_steps_rdp") {
    const std::uint64_t steps = expected.at("steps");
    const double at = steps_of(steps)->epsilon(given.at("delta")).value;
    const double next = steps_of(steps + 1)->epsilon(given.at("delta")).value;
    CHECK(at <= given.at("target_eps"));
    CHECK(next > given.at("target_eps"));
    if (steps > 0) {
      check_upper(at, expected.at("eps_at_steps"), relative);
    } else {
      CHECK(at == 0.0);  // the file contains the conversion of a divergence of 0
    }
    check_upper(next, expected.at("eps_at_steps_plus_1"), relative);
  } else if (kind == "alidpfl_steps") {
    const std::uint64_t honest = expected.at("max_steps_eps_le_target");
    const std::uint64_t theirs = expected.at("authors_steps");
    CHECK(steps_of(honest)->epsilon(given.at("delta")).value <= given.at("target_eps"));
    CHECK(steps_of(honest + 1)->epsilon(given.at("delta")).value > given.at("target_eps"));
    check_upper(steps_of(theirs)->epsilon(given.at("delta")).value,
                expected.at("eps_at_authors_steps"), relative);
    check_upper(steps_of(theirs + 1)->epsilon(given.at("delta")).value,
                expected.at("eps_at_authors_steps_plus_1"), relative);
  } else {
    return false;
  }
  return true;
}

}  // namespace

// 50-digit arithmetic, see tests/golden.
TEST_CASE("rdp: every golden value of its kinds", "[accountant][golden]") {
  int compared = 0;
  const auto golden = golden_values();
  for (const auto& entry : golden.at("entries")) {
    const std::string kind = entry.at("kind");
    INFO(entry.at("id").get<std::string>());
    if (kind.starts_with("rdp_sgm_") || kind == "rdp_wor" || kind == "laplace_rdp") {
      check_divergences(kind, entry);
    } else if (!check_answer(kind, golden, entry)) {
      continue;
    }
    ++compared;
  }
  CHECK(compared > 400);
}

}  // namespace accountants_rdp_test
