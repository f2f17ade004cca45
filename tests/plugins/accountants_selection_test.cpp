// The best of a random number of runs, in rdp and pld: compared with the theorems' formulas in
// another program, and with cases in which all probabilities are known.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "accountants_pld.hpp"
#include "best_run.hpp"
#include "golden.hpp"
#include "privgrad/run_count.hpp"
#include "selection.hpp"
#include "trials.hpp"

namespace selections {

using pld_tests::gaussian_delta;
using pld_tests::Random;
using privgrad::Accountant;
using privgrad::Adjacency;
using privgrad::Event;
using privgrad::PrivacyAnswer;
using privgrad::Value;
using Json = nlohmann::json;

namespace {

constexpr double kPoisson = privgrad::RepeatAndSelectEvent::kPoisson;

std::vector<Json> golden(const std::string& kind) {
  std::ifstream file(kSource / "tests/golden/selection.jsonl");
  REQUIRE(file);
  std::vector<Json> all;
  for (std::string line; std::getline(file, line);) {
    const Json one = Json::parse(line);
    if (one.at("kind") != kind) continue;
    all.push_back(as_doubles(one));
    if (one.at("shape") == "poisson") all.back()["shape"] = "poisson";
    for (const char* words : {"candidates", "beside", "conversion"}) {
      if (one.contains(words)) all.back()[words] = one.at(words);
    }
  }
  REQUIRE(!all.empty());
  return all;
}

double shape_of(const Json& given) {
  return given.at("shape").is_string() ? kPoisson : given.at("shape").get<double>();
}

auto started(const char* name, Value::Object params = {},
             Adjacency adjacency = Adjacency::add_or_remove_one) {
  auto made = house().create<Accountant>(name, Value(std::move(params)));
  made->start(adjacency);
  return made;
}

/// The distribution of the number of runs, by independent formulas.
struct Law {
  double mean = 1.0, shape = 1.0, gamma = 1.0;

  /// Makes the distribution from gamma, which determines the mean.
  static Law of(double shape, double gamma) {
    const double odds = 1.0 / gamma - 1.0;
    return {shape == 0.0 ? odds / -std::log(gamma) : shape * odds / (1.0 - std::pow(gamma, shape)),
            shape, gamma};
  }
  static Law poisson(double mean) { return {mean, kPoisson, 1.0}; }

  bool is_poisson() const { return shape == kPoisson; }
  double none() const { return is_poisson() ? std::exp(-mean) : 0.0; }

  /// Returns the generating function.
  double f(double x) const {
    if (is_poisson()) return std::exp(mean * (x - 1.0));
    const double u = 1.0 - (1.0 - gamma) * x;
    if (shape == 0.0) return std::log(u) / std::log(gamma);
    return (std::pow(u, -shape) - 1.0) / (std::pow(gamma, -shape) - 1.0);
  }
  double slope(double x) const {
    if (is_poisson()) return mean * std::exp(mean * (x - 1.0));
    return mean * std::pow(gamma / (1.0 - (1.0 - gamma) * x), 1.0 + shape);
  }
};

std::vector<Law> some_laws() {
  return {Law::of(1.0, 0.5), Law::of(1.0, 0.02), Law::of(0.0, 0.1), Law::of(-0.5, 0.01),
          Law::of(3.0, 0.3), Law::poisson(0.4),  Law::poisson(2.0), Law::poisson(25.0)};
}

using Masses = std::vector<double>;

/// Returns the distribution of the best of K runs with these outputs in the order of their scores;
/// the last entry is the case of no run.
Masses best_of(const Law& law, const Masses& run) {
  Masses best;
  double below = 0.0;
  for (std::size_t y = 0; y < run.size(); ++y) {
    const double with = y + 1 == run.size() ? 1.0 : below + run[y];
    best.push_back(law.f(with) - law.f(below));
    below = with;
  }
  best.push_back(law.none());
  return best;
}

double delta_between(const Masses& p, const Masses& q, double epsilon) {
  double sum = 0.0;
  for (std::size_t y = 0; y < p.size(); ++y) sum += std::max(0.0, p[y] - std::exp(epsilon) * q[y]);
  return sum;
}
double delta_of(const Masses& p, const Masses& q, double epsilon) {
  return std::max(delta_between(p, q, epsilon), delta_between(q, p, epsilon));
}

/// Returns ln of the sum of p^a q^(1-a), in the direction in which it is larger.
double moment_of(const Masses& p, const Masses& q, double order) {
  long double forth = 0.0L, back = 0.0L;
  for (std::size_t y = 0; y < p.size(); ++y) {
    if (p[y] == 0.0) continue;
    const long double ratio = static_cast<long double>(p[y]) / q[y];
    forth += p[y] * std::pow(ratio, order - 1.0L);
    back += q[y] * std::pow(ratio, 1.0L - order);
  }
  return static_cast<double>(std::log(std::max(forth, back)));
}

double epsilon_of(const Masses& p, const Masses& q, double delta) {
  double low = 0.0, high = 50.0;
  if (delta_of(p, q, 0.0) <= delta) return 0.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (delta_of(p, q, middle) > delta ? low : high) = middle;
  }
  return high;
}

pld::Selection by_profile(const Law& law, const Masses& p, const Masses& q) {
  return {law.mean,
          law.shape,
          {.delta = [p, q](double epsilon) { return delta_of(p, q, epsilon); },
           .epsilon = [p, q](double delta) { return epsilon_of(p, q, delta); }}};
}

Masses random_masses(Random& random, std::size_t count) {
  Masses masses;
  for (std::size_t i = 0; i < count; ++i) masses.push_back(random.log_uniform(1e-3, 1.0));
  const double sum = std::accumulate(masses.begin(), masses.end(), 0.0);
  for (double& mass : masses) mass /= sum;
  return masses;
}

/// The bound of rdp at an order, for one run with a known distribution on each of two data sets.
double moment_bound(const Law& law, const Masses& p, const Masses& q, double order) {
  const double one = moment_of(p, q, order);
  if (law.is_poisson()) {
    return rdp::best_of_poisson(order, one, law.mean, delta_of(p, q, rdp::poisson_epsilon(order)));
  }
  const double most = privgrad::log_inverse_gamma(law.mean, law.shape);
  double ratio = most;
  for (double b = 1.05; b < 200.0; b *= 1.1)
    ratio = std::min(ratio, rdp::largest_log_ratio(b, moment_of(p, q, b), most));
  return rdp::best_of_negative_binomial(order, one, law.mean, law.shape, ratio);
}

/// Randomised response with this many answers, on two data sets with different true answers.
std::pair<Masses, Masses> randomized_response(std::size_t answers, double epsilon) {
  const double other = 1.0 / (std::exp(epsilon) + static_cast<double>(answers) - 1.0);
  Masses p(answers, other), q(answers, other);
  p.front() = q.back() = other * std::exp(epsilon);
  return {p, q};
}

}  // namespace

TEST_CASE("selection: the number of runs has the mean that was asked for",
          "[accountant][selection]") {
  for (const Json& one : golden("law")) {
    CAPTURE(one);
    const double got = privgrad::log_inverse_gamma(one.at("mean"), one.at("shape"));
    const double expected = one.at("log_inverse_gamma");
    CHECK(got >= expected * (1.0 - 1e-13));
    CHECK(got <= expected * (1.0 + 1e-10) + 1e-12);
  }
  CHECK(privgrad::log_inverse_gamma(1.0, 0.5) == 0.0);
  CHECK(std::isinf(privgrad::log_inverse_gamma(1e300, -1.0 + 1e-15)));
}

TEST_CASE("selection: rdp is Papernot and Steinke's theorems", "[accountant][rdp][selection]") {
  std::size_t cases = 0;
  for (const Json& one : golden("rdp")) {
    CAPTURE(one.dump());
    const auto event_of = [](const Json& parts) {
      std::vector<Event> events;
      for (const Json& part : parts) {
        const double number = std::stod(part.at(1).get<std::string>());
        const std::string kind = part.at(0);
        Event event = kind == "gaussian" ? Event::gaussian(number)
                      : kind == "zcdp"   ? Event::zcdp(number)
                                         : Event::laplace(number);
        events.push_back(Event::self_composed(part.at(2), std::move(event)));
      }
      return Event::composed(std::move(events));
    };
    std::vector<Event> candidates;
    for (const Json& candidate : one.at("candidates")) candidates.push_back(event_of(candidate));
    const auto orders = one.at("orders").get<std::vector<double>>();
    const auto rdp = started("rdp", {{"conversion", one.at("conversion").get<std::string>(), {}},
                                     {"orders", Value::List(orders.begin(), orders.end()), {}}});
    rdp->compose(Event::repeat_and_select(one.at("mean"), shape_of(one), candidates),
                 one.at("count"));
    rdp->compose(event_of(one.at("beside")), 1);
    const double got = rdp->epsilon(one.at("delta")).value;
    const double expected = one.at("epsilon");
    CHECK(got >= expected * (1.0 - 1e-14));
    CHECK(got <= expected * (1.0 + 1e-10));
    CHECK(got >= one.at("theorem").get<double>() * (1.0 - 1e-14));
    ++cases;
  }
  CHECK(cases >= 36);
}

TEST_CASE("selection: pld is the bound by the profile of one run", "[accountant][pld][selection]") {
  for (const Json& one : golden("profile")) {
    CAPTURE(one);
    const auto pld = started("pld");
    pld->compose(
        Event::repeat_and_select(one.at("mean"), shape_of(one), {Event::gaussian(one.at("sigma"))}),
        1);
    const double delta = one.at("delta"), expected = one.at("epsilon");
    const PrivacyAnswer got = pld->epsilon(delta);
    CHECK(got.value >= expected * (1.0 - 1e-12));
    CHECK(got.value <= expected * (1.0 + 1e-8));
    CHECK(*got.lower < expected);
    CHECK_THAT(pld->delta(got.value).value, WithinRel(delta, 1e-6));
  }
}

TEST_CASE("selection: no law of a best run is beyond the bounds, whatever the order of outputs",
          "[accountant][selection][privacy][long]") {
  Random random(7);
  const int pairs = trials(60, "pairs of distributions");
  for (int i = 0; i < pairs; ++i) {
    auto [p, q] = i % 3 == 0 ? randomized_response(4, random.uniform(0.1, 3.0))
                             : std::pair(random_masses(random, 4), random_masses(random, 4));
    std::array<std::size_t, 4> places{0, 1, 2, 3};
    for (const Law& law : some_laws()) {
      const pld::Selection profile = by_profile(law, p, q);
      do {
        Masses run, other;
        for (const std::size_t y : places) {
          run.push_back(p[y]);
          other.push_back(q[y]);
        }
        const Masses best = best_of(law, run), neighbour = best_of(law, other);
        CAPTURE(law.mean, law.shape, p, q, places);
        for (const double epsilon : {0.0, 0.3, 1.0, 2.5, 5.0})
          REQUIRE(delta_of(best, neighbour, epsilon) <= profile.delta(epsilon) + 1e-12);
        for (const double delta : {1e-6, 1e-3, 0.05}) {
          REQUIRE(delta_of(best, neighbour, profile.epsilon(delta)) <= delta * (1.0 + 1e-9));
        }
        for (const double order : {1.1, 1.7, 3.0, 8.0, 40.0}) {
          REQUIRE(moment_of(best, neighbour, order) <= moment_bound(law, run, other, order) + 1e-9);
        }
      } while (std::next_permutation(places.begin(), places.end()));
    }
  }
}

namespace {

/// Returns discrete Gaussian noise with that sigma around 0 or 1, without negligible values.
Masses discrete(double sigma, int around) {
  const int reach = static_cast<int>(12.0 * sigma) + 2;
  Masses masses;
  for (int y = -reach; y <= reach; ++y)
    masses.push_back(std::exp(-0.5 * std::pow((y - around) / sigma, 2)));
  const double sum = std::accumulate(masses.begin(), masses.end(), 0.0);
  for (double& mass : masses) mass /= sum;
  return masses;
}

Masses reversed(Masses masses) {
  std::reverse(masses.begin(), masses.end());
  return masses;
}

Masses both(const Masses& a, const Masses& b) {
  Masses product;
  for (const double x : a) {
    for (const double y : b) product.push_back(x * y);
  }
  return product;
}

}  // namespace

TEST_CASE("selection: certified is no less than the truth of integers with discrete noise",
          "[accountant][selection][privacy]") {
  const double sigma = 1.3;
  const Masses p = discrete(sigma, 1), q = discrete(sigma, 0);
  const Event run = Event::discrete_gaussian(sigma, 1);
  for (const Law& law : some_laws()) {
    const Event best = Event::repeat_and_select(law.mean, law.shape, {run});
    const Masses high = best_of(law, p), high_other = best_of(law, q);
    const Masses low = best_of(law, reversed(p)), low_other = best_of(law, reversed(q));
    for (const char* name : {"rdp", "pld"}) {
      CAPTURE(law.mean, law.shape, name);
      const auto one = started(name);
      one->compose(best, 1);
      const auto two = started(name);  // two selections, and a run
      two->compose(best, 2);
      two->compose(run, 1);
      for (const double delta : {1e-2, 1e-5, 1e-8}) {
        const PrivacyAnswer answer = one->epsilon(delta);
        CHECK(delta_of(high, high_other, answer.value) <= delta);
        CHECK(delta_of(low, low_other, answer.value) <= delta);
        if (answer.lower) CHECK(*answer.lower <= answer.value);
        const double of_two = two->epsilon(delta).value;
        CHECK(of_two > answer.value);
        CHECK(delta_of(both(both(high, high), p), both(both(high_other, high_other), q), of_two) <=
              delta);
        CHECK(delta_of(both(both(low, high), p), both(both(low_other, high_other), q), of_two) <=
              delta);
      }
      CHECK(delta_of(high, high_other, 0.5) <= one->delta(0.5).value);
    }
  }
}

// An output y ~ N(0, 1) or, on the neighbour, y ~ N(mu, 1) is its own score: the density of the
// best of K is f'(F(y)) q(y), and its delta is an integral.
TEST_CASE("selection: the best of Gaussian scores costs no more than is certified",
          "[accountant][selection][privacy]") {
  const auto density = [](double y) {
    return std::exp(-y * y / 2.0) / std::sqrt(2.0 * std::numbers::pi);
  };
  const auto distribution = [](double y) { return 0.5 * std::erfc(-y / std::numbers::sqrt2); };
  for (const Law& law : some_laws()) {
    for (const double mu : {0.1, 0.6, 2.0}) {
      const auto truth = [&](double epsilon) {
        constexpr double kStep = 1e-3;
        double forth = 0.0, back = 0.0;
        for (double y = -10.0; y < 10.0 + mu; y += kStep) {
          const double p = law.slope(distribution(y)) * density(y);
          const double q = law.slope(distribution(y - mu)) * density(y - mu);
          forth += std::max(0.0, p - std::exp(epsilon) * q) * kStep;
          back += std::max(0.0, q - std::exp(epsilon) * p) * kStep;
        }
        return std::max(forth, back);
      };
      const Event best = Event::repeat_and_select(law.mean, law.shape, {Event::gaussian(1.0 / mu)});
      for (const char* name : {"rdp", "pld"}) {
        const auto accountant = started(name);
        accountant->compose(best, 1);
        for (const double delta : {1e-2, 1e-5}) {
          CAPTURE(law.mean, law.shape, mu, delta, name);
          CHECK(truth(accountant->epsilon(delta).value) <= delta * (1.0 + 1e-6));
        }
      }
    }
  }
}

TEST_CASE("selection: choosing is not free, and costs less than composing",
          "[accountant][selection][privacy]") {
  const Event run = Event::gaussian(1.0 / 0.6);
  for (const char* name : {"rdp", "pld"}) {
    const auto epsilon = [&](const Event& event) {
      const auto accountant = started(name);
      accountant->compose(event, 1);
      return accountant->epsilon(1e-5).value;
    };
    for (const double shape : {1.0, kPoisson}) {
      const double best = epsilon(Event::repeat_and_select(8.0, shape, {run}));
      CHECK(best > epsilon(run));
      CHECK(best < epsilon(Event::self_composed(8, run)));
      CHECK(best < epsilon(Event::repeat_and_select(16.0, shape, {run})));
      // Equal candidates count as one; the most expensive one counts.
      const Event quieter = Event::gaussian(5.0);
      CHECK(epsilon(Event::repeat_and_select(8.0, shape, {run, run})) == best);
      CHECK(epsilon(Event::repeat_and_select(8.0, shape, {quieter, run})) == best);
    }
    // If there is always one run; and for runs without cost.
    CHECK_THAT(epsilon(Event::repeat_and_select(1.0, 1.0, {run})), WithinRel(epsilon(run), 1e-9));
    CHECK(epsilon(Event::repeat_and_select(9.0, 1.0, {Event::nothing()})) == 0.0);
    CHECK(std::isinf(epsilon(Event::repeat_and_select(9.0, 1.0, {run, Event::non_private()}))));
  }
}

// Liu and Talwar 2019, Theorem 3.1: the best of a geometric number of epsilon-DP runs is 3
// epsilon-DP, and by Papernot and Steinke 2022 (2 + eta) epsilon-DP for other distributions. The
// number of runs is so large that no other bound is better.
TEST_CASE("selection: the best of purely private runs costs (2 + eta) times one",
          "[accountant][selection][privacy]") {
  for (const double shape : {-0.5, 0.0, 1.0, 3.0}) {
    const auto rdp = started("rdp");
    rdp->compose(Event::repeat_and_select(1e12, shape, {Event::laplace(2.0)}), 1);
    const double epsilon = rdp->epsilon(1e-30).value;
    CAPTURE(shape);
    CHECK(epsilon >= (2.0 + shape) * 0.5);
    CHECK_THAT(epsilon, WithinRel((2.0 + shape) * 0.5, 1e-9));
    CHECK(rdp->delta((2.0 + shape) * 0.5 * (1.0 + 1e-12)).value == 0.0);
  }
  // The largest profile that pure privacy allows.
  const pld::Selection bound(1e9, 1.0,
                             {.delta = [](double e) { return e < 0.7 ? 1.0 : 0.0; },
                              .epsilon = [](double) { return 0.7; }});
  CHECK(bound.epsilon(1e-5) >= 3.0 * 0.7);
  CHECK_THAT(bound.epsilon(1e-5), WithinRel(3.0 * 0.7, 1e-6));
}

TEST_CASE("selection: the pair that stands for it in a composition costs no less, to its last loss",
          "[accountant][pld][selection][privacy]") {
  // One run whose profile never reaches 0: e^(-3 epsilon) / 2.
  const pld::Selection bound(4.0, 1.0,
                             {.delta = [](double e) { return 0.5 * std::exp(-3.0 * e); },
                              .epsilon = [](double d) { return std::log(0.5 / d) / 3.0; }});
  const pld::RatioLaw law = bound.law();
  REQUIRE(law.beyond > 0.0);
  const double last = std::log(law.value.back());
  // Below it, the bound is cut off at 1, and a divergence, which is convex, is smaller.
  for (const double share : {0.3, 0.5, 0.7, 0.9, 0.999, 1.0, 1.01, 2.0}) {
    const double epsilon = share * last;
    double divergence = law.beyond;
    for (std::size_t i = 0; i < law.value.size(); ++i)
      divergence += law.mass[i] * std::max(0.0, law.value[i] - std::exp(epsilon));
    CAPTURE(share, divergence);
    CHECK(divergence >= bound.delta(epsilon));
  }
}

TEST_CASE("selection: who has no theorem refuses, and so does whoever refuses a candidate",
          "[accountant][selection]") {
  const Event best = Event::repeat_and_select(4.0, 1.0, {Event::gaussian(2.0)});
  for (const char* name : {"gdp", "zcdp", "saddle_point"}) {
    CHECK_THAT(*started(name)->refuses(best), ContainsSubstring("repeat_and_select"));
    CHECK_THROWS_AS(started(name)->compose(best, 1), privgrad::PrivacyError);
  }
  for (const char* name : {"rdp", "pld"}) {
    CHECK_FALSE(started(name)->refuses(best));
    CHECK_FALSE(started(name)->refuses(Event::repeat_and_select(2.0, kPoisson, {best})));
    const Event unknown = Event::unsupported("a mystery");
    CHECK_THAT(*started(name)->refuses(
                   Event::repeat_and_select(2.0, 1.0, {Event::gaussian(1.0), unknown})),
               ContainsSubstring("a mystery"));
    CHECK(started(name)->refuses(Event::poisson_sampled(0.1, best)));
  }
}

}  // namespace selections
