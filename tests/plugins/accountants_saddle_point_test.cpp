#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "golden.hpp"
#include "house_plugins.hpp"
#include "privgrad/accountant.hpp"
#include "trials.hpp"

namespace accountants_saddle_point_test {

using privgrad::Accountant;
using privgrad::Adjacency;
using privgrad::BoundKind;
using privgrad::Event;
using privgrad::PrivacyAnswer;
using privgrad::Value;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

auto saddle(Adjacency adjacency = Adjacency::add_or_remove_one, const char* direction = "both") {
  auto accountant =
      house().create<Accountant>("saddle_point", Value::Object{{"direction", direction, {}}});
  accountant->start(adjacency);
  return accountant;
}

Event sampled(double q, double sigma) { return Event::poisson_sampled(q, Event::gaussian(sigma)); }

auto saddle_of(const Event& event, std::uint64_t count = 1,
               Adjacency adjacency = Adjacency::add_or_remove_one, const char* direction = "both") {
  auto accountant = saddle(adjacency, direction);
  accountant->compose(event, count);
  return accountant;
}

/// Checks that the answer's interval contains the true value (known up to `known`), and is
/// small.
void check_exact(const PrivacyAnswer& answer, double truth, double tolerance,
                 double known = 1e-15) {
  INFO("got " << answer.value << " (" << answer.note << "), expected " << truth);
  REQUIRE(answer.lower);
  CHECK(answer.value >= truth * (1.0 - known));
  CHECK(*answer.lower <= truth * (1.0 + known));
  CHECK(answer.value <= truth * (1.0 + tolerance));
  CHECK(*answer.lower >= truth * (1.0 - tolerance));
}

long double upper_tail(long double x) { return 0.5L * erfcl(x / sqrtl(2.0L)); }

/// Balle and Wang 2018, Theorem 8, for one Gaussian with a sensitivity of mu standard deviations.
long double gaussian_delta(long double epsilon, long double mu) {
  return upper_tail(epsilon / mu - mu / 2) - expl(epsilon) * upper_tail(epsilon / mu + mu / 2);
}

/// l(z) = ln of the density of (1-q) N(0, sigma^2) + q N(1, sigma^2) over that of N(0, sigma^2).
long double log_ratio(long double z, long double q, long double sigma) {
  const long double x = (2 * z - 1) / (2 * sigma * sigma);
  return x > 0 ? x + logl(q + (1 - q) * expl(-x)) : log1pl(q * expm1l(x));
}

/// delta of one sampled step, for any sign of epsilon: the loss grows (add: falls) with z, so delta
/// is P(z > z*) - e^epsilon Q(z > z*) (add: z < z*), with z* by bisection.
long double one_step(const std::string& direction, long double q, long double sigma,
                     long double epsilon) {
  const long double target = direction == "add" ? -epsilon : epsilon;
  if (direction != "replace" && target <= log1pl(-q)) {
    return direction == "remove" ? -expm1l(epsilon) : 0.0L;
  }
  const auto loss = [&](long double z) {
    return log_ratio(z, q, sigma) - (direction == "replace" ? log_ratio(-z, q, sigma) : 0.0L);
  };
  long double low = -100 * sigma - 10;
  long double high = 100 * sigma + 10;
  for (int i = 0; i < 200; ++i) {
    const long double middle = (low + high) / 2;
    (loss(middle) < target ? low : high) = middle;
  }
  const long double none = upper_tail(low / sigma);
  const long double there = upper_tail((low - 1) / sigma);
  if (direction == "remove") return q * there - (expm1l(epsilon) + q) * none;
  if (direction == "add") {
    return (1 - expl(epsilon) * (1 - q)) * (1 - none) - expl(epsilon) * q * (1 - there);
  }
  return -(1 - q) * expm1l(epsilon) * none + q * there -
         expl(epsilon) * q * upper_tail((low + 1) / sigma);
}

/// delta of a sampled step ("remove") after another release: the mean over z ~ P of that release's
/// delta at epsilon - l(z), by Simpson's rule, an entirely different method.
long double after_step(long double q, long double sigma, long double epsilon,
                       const std::function<long double(long double)>& other) {
  const int intervals = 4000;
  const long double low = -9 * sigma;
  const long double high = 1 + 9 * sigma;
  const long double h = (high - low) / intervals;
  long double sum = 0;
  for (int i = 0; i <= intervals; ++i) {
    const long double z = low + h * i;
    const long double density =
        expl(-z * z / (2 * sigma * sigma) + log_ratio(z, q, sigma)) / (sigma * sqrtl(2 * M_PIl));
    const long double weight = i == 0 || i == intervals ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * density * other(epsilon - log_ratio(z, q, sigma));
  }
  return sum * h / 3;
}

}  // namespace

// Expected values: 50-digit contour integrals on two contours that agree.
TEST_CASE("saddle_point: exact epsilons that are known to many digits", "[accountant]") {
  struct Case {
    double q, sigma;
    std::uint64_t steps;
    double delta;
    const char* direction;
    double epsilon;
  };
  for (const Case& c : {
           Case{256.0 / 60000, 1.1, 14063, 1e-5, "remove", 2.3816897261416488},
           Case{256.0 / 60000, 1.1, 14063, 1e-5, "add", 2.2436508016201717},
           Case{256.0 / 60000, 1.1, 14063, 1e-5, "replace", 4.2214699031227445},
           Case{0.0001, 0.6, 100000, 1e-6, "remove", 0.9632775545050811},
           Case{0.001, 0.4, 1000, 1e-6, "remove", 8.630591575224184},
           Case{0.001, 0.4, 1000, 1e-6, "add", 0.603461473520996},
           Case{0.5, 50.0, 1000, 1e-6, "remove", 1.3685851232832453},
           Case{0.32768, 9.4, 2000, 1e-5, "replace", 17.502973406268353},
       }) {
    const bool replace = std::string(c.direction) == "replace";
    const auto accountant =
        saddle_of(sampled(c.q, c.sigma), c.steps,
                  replace ? Adjacency::replace_one : Adjacency::add_or_remove_one,
                  replace ? "both" : c.direction);
    check_exact(accountant->epsilon(c.delta), c.epsilon, 1e-9);
  }
}

TEST_CASE("saddle_point: Gaussians, against Balle and Wang", "[accountant]") {
  const std::vector<double> epsilons{0.0, 1e-3, 0.1, 1.0, 5.0, 30.0};
  for (const double mu : {1e-3, 0.03, 0.5, 1.0, 4.0, 10.0}) {
    const auto accountant = saddle_of(Event::gaussian(1.0 / mu));
    for (const double epsilon : epsilons) {
      const long double truth = gaussian_delta(epsilon, mu);
      // Far out, few digits of the difference of the two tails are left, even in long double.
      const long double lost = upper_tail(epsilon / mu - mu / 2) * 1e-18L / truth;
      if (!(truth > 1e-300L) || lost > 1e-12L) continue;
      INFO("mu " << mu << ", epsilon " << epsilon);
      const PrivacyAnswer answer = accountant->delta(epsilon);
      check_exact(answer, static_cast<double>(truth), 1e-10, 1e-12);
      CHECK(answer.bound == BoundKind::exact);
      if (truth > 1e-4L && truth < 0.999L && epsilon > 0.0) {
        check_exact(accountant->epsilon(static_cast<double>(truth)), epsilon, 1e-9, 1e-11);
      }
    }
  }
}

TEST_CASE("saddle_point: one sampled step, against its closed form", "[accountant]") {
  for (const double q : {0.005, 0.1, 0.7, 0.999}) {
    for (const double sigma : {0.3, 1.0, 8.0}) {
      for (const double epsilon : {0.0, 0.2 * q, 0.5 / sigma}) {
        for (const std::string direction : {"remove", "add", "replace"}) {
          const bool replace = direction == "replace";
          const long double truth = one_step(direction, q, sigma, epsilon);
          if (truth < 1e-6L * static_cast<long double>(q)) continue;  // the tails cancel
          INFO(direction << " q " << q << ", sigma " << sigma << ", epsilon " << epsilon);
          const auto accountant = saddle_of(
              sampled(q, sigma), 1, replace ? Adjacency::replace_one : Adjacency::add_or_remove_one,
              replace ? "both" : direction.c_str());
          const PrivacyAnswer answer = accountant->delta(epsilon);
          check_exact(answer, static_cast<double>(truth),
                      answer.note.find("upper") != std::string::npos ? 1e-6 : 1e-8, 1e-12);
        }
      }
    }
  }
}

TEST_CASE("saddle_point: one random sampled step, against its closed form", "[accountant]") {
  std::mt19937_64 generator(90125);
  const auto between = [&](double low, double high) {
    return std::exp(
        std::uniform_real_distribution<double>(std::log(low), std::log(high))(generator));
  };
  const std::string directions[] = {"remove", "add", "replace"};
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string& direction = directions[i % 3];
    const bool replace = direction == "replace";
    const double q = between(1e-3, 1.0);
    const double sigma = between(0.4, 1e4);
    const double z = sigma * between(0.1, 6.0);
    const double epsilon = std::fabs(
        static_cast<double>(direction == "add" ? log_ratio(-z, q, sigma) : log_ratio(z, q, sigma)));
    const long double truth = one_step(direction, q, sigma, epsilon);
    if (truth < 1e-7L * static_cast<long double>(q)) continue;  // the tails cancel
    INFO(direction << " q " << q << ", sigma " << sigma << ", epsilon " << epsilon);
    const auto accountant = saddle_of(
        sampled(q, sigma), 1, replace ? Adjacency::replace_one : Adjacency::add_or_remove_one,
        replace ? "both" : direction.c_str());
    const PrivacyAnswer answer = accountant->delta(epsilon);
    const auto known = static_cast<double>(1e-18L * q / truth) + 1e-12;
    CHECK(answer.value >= static_cast<double>(truth) * (1.0 - known));
    CHECK(*answer.lower <= static_cast<double>(truth) * (1.0 + known));
    ++checked;
  }
  CHECK(checked > 25);
}

// Expected values: contour integrals in 113-bit arithmetic. Every step in which the example takes
// part reveals about the same amount, so the integrand decays and rises again.
TEST_CASE("saddle_point: losses that are nearly a lattice", "[accountant]") {
  check_exact(
      saddle_of(sampled(1e-4, 0.35), 40, Adjacency::add_or_remove_one, "remove")->delta(240),
      7.3891913329631302e-227, 1e-8);
  check_exact(saddle_of(sampled(1e-5, 0.3), 50, Adjacency::replace_one)->delta(350),
              5.4894720256898811e-304, 1e-8);
}

// Expected value: as above. A step's loss is far from 0 unless the example is left out, which is
// rare.
TEST_CASE("saddle_point: sampling probabilities next to 1", "[accountant]") {
  check_exact(saddle_of(sampled(0.99999998677158175, 0.24735026416697861), 294,
                        Adjacency::add_or_remove_one, "add")
                  ->delta(2813.930802075382),
              4.31113291989076e-10, 1e-10, 1e-14);
}

TEST_CASE("saddle_point: two different steps, against nested integrals", "[accountant]") {
  for (const double epsilon : {0.0, 0.05, 0.4, 2.0}) {
    INFO("epsilon " << epsilon);
    const auto both = saddle(Adjacency::add_or_remove_one, "remove");
    both->compose(sampled(0.05, 1.0), 1);
    both->compose(sampled(0.2, 1.7), 1);
    check_exact(both->delta(epsilon),
                static_cast<double>(after_step(
                    0.05L, 1.0L, epsilon,
                    [](long double rest) { return one_step("remove", 0.2L, 1.7L, rest); })),
                1e-8, 1e-8);
    const auto mixed = saddle(Adjacency::add_or_remove_one, "remove");
    mixed->compose(Event::composed({sampled(0.05, 1.0), Event::gaussian(2.0)}), 1);
    check_exact(
        mixed->delta(epsilon),
        static_cast<double>(after_step(
            0.05L, 1.0L, epsilon, [](long double rest) { return gaussian_delta(rest, 0.5L); })),
        1e-8, 1e-8);
  }
}

TEST_CASE("saddle_point: the larger direction counts, and one alone guards nothing",
          "[accountant]") {
  const auto event = sampled(0.01, 1.0);
  for (const Adjacency adjacency : {Adjacency::add_or_remove_one, Adjacency::zero_out}) {
    const auto both = saddle_of(event, 500, adjacency)->epsilon(1e-6);
    const auto remove = saddle_of(event, 500, adjacency, "remove")->epsilon(1e-6);
    const auto add = saddle_of(event, 500, adjacency, "add")->epsilon(1e-6);
    CHECK(both.bound == BoundKind::exact);
    CHECK(remove.bound == BoundKind::estimate);
    CHECK(add.bound == BoundKind::estimate);
    CHECK(add.value < remove.value * 0.95);
    CHECK(both.value == std::max(add.value, remove.value));
    CHECK_THAT(add.note, ContainsSubstring("no guarantee"));
  }
  // With a single direction there is nothing to leave out.
  CHECK(saddle_of(event, 500, Adjacency::replace_one, "remove")->epsilon(1e-6).bound ==
        BoundKind::exact);
}

TEST_CASE("saddle_point: what adjacency makes of a Gaussian", "[accountant]") {
  // Replacing doubles the sensitivity; sampling with probability 1 is no sampling.
  const double doubled = saddle_of(Event::gaussian(1.5))->epsilon(1e-6).value;
  for (const Event& event : {Event::gaussian(3.0), sampled(1.0, 3.0)}) {
    CHECK_THAT(saddle_of(event, 1, Adjacency::replace_one)->epsilon(1e-6).value,
               WithinRel(doubled, 1e-12));
    CHECK(saddle_of(event, 1, Adjacency::zero_out)->epsilon(1e-6).value ==
          saddle_of(event)->epsilon(1e-6).value);
  }
  // The sampled pair of replace_one approaches this value as q approaches 1.
  CHECK_THAT(saddle_of(sampled(1.0 - 1e-13, 3.0), 1, Adjacency::replace_one)->epsilon(1e-6).value,
             WithinRel(doubled, 1e-9));
}

TEST_CASE("saddle_point: order, grouping and nesting do not matter", "[accountant]") {
  const std::vector<Event> steps{sampled(0.01, 1.0), sampled(0.02, 1.5), Event::gaussian(20.0),
                                 sampled(0.01, 2.0), Event::gaussian(15.0)};
  std::vector<Event> all;
  for (int i = 0; i < 40; ++i) all.insert(all.end(), steps.begin(), steps.end());
  const auto in_order = saddle();
  for (const Event& event : all) in_order->compose(event, 1);
  const double expected = in_order->epsilon(1e-5).value;
  std::mt19937 generator(7);
  for (int i = 0; i < 3; ++i) {
    std::shuffle(all.begin(), all.end(), generator);
    const auto shuffled = saddle();
    for (const Event& event : all) shuffled->compose(event, 1);
    CHECK(shuffled->epsilon(1e-5).value == expected);
  }
  CHECK(saddle_of(Event::self_composed(8, Event::composed(steps)), 5)->epsilon(1e-5).value ==
        expected);
}

TEST_CASE("saddle_point: more of anything that leaks costs more", "[accountant][long]") {
  std::mt19937_64 generator(20240607);
  const auto between = [&](double low, double high) {
    return std::exp(
        std::uniform_real_distribution<double>(std::log(low), std::log(high))(generator));
  };
  const Adjacency adjacencies[] = {Adjacency::add_or_remove_one, Adjacency::replace_one,
                                   Adjacency::zero_out};
  const int count = trials(2400, "random settings");
  for (int i = 0; i < count; ++i) {
    const Adjacency adjacency = adjacencies[i % 3];
    const double q = between(1e-3, 0.9);
    const double sigma = between(0.4, 20.0);
    const auto steps = static_cast<std::uint64_t>(between(10.0, 1e5));
    const double delta = between(1e-12, 0.1);
    INFO(to_text(adjacency) << " q " << q << ", sigma " << sigma << ", steps " << steps
                            << ", delta " << delta);
    const auto accountant = saddle_of(sampled(q, sigma), steps, adjacency);
    const PrivacyAnswer here = accountant->epsilon(delta);
    REQUIRE(std::isfinite(here.value));
    REQUIRE(here.lower);
    CHECK((here.value >= *here.lower && *here.lower >= 0.0));
    CHECK(*accountant->epsilon(delta * 1.1).lower <= here.value);
    CHECK(*here.lower <=
          saddle_of(sampled(q * 1.05, sigma), steps, adjacency)->epsilon(delta).value);
    CHECK(*here.lower <=
          saddle_of(sampled(q, sigma * 0.95), steps, adjacency)->epsilon(delta).value);
    const auto more = saddle_of(sampled(q, sigma), steps, adjacency);
    more->compose(sampled(q, sigma), 1 + steps / 20);
    CHECK(*here.lower <= more->epsilon(delta).value);
    // Round trip: delta of that epsilon is at most the given delta.
    const PrivacyAnswer back = accountant->delta(here.value);
    CHECK(*back.lower <= delta);
    if (here.bound == BoundKind::exact && here.value > 0.0 && back.bound == BoundKind::exact) {
      CHECK_THAT(back.value, WithinRel(delta, 1e-7));
    }
  }
}

TEST_CASE("saddle_point: across its whole range an answer, a bound, or an error", "[accountant]") {
  for (const double q : {1e-6, 0.5, 1.0 - 1e-12, 1.0}) {
    for (const double sigma : {0.2, 1.0, 1e4}) {
      for (const std::uint64_t steps : {std::uint64_t{1000}, std::uint64_t{10000000}}) {
        const auto accountant = saddle_of(sampled(q, sigma), steps);
        double previous = kInfinity;
        for (const double delta : {1e-300, 1e-12, 0.5, 1.0 - 1e-9}) {
          INFO("q " << q << ", sigma " << sigma << ", steps " << steps << ", delta " << delta);
          const PrivacyAnswer answer = accountant->epsilon(delta);
          INFO(answer.value << " " << answer.note);
          CHECK((answer.value >= 0.0 && std::isfinite(answer.value)));
          CHECK((answer.bound == BoundKind::exact || !answer.note.empty()));
          CHECK(*answer.lower <= previous);
          previous = answer.value;
          // Delta is within the accountant's own interval, up to rounding for huge epsilon.
          const PrivacyAnswer back = accountant->delta(answer.value);
          CHECK((back.value >= 0.0 && back.value <= 1.0));
          CHECK(*back.lower <= delta * (1.0 + 1e-6));
        }
      }
    }
  }
}

TEST_CASE("saddle_point: 1e7 steps at the corners of the range, against plain Gaussians",
          "[accountant]") {
  // sigma = 1e4, q = 1 - 1e-12: almost unsampled, mu = sqrt(1e7) / 1e4.
  const double truth = static_cast<double>(gaussian_delta(1.0L, sqrtl(1e7L) / 1e4L));
  CHECK_THAT(saddle_of(sampled(1.0 - 1e-12, 1e4), 10000000)->delta(1.0).value,
             WithinRel(truth, 1e-8));
  // sigma = 1e4, q = 1e-3: the loss is Gaussian with mu = q sqrt(n) / sigma up to a relative q /
  // sigma and similar terms.
  const double mu = 1e-3 * std::sqrt(1e7) / 1e4;
  CHECK_THAT(saddle_of(sampled(1e-3, 1e4), 10000000)->delta(1e-3).value,
             WithinRel(static_cast<double>(gaussian_delta(1e-3L, mu)), 1e-3));
}

TEST_CASE("saddle_point: where rounding hides delta it says so, and stays above", "[accountant]") {
  // One step that almost never uses the example: delta is far below the resolution of the moment
  // generating function.
  for (const double epsilon : {0.33, 1.0}) {
    const auto truth = static_cast<double>(one_step("remove", 1.3e-4L, 1.4L, epsilon));
    const PrivacyAnswer answer = saddle_of(sampled(1.3e-4, 1.4))->delta(epsilon);
    CHECK(answer.bound == BoundKind::upper);
    CHECK_FALSE(answer.note.empty());
    CHECK(answer.value >= truth);
    CHECK(answer.value <= 1e-6);
    CHECK(*answer.lower <= truth);
  }
  const auto remove = saddle_of(sampled(1.3e-4, 1.4))->epsilon(1e-30);
  CHECK(remove.bound == BoundKind::upper);
  CHECK(one_step("remove", 1.3e-4L, 1.4L, remove.value) <= 1e-30L);
}

TEST_CASE("saddle_point: many steps, one call each", "[accountant]") {
  const auto accountant = saddle();
  for (int i = 0; i < 100000; ++i) accountant->compose(sampled(0.001, 2.0), 1);
  CHECK(accountant->epsilon(1e-6).value ==
        saddle_of(sampled(0.001, 2.0), 100000)->epsilon(1e-6).value);
  // A question does not affect later answers.
  accountant->compose(sampled(0.001, 2.0), 100000);
  CHECK(accountant->epsilon(1e-6).value ==
        saddle_of(sampled(0.001, 2.0), 200000)->epsilon(1e-6).value);
}

TEST_CASE("saddle_point: nothing costs nothing, no noise costs everything", "[accountant]") {
  for (const Adjacency adjacency :
       {Adjacency::add_or_remove_one, Adjacency::replace_one, Adjacency::zero_out}) {
    const auto accountant = saddle(adjacency);
    accountant->compose(Event::nothing(), 3);
    accountant->compose(sampled(0.0, 1.0), 1000);
    accountant->compose(Event::gaussian(1.0), 0);
    accountant->compose(Event::self_composed(0, Event::non_private()), 5);
    accountant->compose(Event::poisson_sampled(0.3, Event::nothing()), 1);
    CHECK(accountant->epsilon(1e-9).value == 0.0);
    CHECK(accountant->delta(0.0).value == 0.0);
    accountant->compose(Event::non_private(), 1);
    accountant->compose(Event::gaussian(1.0), 5);
    CHECK(accountant->epsilon(1e-5).value == kInfinity);
    CHECK(accountant->delta(100.0).value == 1.0);
    accountant->start(adjacency);  // must forget the earlier events
    CHECK(accountant->epsilon(1e-5).value == 0.0);
  }
}

TEST_CASE("saddle_point: what it has no proof for is refused, and nothing is added",
          "[accountant]") {
  const auto accountant = saddle();
  accountant->compose(sampled(0.01, 1.0), 30);
  const double before = accountant->epsilon(1e-5).value;
  const Event gaussian = Event::gaussian(1.0);
  for (const Event& event :
       {Event::laplace(1.0), Event::discrete_gaussian(3.0, 1), Event::zcdp(0.1),
        Event::sampled_without_replacement(100, 10, gaussian), Event::unsupported("a mystery"),
        Event::random_allocation(100, gaussian), Event::poisson_sampled(0.1, Event::laplace(1.0)),
        Event::poisson_sampled(0.1, Event::non_private()),
        Event::poisson_sampled(0.0, Event::unsupported("a mystery")),
        Event::poisson_sampled(0.1, Event::composed({gaussian, Event::laplace(2.0)})),
        Event::composed({gaussian, Event::self_composed(3, Event::laplace(1.0))})}) {
    const auto reason = accountant->refuses(event);
    REQUIRE(reason);
    CHECK_FALSE(reason->empty());
    CHECK_THROWS_AS(accountant->compose(event, 1), privgrad::PrivacyError);
    CHECK(accountant->epsilon(1e-5).value == before);
  }
  CHECK_THAT(*accountant->refuses(Event::unsupported("a mystery")), ContainsSubstring("a mystery"));
  CHECK_THAT(*accountant->refuses(Event::laplace(1.0)), ContainsSubstring("closed form"));
  CHECK_FALSE(accountant->refuses(Event::poisson_sampled(0.1, Event::self_composed(1, gaussian))));
}

TEST_CASE("saddle_point: out of range is an error, not an answer", "[accountant]") {
  const auto accountant = saddle_of(sampled(0.01, 1.0));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double delta : {0.0, 1.0, -1e-5, 2.0, nan}) {
    CHECK_THROWS_AS(accountant->epsilon(delta), privgrad::ConfigError);
  }
  for (const double epsilon : {-1e-9, kInfinity, nan}) {
    CHECK_THROWS_AS(accountant->delta(epsilon), privgrad::ConfigError);
  }
  // Too little noise to compute with: the bound is infinite, so searches take more noise.
  for (const double noise : {1e-9, 0.0199}) {
    const auto little = saddle_of(sampled(0.01, noise));
    CHECK(little->epsilon(1e-5).value == std::numeric_limits<double>::infinity());
    CHECK(little->epsilon(1e-5).bound == privgrad::BoundKind::upper);
    CHECK(little->delta(1.0).value == 1.0);
  }
  CHECK(std::isfinite(saddle_of(sampled(0.01, 0.02))->epsilon(1e-5).value));
  CHECK_THROWS_AS(saddle_of(sampled(0.01, 1e9))->epsilon(1e-5), privgrad::NumericError);
  CHECK(saddle_of(Event::gaussian(1e-200))->epsilon(1e-5).value == kInfinity);
  // Counts that a double cannot represent: refused before anything is added.
  const double before = accountant->epsilon(1e-5).value;
  CHECK_THROWS_AS(accountant->compose(sampled(0.01, 1.0), std::uint64_t{1} << 53),
                  privgrad::ConfigError);
  CHECK_THROWS_AS(
      accountant->compose(Event::self_composed(std::int64_t{1} << 40, sampled(0.02, 1.0)),
                          std::uint64_t{1} << 40),
      privgrad::ConfigError);
  CHECK(accountant->epsilon(1e-5).value == before);
}

// Golden values, see tests/golden, to the relative 1e-9 that the accountant
// promises.
TEST_CASE("saddle_point: every golden value of its kinds", "[accountant][golden]") {
  const auto golden = golden_values();
  int compared = 0;
  double worst = 0.0;
  for (const auto& entry : golden.at("entries")) {
    const std::string kind = entry.at("kind");
    const auto& given = entry.at("inputs");
    const auto& expected = entry.at("expected_hp");
    INFO(entry.at("id").get<std::string>());
    const auto number = [](const nlohmann::json& text) {
      return std::strtold(text.get<std::string>().c_str(), nullptr);
    };
    const auto composed = [&](const std::string& direction) {
      const bool replace = direction == "replace";
      auto accountant = saddle(replace ? Adjacency::replace_one : Adjacency::add_or_remove_one,
                               replace || direction == "max" ? "both" : direction.c_str());
      if (given.contains("components")) {
        for (const auto& part : given.at("components")) {
          accountant->compose(sampled(part[0], part[1]), part[2].get<std::uint64_t>());
        }
      } else {
        accountant->compose(sampled(given.value("q", 1.0), given.at("sigma")),
                            given.value("steps", std::uint64_t{1}));
      }
      return accountant;
    };
    const auto check = [&](double got, long double want) {
      INFO("got " << got << ", expected " << want);
      CHECK(std::fabs(got - want) <= 1e-9L * want);
      if (want > 0.0L) worst = std::max(worst, static_cast<double>(std::fabs(got / want - 1.0L)));
      ++compared;
    };
    if (kind == "pld_sgm_eps" || kind == "pld_het_eps" || kind == "pld_sgm_eps_replace") {
      check(composed(given.at("direction"))->epsilon(given.at("delta")).value, number(expected));
    } else if (kind == "pld_sgm_delta" || kind == "pld_het_delta") {
      const auto accountant = composed(given.at("direction"));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        check(accountant->delta(given.at("eps")[i]).value, number(expected[i]));
      }
    } else if (kind == "pld_sgm_delta_1step" && given.at("eps") >= 0.0) {
      for (const std::string direction : {"remove", "add", "replace"}) {
        check(composed(direction)->delta(given.at("eps")).value, number(expected.at(direction)));
      }
    } else if (kind == "gauss_eps" || kind == "gauss_composed_eps") {
      check(composed("max")->epsilon(given.at("delta")).value, number(expected));
    } else if (kind == "gauss_delta") {
      check(composed("max")->delta(given.at("eps")).value, number(expected));
    } else if (kind == "gauss_sigma") {
      // The epsilon of the resulting noise must be the given one.
      const auto sigma = static_cast<double>(number(expected));
      check(saddle_of(Event::gaussian(sigma))->epsilon(given.at("delta")).value,
            given.at("eps").get<double>());
    } else if (entry.at("expected").is_object() && expected.contains("eps_exact_gaussian")) {
      // Trees: one Gaussian whose squared sensitivity is sens_sq.
      const double ratio = std::sqrt(entry.at("expected").at("sens_sq").get<double>());
      check(saddle_of(Event::gaussian(given.at("noise_multiplier").get<double>() / ratio))
                ->epsilon(given.at("delta"))
                .value,
            number(expected.at("eps_exact_gaussian")));
    } else if (kind == "calib_steps_pld") {
      const std::uint64_t steps = expected.at("steps");
      const auto after = [&](std::uint64_t count) {
        return saddle_of(sampled(given.at("q"), given.at("sigma")), count)
            ->epsilon(given.at("delta"))
            .value;
      };
      check(after(steps), number(expected.at("eps_at_steps")));
      check(after(steps + 1), number(expected.at("eps_at_steps_plus_1")));
    } else if (kind == "calib_sigma_pld") {
      const auto sigma = static_cast<double>(number(expected));
      check(saddle_of(sampled(given.at("q"), sigma), given.at("steps").get<std::uint64_t>())
                ->epsilon(given.at("delta"))
                .value,
            given.at("target_eps").get<double>());
    }
  }
  INFO("worst relative error " << worst);

  CHECK(compared > 350);
}

// Expected: mpmath, 60 digits, one step's P(loss > epsilon) - e^epsilon Q(loss > epsilon) with the
// threshold by bisection. The distance to 1 is 1 - q or less, which rounding loses in 1 + (a number
// near -1).
TEST_CASE("saddle_point: the interval holds the true delta where nearly everything is sampled",
          "[accountant]") {
  struct Case {
    double q, sigma, epsilon, delta;
  };
  for (const Case& c : {Case{1.0 - 1e-12, 0.02, 0.0, 0.99999999999900002212},
                        Case{1.0 - 1e-12, 0.02, 20.0, 0.99999999999900002212},
                        Case{1.0 - 1e-12, 0.03, 30.0, 0.99999999999900002212},
                        Case{1.0 - 1e-9, 0.05, 1.0, 0.99999999900000002828},
                        Case{1.0 - 1e-14, 0.05, 20.0, 0.99999999999999000799},
                        Case{1.0 - 1e-3, 0.1, 0.0, 0.99899999999999999911},
                        Case{1.0 - 1e-14, 0.2, 0.0, 0.99999942669684624961},
                        Case{1.0 - 1e-12, 0.2, 1.0, 0.99999905917798947342}}) {
    const auto accountant = saddle(Adjacency::replace_one);
    accountant->compose(sampled(c.q, c.sigma), 1);
    const auto got = accountant->delta(c.epsilon);
    INFO(c.q << ", " << c.sigma << ", " << c.epsilon << ": " << *got.lower - c.delta << " .. "
             << got.value - c.delta);
    CHECK(*got.lower <= c.delta + 0x1p-53);
    CHECK(got.value >= c.delta - 0x1p-53);
    CHECK(got.value - *got.lower <= 1e-12);
  }
}

}  // namespace accountants_saddle_point_test
