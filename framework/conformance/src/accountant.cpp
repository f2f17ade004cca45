// File length: these are all rules for one kind, which share their events.

#include "privgrad/accountant.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <span>
#include <utility>

#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr double kDeltas[] = {1e-12, 1e-8, 1e-5, 1e-2, 0.5, 0.9};
constexpr double kEpsilons[] = {0.0, 0.1, 1.0, 3.0, 10.0, 50.0};

/// The deltas and epsilons about which an accountant is asked.
struct Questions {
  std::span<const double> deltas, epsilons;
};
constexpr Questions kAll{kDeltas, kEpsilons};

/// The tolerance for answers of one accountant that must be equal or ordered, because the last
/// digits of discretised methods are not monotone.
constexpr double kSlack = 1e-6;

const double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Event> sample_events() {
  const Event gaussian = Event::gaussian(1.0);
  return {gaussian,
          Event::gaussian(4.0),
          Event::laplace(2.0),
          Event::discrete_gaussian(3.0, 1),
          Event::zcdp(0.1),
          Event::poisson_sampled(0.01, Event::gaussian(1.1)),
          Event::sampled_without_replacement(1000, 10, gaussian),
          Event::random_allocation(3, gaussian),
          Event::repeat_and_select(4.0, 1.0, {gaussian}),
          Event::repeat_and_select(4.0, RepeatAndSelectEvent::kPoisson, {gaussian}),
          Event::composed({gaussian, Event::gaussian(2.0)}),
          Event::self_composed(5, gaussian),
          Event::self_composed(3, Event::poisson_sampled(0.1, gaussian)),
          Event::nothing(),
          Event::non_private()};
}

std::vector<Event> unsupported_events() {
  const Event unknown = Event::unsupported("nobody has proved anything about it");
  return {unknown,
          Event::composed({Event::gaussian(1.0), unknown}),
          Event::self_composed(2, unknown),
          Event::poisson_sampled(0.5, unknown),
          Event::sampled_without_replacement(10, 5, unknown),
          Event::random_allocation(2, unknown),
          Event::repeat_and_select(2.0, 1.0, {Event::gaussian(1.0), unknown})};
}

std::string in_words(const Event& event, Adjacency adjacency) {
  return std::string(event.name()) + " under " + std::string(to_text(adjacency));
}

ComponentPtr<Accountant> started(const Checker& checker, Adjacency adjacency) {
  auto accountant = checker.make<Accountant>();
  accountant->start(adjacency);
  return accountant;
}

/// An event and its count. after() returns an accountant that has composed these, in order.
struct Spending {
  Event event;
  std::uint64_t count = 1;
};
ComponentPtr<Accountant> after(const Checker& checker, Adjacency adjacency,
                               const std::vector<Spending>& spent) {
  auto accountant = started(checker, adjacency);
  for (const auto& [event, count] : spent) accountant->compose(event, count);
  return accountant;
}

/// All answers of one accountant, for comparison with another accountant's answers.
struct Answers {
  Questions asked;
  std::vector<double> epsilons;
  std::vector<double> deltas;
  // Lower bounds; for an answer without a lower bound, its value.
  std::vector<double> least_epsilons;
  std::vector<double> least_deltas;
};

/// Returns the lower end of an answer's interval. Two answers break a promised order only if this
/// end of the answer that must not be larger is above the other answer: intervals differ in width.
double least(const PrivacyAnswer& answer) { return answer.lower.value_or(answer.value); }

Answers answers(const Accountant& accountant, const Questions& questions = kAll) {
  Answers all;
  all.asked = questions;
  for (const double delta : questions.deltas) {
    const PrivacyAnswer answer = accountant.epsilon(delta);
    all.epsilons.push_back(answer.value);
    all.least_epsilons.push_back(least(answer));
  }
  for (const double epsilon : questions.epsilons) {
    const PrivacyAnswer answer = accountant.delta(epsilon);
    all.deltas.push_back(answer.value);
    all.least_deltas.push_back(least(answer));
  }
  return all;
}

bool same(const Answers& a, const Answers& b) {
  return same_bits(a.epsilons, b.epsilons) && same_bits(a.deltas, b.deltas);
}

bool alike(const Answers& a, const Answers& b) {
  const auto near = [](double x, double y) { return close(x, y, kSlack, 1e-15); };
  return std::equal(a.epsilons.begin(), a.epsilons.end(), b.epsilons.begin(), near) &&
         std::equal(a.deltas.begin(), a.deltas.end(), b.deltas.begin(), near);
}

bool not_above(double x, double y) { return x <= y || close(x, y, kSlack, 1e-15); }

/// \returns where an answer in `less` exceeds the answer in `more`; "" if none does.
std::string disorder(const Answers& less, const Answers& more) {
  for (std::size_t i = 0; i < less.epsilons.size(); ++i) {
    if (not_above(less.least_epsilons[i], more.epsilons[i])) continue;
    return "epsilon(" + format_number(more.asked.deltas[i]) + ") is " +
           format_number(more.epsilons[i]) + " and at least " +
           format_number(less.least_epsilons[i]);
  }
  for (std::size_t i = 0; i < less.deltas.size(); ++i) {
    if (not_above(less.least_deltas[i], more.deltas[i])) continue;
    return "delta(" + format_number(more.asked.epsilons[i]) + ") is " +
           format_number(more.deltas[i]) + " and at least " + format_number(less.least_deltas[i]);
  }
  return "";
}

std::string first_difference(const Answers& a, const Answers& b) {
  for (std::size_t i = 0; i < a.epsilons.size(); ++i) {
    if (!close(a.epsilons[i], b.epsilons[i], kSlack)) {
      return "epsilon(" + format_number(a.asked.deltas[i]) + ") is " +
             format_number(a.epsilons[i]) + " and " + format_number(b.epsilons[i]);
    }
  }
  for (std::size_t i = 0; i < a.deltas.size(); ++i) {
    if (!close(a.deltas[i], b.deltas[i], kSlack)) {
      return "delta(" + format_number(a.asked.epsilons[i]) + ") is " + format_number(a.deltas[i]) +
             " and " + format_number(b.deltas[i]);
    }
  }
  return "they differ by rounding";
}

void require_well_formed(const PrivacyAnswer& answer, const std::string& what, double most) {
  require(!std::isnan(answer.value), what + " is NaN");
  require(answer.value >= 0.0, what + " is " + format_number(answer.value) + ", below 0");
  require(answer.value <= most,
          what + " is " + format_number(answer.value) + ", above " + format_number(most));
  require(answer.bound == BoundKind::exact || answer.bound == BoundKind::upper ||
              answer.bound == BoundKind::estimate,
          what + " does not say what kind of bound it is");
  if (answer.lower) {
    require(*answer.lower >= 0.0 && *answer.lower <= answer.value,
            what + " has the lower bound " + format_number(*answer.lower) + ", above its value " +
                format_number(answer.value) + " or below 0");
  }
}

void require_well_formed(const Accountant& accountant, const std::string& when) {
  for (const double delta : kDeltas) {
    require_well_formed(accountant.epsilon(delta), "epsilon(" + format_number(delta) + ") " + when,
                        kInfinity);
  }
  for (const double epsilon : kEpsilons) {
    require_well_formed(accountant.delta(epsilon), "delta(" + format_number(epsilon) + ") " + when,
                        1.0);
  }
}

// ---------------------------------------------------------------------------------------------
// True values, for releases whose closed form is in the literature.

/// Returns P(N(0, 1) > x).
double upper_tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

/// Returns delta(epsilon) of a Gaussian whose sensitivity is `mu` standard deviations (Balle and
/// Wang 2018, Theorem 8): Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
double gaussian_delta(double epsilon, double mu) {
  const double x = epsilon / mu - mu / 2.0;
  const double y = epsilon / mu + mu / 2.0;
  // e^epsilon overflows earlier than its product with the tail does. For large y, uses instead that
  // e^epsilon phi(y) is phi(x), and that the tail beyond y is phi(y) / y to a relative 1 / y^2.
  const double product =
      y > 30.0
          ? std::exp(-0.5 * x * x) / (std::sqrt(2.0 * std::numbers::pi) * y) * (1.0 - 1.0 / (y * y))
          : std::exp(epsilon) * upper_tail(y);
  return upper_tail(x) - product;
}

/// Returns delta(epsilon) of Laplace noise that is `pure`-differentially private: the integral of
/// (p - e^epsilon q)_+ over the real line, for Laplace densities p and q one sensitivity apart.
double laplace_delta(double epsilon, double pure) {
  return epsilon >= pure ? 0.0 : -std::expm1((epsilon - pure) / 2.0);
}

/// Releases whose true privacy is known.
struct KnownCase {
  std::string what;
  std::vector<Spending> spent;
  std::function<double(double epsilon)> delta;
  /// Whether `delta` is the cost of only one of the mechanisms that the event describes, so that
  /// the event may cost more.
  bool is_least = false;
};

/// Treats `count` Gaussians as one Gaussian whose sensitivity is larger by the root of `count`
/// (Dong, Roth, Su 2022).
KnownCase known_gaussians(double sensitivity, double sigma, std::uint64_t count,
                          bool one_by_one = false) {
  const double mu = sensitivity / sigma * std::sqrt(static_cast<double>(count));
  const Event event = Event::gaussian(sigma);
  return {
      std::to_string(count) + " x gaussian(" + format_number(sigma) + ")" +
          (one_by_one ? ", one by one" : ""),
      one_by_one ? std::vector<Spending>(count, {event, 1}) : std::vector<Spending>{{event, count}},
      [mu](double epsilon) { return gaussian_delta(epsilon, mu); }};
}

/// Returns delta for random allocation to one of two steps with noise multiplier 1. The likelihood
/// ratio is M = (Y + Z) / 2 with independent Y, Z of mean 1, whose logarithms are N(-1/2, 1). Given
/// Y, the means of (M - e^epsilon)_+ (one example less) and of (1 - e^epsilon M)_+ (one more) are
/// options on Z (Black and Scholes 1973). Integrates over Y by the trapezoidal rule.
double two_steps_delta(double epsilon) {
  const auto call = [](double strike) {  // E (Z - strike)_+
    if (strike <= 0.0) return 1.0 - strike;
    return upper_tail(std::log(strike) - 0.5) - strike * upper_tail(std::log(strike) + 0.5);
  };
  const double bound = std::exp(epsilon);
  double less = 0.0, more = 0.0;
  constexpr int kPoints = 4000;
  for (int k = -kPoints; k <= kPoints; ++k) {
    const double z = 10.0 * k / kPoints;
    const double weight =
        10.0 / kPoints * std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
    const double y = std::exp(z - 0.5);
    const double put = 2.0 / bound - y;  // (strike - Z)_+ = (Z - strike)_+ - (Z - strike)
    less += weight * 0.5 * call(2.0 * bound - y);
    if (put > 0.0) more += weight * 0.5 * bound * (call(put) - (1.0 - put));
  }
  return std::max(less, more);
}

/// Returns delta for the best of a geometric number K of runs, of mean 2. A run is a Gaussian with
/// sensitivity `mu` whose output is the score: E x^K has the derivative 2 / (2 - x)^2, by which the
/// density of one run is multiplied. The integral uses the midpoint rule.
double best_of_two_delta(double epsilon, double mu) {
  constexpr double kStep = 1e-3;
  constexpr double kReach = 9.0;
  const auto density = [](double y) {
    const double slope = 1.0 + upper_tail(y);  // 2 - F(y)
    return 2.0 / (slope * slope) * std::exp(-0.5 * y * y) / std::sqrt(2.0 * std::numbers::pi);
  };
  double forth = 0.0, back = 0.0;
  const int points = static_cast<int>((2.0 * kReach + mu) / kStep);
  for (int k = 0; k < points; ++k) {
    const double y = (k + 0.5) * kStep - kReach;
    const double p = density(y), q = density(y - mu);
    forth += kStep * std::max(0.0, p - std::exp(epsilon) * q);
    back += kStep * std::max(0.0, q - std::exp(epsilon) * p);
  }
  return std::max(forth, back);
}

std::vector<KnownCase> known_cases(Adjacency adjacency) {
  const double sensitivity = sensitivity_of_unit_bound(adjacency);
  std::vector<KnownCase> cases;
  for (const double sigma : {0.7, 2.0, 10.0}) {
    for (const std::uint64_t count : {1u, 16u})
      cases.push_back(known_gaussians(sensitivity, sigma, count));
  }
  if (adjacency == Adjacency::zero_out) {
    // Adds three cases: little noise; releases that are composed one by one; and much noise with a
    // count that does not fit in 8, 16 or 32 bits.
    cases.push_back(known_gaussians(sensitivity, 0.25, 1));
    cases.push_back(known_gaussians(sensitivity, 8.0, 40, true));
    cases.push_back(known_gaussians(sensitivity, 131072.0, (std::uint64_t{1} << 32) + 1));
  }
  cases.push_back({"laplace(2)", {{Event::laplace(2.0), 1}}, [sensitivity](double epsilon) {
                     return laplace_delta(epsilon, sensitivity / 2.0);
                   }});
  cases.push_back({.what = "repeat_and_select(2 geometric, gaussian(1))",
                   .spent = {{Event::repeat_and_select(2.0, 1.0, {Event::gaussian(1.0)}), 1}},
                   .delta =
                       [sensitivity](double epsilon) {
                         return best_of_two_delta(epsilon, sensitivity) * (1.0 - 1e-5);
                       },
                   .is_least = true});
  if (adjacency != Adjacency::replace_one) {
    // Uses Balle, Barthe and Gaboardi 2018, Theorem 8, which is tight for the Gaussian.
    const double q = 0.1;
    cases.push_back({"poisson_sampled(0.1, gaussian(1))",
                     {{Event::poisson_sampled(q, Event::gaussian(1.0)), 1}},
                     [q](double epsilon) {
                       return q * gaussian_delta(std::log1p(std::expm1(epsilon) / q), 1.0);
                     }});
    cases.push_back({"random_allocation(2, gaussian(1))",
                     {{Event::random_allocation(2, Event::gaussian(1.0)), 1}},
                     two_steps_delta});
  }
  return cases;
}

/// Compares a claimed delta with the true delta for the same epsilon.
void require_sound(const PrivacyAnswer& answer, double claimed, double truth,
                   const std::string& what) {
  if (answer.bound == BoundKind::estimate) return;
  // The tolerance covers digits that this suite loses when it subtracts two tails.
  require(claimed >= truth * (1.0 - 1e-9) - 1e-14,
          what + " proves delta = " + format_number(claimed) + ", but the true value is " +
              format_number(truth));
  if (answer.bound == BoundKind::exact) {
    require(close(claimed, truth, 1e-6, 1e-13),
            what + " says that delta = " + format_number(claimed) +
                " is exact, but the true value is " + format_number(truth));
  }
}

bool supported(const Accountant& accountant, const std::vector<Spending>& spent) {
  return std::ranges::none_of(spent, [&](const Spending& spending) {
    return accountant.refuses(spending.event).has_value();
  });
}

void check_known_values(Checker& checker) {
  checker.rule("never_below_the_true_value", [&] {
    bool any = false;
    for (const Adjacency adjacency : kAdjacencies) {
      for (const KnownCase& known : known_cases(adjacency)) {
        if (!supported(*started(checker, adjacency), known.spent)) continue;
        any = true;
        const auto accountant = after(checker, adjacency, known.spent);
        const std::string where = known.what + " under " + std::string(to_text(adjacency));
        for (const double epsilon : {0.0, 0.25, 1.0, 4.0}) {
          const PrivacyAnswer answer = accountant->delta(epsilon);
          const double truth = known.delta(epsilon);
          require_sound(answer, answer.value, truth,
                        "delta(" + format_number(epsilon) + ") of " + where);
          if (answer.lower && !known.is_least) {
            require(*answer.lower <= truth * (1.0 + 1e-9) + 1e-14,
                    "the lower bound of delta(" + format_number(epsilon) + ") of " + where +
                        " is above the true value");
          }
        }
        for (const double delta : {1e-6, 1e-3, 0.1}) {
          const PrivacyAnswer answer = accountant->epsilon(delta);
          // The claim is (value, delta), so the true delta at `value` must not exceed `delta`.
          const double truth = std::isinf(answer.value) ? 0.0 : known.delta(answer.value);
          // At an epsilon of exactly 0, the true delta may be smaller than the given delta.
          const bool slack = answer.bound == BoundKind::exact && answer.value == 0.0;
          require_sound({.value = delta,
                         .bound = slack ? BoundKind::upper : answer.bound,
                         .lower = {},
                         .note = {}},
                        delta, truth, "epsilon(" + format_number(delta) + ") of " + where);
          // At an epsilon below the true epsilon, the true delta is at least the given delta.
          if (!known.is_least && answer.lower.value_or(0.0) > 0.0 && !std::isinf(*answer.lower)) {
            require(known.delta(*answer.lower) >= delta * (1.0 - 1e-6) - 1e-14,
                    "the lower bound of epsilon(" + format_number(delta) + ") of " + where +
                        " is above the true value");
          }
        }
      }
    }
    if (!any) throw NotChecked{"it supports no event whose true value is known in closed form"};
  });
}

// ---------------------------------------------------------------------------------------------

void check_refusals(Checker& checker) {
  checker.rule("refuses_agrees_with_compose", [&] {
    for (const Adjacency adjacency : kAdjacencies) {
      std::vector<Event> events = sample_events();
      for (Event& event : unsupported_events()) events.push_back(std::move(event));
      for (const Event& event : events) {
        const auto accountant = started(checker, adjacency);
        const Answers before = answers(*accountant);
        const auto reason = accountant->refuses(event);
        require(same(before, answers(*accountant)),
                "refuses() changed what was spent, for " + in_words(event, adjacency));
        if (!reason) {
          accountant->compose(event, 1);
          continue;
        }
        require(!reason->empty(), "refuses() gives no reason for " + in_words(event, adjacency));
        require_throws(Thrown::privacy, "compose() of " + in_words(event, adjacency),
                       [&] { accountant->compose(event, 1); });
        require(same(before, answers(*accountant)),
                "compose() refused " + in_words(event, adjacency) + " but changed what was spent");
      }
    }
  });
  checker.rule("refuses_what_nothing_is_proved_about", [&] {
    for (const Adjacency adjacency : kAdjacencies) {
      for (const Event& event : unsupported_events()) {
        require(started(checker, adjacency)->refuses(event).has_value(),
                "an unsupported event inside " + in_words(event, adjacency) + " is not refused");
      }
    }
  });
  checker.rule("gives_no_finite_epsilon_without_noise", [&] {
    for (const Adjacency adjacency : kAdjacencies) {
      const auto accountant = started(checker, adjacency);
      if (accountant->refuses(Event::non_private())) continue;
      accountant->compose(Event::non_private(), 1);
      for (const double delta : kDeltas) {
        require(accountant->epsilon(delta).value == kInfinity,
                "epsilon(" + format_number(delta) + ") after non_private is " +
                    format_number(accountant->epsilon(delta).value) + ", not infinity");
      }
      for (const double epsilon : kEpsilons) {
        require(accountant->delta(epsilon).value >= 1.0 - 1e-12,
                "delta(" + format_number(epsilon) + ") after non_private is " +
                    format_number(accountant->delta(epsilon).value) + ", not 1");
      }
    }
  });
}

void check_ranges(Checker& checker) {
  checker.rule("refuses_impossible_questions", [&] {
    const auto accountant = started(checker, Adjacency::zero_out);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double delta : {0.0, 1.0, -0.1, 1.5, nan, kInfinity, -kInfinity}) {
      require_throws(Thrown::config, "epsilon(" + format_number(delta) + ")",
                     [&] { static_cast<void>(accountant->epsilon(delta)); });
    }
    for (const double epsilon : {-1e-9, -1.0, nan, -kInfinity}) {
      require_throws(Thrown::config, "delta(" + format_number(epsilon) + ")",
                     [&] { static_cast<void>(accountant->delta(epsilon)); });
    }
  });
}

/// An event, and an adjacency under which the accountant supports it.
struct Supported {
  Adjacency adjacency;
  Event event;
};

/// The answers of a new instance after `count` releases of an event at once. Many rules use these
/// answers, and some methods take long, so each answer is computed only once.
class FreshAnswers {
 public:
  explicit FreshAnswers(const Checker& checker) : checker_(checker) {}

  /// \param supported  one of the events that all rules use.
  const Answers& after(const Supported& supported, std::uint64_t count) {
    Answers& known = known_[{&supported, count}];
    if (known.epsilons.empty())
      known = answers(*testing::after(checker_, supported.adjacency, {{supported.event, count}}));
    return known;
  }

 private:
  const Checker& checker_;
  std::map<std::pair<const Supported*, std::uint64_t>, Answers> known_;
};

std::vector<Supported> supported_events(const Checker& checker) {
  std::vector<Supported> found;
  for (const Adjacency adjacency : kAdjacencies) {
    const auto accountant = started(checker, adjacency);
    for (const Event& event : sample_events()) {
      if (!accountant->refuses(event)) found.push_back({adjacency, event});
    }
  }
  return found;
}

void check_answers(Checker& checker, const std::vector<Supported>& events, FreshAnswers& fresh) {
  checker.rule("answers_are_well_formed", [&] {
    for (const Adjacency adjacency : kAdjacencies) {
      require_well_formed(*started(checker, adjacency), "before anything was spent");
    }
    for (const auto& [adjacency, event] : events) {
      for (const std::uint64_t count : {1u, 1000u}) {
        require_well_formed(*after(checker, adjacency, {{event, count}}),
                            "after " + std::to_string(count) + " x " + in_words(event, adjacency));
      }
    }
  });
  checker.rule("answers_fall_as_the_other_number_grows", [&] {
    for (const auto& pair : events) {
      const auto& [adjacency, event] = pair;
      const Answers& all = fresh.after(pair, 3);
      const std::string where = " for " + in_words(event, adjacency);
      const auto require_falling = [&](const auto& least, const auto& values, const char* what) {
        for (std::size_t i = 1; i < values.size(); ++i) {
          require(least[i] <= values[i - 1] * (1.0 + kSlack) + 1e-15, what + where);
        }
      };
      require_falling(all.least_epsilons, all.epsilons, "epsilon grows with delta");
      require_falling(all.least_deltas, all.deltas, "delta grows with epsilon");
    }
  });
  checker.rule("more_releases_cost_no_less", [&] {
    for (const Supported& one : events) {
      const auto& [adjacency, event] = one;
      Answers less = answers(*started(checker, adjacency));
      for (const std::uint64_t count : {1u, 2u, 10u, 1000u}) {
        const Answers& more = fresh.after(one, count);
        const std::string where = disorder(less, more);
        require(where.empty(), std::to_string(count) + " x " + in_words(event, adjacency) +
                                   " cost less than fewer releases: " + where);
        less = more;
      }
    }
  });
  checker.rule("epsilon_and_delta_agree", [&] {
    for (const auto& [adjacency, event] : events) {
      const auto accountant = after(checker, adjacency, {{event, 2}});
      for (const double delta : kDeltas) {
        const double epsilon = accountant->epsilon(delta).value;
        if (std::isinf(epsilon)) continue;
        const double back = least(accountant->delta(epsilon));
        require(back <= delta * (1.0 + kSlack) + 1e-15,
                "epsilon(" + format_number(delta) + ") is " + format_number(epsilon) +
                    ", but delta() of that is " + format_number(back) + " for " +
                    in_words(event, adjacency));
      }
    }
  });
  checker.rule("asking_changes_nothing", [&] {
    const auto& [adjacency, event] = events.front();
    const auto asked = after(checker, adjacency, {{event, 1}});
    static_cast<void>(asked->epsilon(1e-5));
    static_cast<void>(asked->delta(1.0));
    asked->compose(event, 2);
    const auto unasked = after(checker, adjacency, {{event, 1}, {event, 2}});
    require(close(asked->epsilon(1e-5).value, unasked->epsilon(1e-5).value, kSlack, 1e-15) &&
                close(asked->delta(1.0).value, unasked->delta(1.0).value, kSlack, 1e-15),
            "asked between " + in_words(event, adjacency) +
                " and two more, it gives other answers than an instance that was not asked");
  });
  checker.rule("answers_are_the_same_on_every_thread", [&] {
    for (const auto& [adjacency, event] : events) {
      const auto accountant = after(checker, adjacency, {{event, 4}});
      const Answers alone = answers(*accountant);
      for (const Answers& result : on_two_threads([&] { return answers(*accountant); })) {
        require(same(alone, result), "on two threads, the answers differ");
      }
    }
  });
}

void check_noise(Checker& checker) {
  checker.rule("more_noise_costs_no_more", [&] {
    bool any = false;
    for (const Adjacency adjacency : kAdjacencies) {
      const auto vary = [&](const std::function<Event(double)>& make) {
        if (started(checker, adjacency)->refuses(make(1.0))) return;
        any = true;
        Answers more = answers(*after(checker, adjacency, {{make(0.5), 2}}));
        for (const double noise : {1.0, 2.0, 8.0}) {
          const Answers less = answers(*after(checker, adjacency, {{make(noise), 2}}));
          const std::string where = disorder(less, more);
          require(where.empty(), "with noise " + format_number(noise) + ", " +
                                     in_words(make(noise), adjacency) +
                                     " costs more than with less noise: " + where);
          more = less;
        }
      };
      vary([](double noise) { return Event::gaussian(noise); });
      vary([](double noise) { return Event::laplace(noise); });
      vary([](double noise) { return Event::poisson_sampled(0.05, Event::gaussian(noise)); });
      vary([](double noise) { return Event::random_allocation(20, Event::gaussian(noise)); });
      vary([](double noise) {
        return Event::sampled_without_replacement(1000, 50, Event::gaussian(noise));
      });
    }
    if (!any) throw NotChecked{"it supports no event with noise to vary"};
  });
}

void check_composition(Checker& checker, const std::vector<Supported>& events,
                       FreshAnswers& fresh) {
  checker.rule("counting_is_repeating", [&] {
    for (const Supported& one : events) {
      const auto& [adjacency, event] = one;
      const Answers& at_once = fresh.after(one, 3);
      const Answers repeated =
          answers(*after(checker, adjacency, {{event, 1}, {event, 1}, {event, 1}}));
      require(alike(at_once, repeated),
              "3 x " + in_words(event, adjacency) +
                  " differs from one after the other: " + first_difference(at_once, repeated));
      const Event nested = Event::self_composed(3, event);
      if (started(checker, adjacency)->refuses(nested)) continue;
      const Answers inside = answers(*after(checker, adjacency, {{nested, 1}}));
      require(alike(at_once, inside),
              "3 x " + in_words(event, adjacency) +
                  " differs from self_composed(3, ...): " + first_difference(at_once, inside));
    }
  });
  checker.rule("order_does_not_matter", [&] {
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      const auto& [adjacency, first] = events[i];
      const auto& [other_adjacency, second] = events[i + 1];
      if (adjacency != other_adjacency) continue;
      const Answers one = answers(*after(checker, adjacency, {{first, 2}, {second, 1}}));
      const Answers two = answers(*after(checker, adjacency, {{second, 1}, {first, 2}}));
      require(alike(one, two), in_words(first, adjacency) + " and " + std::string(second.name()) +
                                   " in the other order differ: " + first_difference(one, two));
    }
  });
  checker.rule("nothing_costs_nothing", [&] {
    for (const Supported& one : events) {
      const auto& [adjacency, event] = one;
      const auto accountant = after(checker, adjacency, {{event, 2}});
      const Answers& before = fresh.after(one, 2);
      accountant->compose(event, 0);
      require(alike(before, answers(*accountant)),
              "composing " + in_words(event, adjacency) + " zero times changed what was spent");
      if (accountant->refuses(Event::nothing())) continue;
      accountant->compose(Event::nothing(), 5);
      require(alike(before, answers(*accountant)),
              "composing the empty composition changed what was spent after " +
                  in_words(event, adjacency));
    }
  });
}

void check_instances(Checker& checker, const std::vector<Supported>& events, FreshAnswers& fresh) {
  checker.rule("start_forgets", [&] {
    for (const Supported& one : events) {
      const auto& [adjacency, event] = one;
      const auto accountant = after(checker, Adjacency::replace_one, {});
      if (!accountant->refuses(event)) accountant->compose(event, 7);
      answers(*accountant);  // start() must forget stored answers, too
      accountant->start(adjacency);
      accountant->compose(event, 1);
      require(
          same(answers(*accountant), fresh.after(one, 1)),
          "after start(), it still remembers earlier charges, for " + in_words(event, adjacency));
    }
  });
  checker.rule("instances_are_independent", [&] {
    for (const auto& [adjacency, event] : events) {
      const auto one = after(checker, adjacency, {{event, 1}});
      const Answers before = answers(*one);
      const auto two = after(checker, adjacency, {{event, 50}});
      require(same(before, answers(*one)), "spending in another instance changed the answers");
    }
  });
}

}  // namespace

void check_accountant(Checker& checker) {
  check_refusals(checker);
  check_ranges(checker);
  std::vector<Supported> events;
  if (!checker.prepare("supports_an_event", [&] {
        events = supported_events(checker);
        const auto noised = [](const Supported& supported) {
          return supported.event != Event::nothing() && supported.event != Event::non_private();
        };
        require(std::ranges::any_of(events, noised),
                "it refuses gaussian, laplace, discrete_gaussian, zcdp, poisson_sampled and "
                "sampled_without_replacement under every adjacency");
      })) {
    return;
  }
  FreshAnswers fresh(checker);
  check_answers(checker, events, fresh);
  check_composition(checker, events, fresh);
  check_noise(checker);
  check_instances(checker, events, fresh);
  check_known_values(checker);
  check_abilities(checker, *checker.make<Accountant>());
  check_range_ends(checker, [&](const Params& params) {
    const auto accountant = checker.make<Accountant>(params);
    accountant->start(events.front().adjacency);
    accountant->compose(events.front().event, 3);
    require_well_formed(*accountant, "after 3 x " + std::string(events.front().event.name()));
  });
}

}  // namespace privgrad::testing
