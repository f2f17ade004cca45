#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "answer.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/joint_gaussian.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"
#include "ratio_law.hpp"
#include "ratio_pair.hpp"
#include "selection.hpp"

namespace {

using namespace privgrad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();

/// A release with a known loss distribution, and the numbers that determine it.
struct Mechanism {
  enum class Kind { gaussian, laplace, discrete_gaussian, allocation };
  Kind kind;
  double noise = 0.0;        // noise multiplier, scale or sigma, rounded down
  double most_noise = 0.0;   // the same, rounded up
  double parameter = 0.0;    // the sensitivity of a discrete Gaussian, or steps of an epoch
  double probability = 1.0;  // probability that an example is sampled

  friend bool operator<(const Mechanism& a, const Mechanism& b) {
    return std::tie(a.kind, a.probability, a.noise, a.most_noise, a.parameter) <
           std::tie(b.kind, b.probability, b.noise, b.most_noise, b.parameter);
  }
};

/// Returns the only release in this event; nothing if the event does not consist of one release.
std::optional<Event> single_release(const Event& event) {
  const auto parts = flatten(event);
  if (parts.size() != 1 || parts.front().count != 1) return {};
  return parts.front().event;
}

/// Privacy loss distributions (Koskela, Jaelkoe and Honkela 2020; Gopi, Lee and Wutschitz 2021;
/// Doroshenko et al. 2022), composed by Fourier transforms, with both bounds certified.
///
/// The dominating pairs, s the sensitivity of a sum of contributions of norm at most 1 (1, or 2
/// under replace_one):
/// - gaussian: N(s, sigma^2) and N(0, sigma^2). Any number of them is one Gaussian with mu^2 = sum
///   (s / sigma)^2 (Dong, Roth and Su 2022, Corollary 3.3), so a composition of only Gaussians has
///   a closed-form answer;
/// - laplace: Lap(s, b) and Lap(0, b); discrete_gaussian: its own sensitivity, in grid units;
/// - poisson_sampled of one of these, add_or_remove_one: if the release has the pair (P, Q), the
///   mixture (1-q) Q + q P against Q, and the reverse (Zhu, Dong and Wang 2022, Theorem 11); both
///   directions are composed, and the larger answer counts. zero_out: the same two pairs, because
///   an example's contribution is in the sum with probability q, and zeroing removes it;
/// - poisson_sampled of a gaussian, replace_one: (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1),
///   sigma still relative to the norm of one contribution;
/// - several Gaussians sampled together are one (joint_gaussian.hpp). Its noise is rounded down for
///   the upper bound and up for the lower one: the release with less noise dominates, because noise
///   can be added to it;
/// - random_allocation of a gaussian, add_or_remove_one: the pair of ratio_law.hpp, in both
///   directions, bracketed by a law above and one below. zero_out: the same, because an example
///   without a contribution leaves the same sums as an example without a step. replace_one:
///   refused, because no tight pair is known;
/// - repeat_and_select of events with a pair: the profile of one run, by this method, gives an
///   upper bound on the profile of the selection in both directions (selection.hpp), and a pair for
///   its composition with other releases. Lower bounds: the score may be the same for all runs, so
///   that the best run is like any other; and the releases cost at least as much as any part of
///   them.
class Pld final : public Accountant {
 public:
  explicit Pld(const Params& params)
      : relative_width_(params.real("relative_width")),
        most_points_(static_cast<double>(params.integer("most_points"))) {}
  Pld(double relative_width, double most_points)
      : relative_width_(relative_width), most_points_(most_points) {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_.clear();
    selected_.clear();
    unbounded_ = false;
    laws_.clear();
    forget_answers();
  }

  std::optional<std::string> refuses(const Event& event) const override {
    return first_refusal(
        event,
        Overloaded{Accepts<GaussianEvent, LaplaceEvent, NonPrivateEvent>{},
                   [this](const PoissonSampledEvent& e) -> Reason {
                     if (e.sampling_probability == 1.0) return refuses(*e.of);
                     if (const auto joint = joint_gaussian(*e.of); joint && joint->low > 0.0)
                       return {};
                     return refuses_sampled(*e.of);
                   },
                   [](const SampledWithoutReplacementEvent&) -> Reason {
                     return "sampled_without_replacement: no pair of distributions is proven to "
                            "dominate it at every epsilon and under composition; use poisson "
                            "sampling";
                   },
                   [](const ZcdpEvent&) -> Reason {
                     return "zcdp: rho bounds the Renyi divergences, which do not determine the "
                            "privacy loss distribution; compose the mechanism itself";
                   },
                   [](const DiscreteGaussianEvent& e) -> Reason {
                     if (e.sigma <= kLargestDiscreteSigma) return {};
                     return "discrete_gaussian: sigma is " + format_number(e.sigma) +
                            ", pld sums over the integers only up to 100000";
                   },
                   [this](const RandomAllocationEvent& epoch) { return refuses_allocation(epoch); },
                   [this](const RepeatAndSelectEvent& selection) -> Reason {
                     for (const Event& candidate : selection.candidates) {
                       if (const Reason why = refuses(candidate))
                         return "repeat_and_select of " + *why;
                     }
                     return {};
                   }});
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
    if (count == 0) return;
    const std::vector<CountedEvent> parts = releases_of(event);
    for (const auto& part : parts) {
      if (part.count > kMostSteps / count) throw too_many();
    }
    forget_answers();
    for (const auto& part : parts) add(part.event, part.count * count);
  }

  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw ConfigError("pld: delta is " + format_number(delta) + ", allowed is (0, 1)");
    }
    return answer({.wants_epsilon = true, .given = delta});
  }

  PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw ConfigError("pld: epsilon is " + format_number(epsilon) + ", allowed is [0, inf)");
    }
    return answer({.wants_epsilon = false, .given = epsilon});
  }

 private:
  static constexpr double kLargestDiscreteSigma = 1e5;
  static constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 53;
  static constexpr std::int64_t kMostEpochSteps = std::int64_t{1} << 32;
  static constexpr std::size_t kAllocationNodes = 1300;
  static constexpr double kAllocatedWidth = 5e-5;

  /// Returns flatten() of the event, with events that are "sampled" with probability 1 unwrapped.
  static std::vector<CountedEvent> releases_of(const Event& event) {
    std::vector<CountedEvent> releases;
    for (const auto& part : flatten(event)) {
      const auto* sampled = std::get_if<PoissonSampledEvent>(&part.event.kind());
      if (sampled == nullptr || sampled->sampling_probability != 1.0) {
        releases.push_back(part);
        continue;
      }
      for (auto& inner : releases_of(*sampled->of)) {
        if (inner.count > kMostSteps / part.count) throw too_many();
        inner.count *= part.count;
        releases.push_back(std::move(inner));
      }
    }
    return releases;
  }

  /// A release of the best of a random number of runs, and how often such a release was made.
  struct Selected {
    RepeatAndSelectEvent event;
    std::uint64_t count;
    std::vector<std::unique_ptr<Pld>> candidates;
    std::optional<pld::Selection> bound = {};  ///< Computed on first use.
    pld::LossPairPtr pair = {};                ///< Computed on first use.
  };

  static ConfigError too_many() { return ConfigError("pld: more than 2^53 releases of one kind"); }

  using Reason = std::optional<std::string>;

  Reason refuses_allocation(const RandomAllocationEvent& epoch) const {
    const auto* gaussian = std::get_if<GaussianEvent>(&epoch.of->kind());
    if (gaussian == nullptr) {
      return "random_allocation of " + std::string(epoch.of->name()) +
             ": pld has a proven pair of distributions only for one gaussian a step";
    }
    if (adjacency_ == Adjacency::replace_one) {
      return "random_allocation: no pair of distributions is known that is tight under "
             "replace_one, where two contributions may be in two different steps; use zero_out or "
             "add_or_remove_one";
    }
    if (epoch.steps > kMostEpochSteps) {
      return "random_allocation: " + std::to_string(epoch.steps) + " steps, allowed are at most " +
             std::to_string(kMostEpochSteps);
    }
    if (gaussian->noise_multiplier < pld::kSmallestAllocatedNoise) {
      return "random_allocation: the noise multiplier is " +
             format_number(gaussian->noise_multiplier) + ", allowed is at least " +
             format_number(pld::kSmallestAllocatedNoise);
    }
    return {};
  }

  /// \param of  what is sampled, not a Gaussian.
  Reason refuses_sampled(const Event& of) const {
    const std::optional<Event> release = single_release(of);
    const bool is_laplace = release && std::holds_alternative<LaplaceEvent>(release->kind());
    if (!is_laplace &&
        !(release && std::holds_alternative<DiscreteGaussianEvent>(release->kind()))) {
      return "poisson_sampled of " + std::string(of.name()) +
             ": pld has a proven pair of distributions only for gaussians on one batch, or one "
             "laplace or discrete_gaussian";
    }
    if (adjacency_ == Adjacency::replace_one) {
      return "poisson_sampled of " + std::string(release->name()) +
             ": no pair of distributions is proven for it under replace_one; use zero_out or "
             "add_or_remove_one";
    }
    return refuses(*release);
  }

  /// \param probability  the probability that an example is in the batch.
  void add(const Event& event, std::uint64_t count, double probability = 1.0) {
    if (probability == 0.0) return;
    std::visit(
        Overloaded{
            [&](const GaussianEvent& e) {
              add({Mechanism::Kind::gaussian, e.noise_multiplier, e.noise_multiplier}, count);
            },
            [&](const LaplaceEvent& e) {
              add({Mechanism::Kind::laplace, e.noise_multiplier, e.noise_multiplier, 0.0,
                   probability},
                  count);
            },
            [&](const DiscreteGaussianEvent& e) {
              if (e.sensitivity == 0) return;
              add({Mechanism::Kind::discrete_gaussian, e.sigma, e.sigma,
                   static_cast<double>(e.sensitivity), probability},
                  count);
            },
            [&](const PoissonSampledEvent& e) { add_sampled(e, count); },
            [&](const RepeatAndSelectEvent& e) { add_selection(e, count); },
            [&](const RandomAllocationEvent& e) {
              const double noise = std::get<GaussianEvent>(e.of->kind()).noise_multiplier;
              add({Mechanism::Kind::allocation, noise, noise, static_cast<double>(e.steps)}, count);
            },
            [&](const auto&) { unbounded_ = true; },  // non_private
        },
        event.kind());
  }

  void add_sampled(const PoissonSampledEvent& event, std::uint64_t count) {
    const double q = event.sampling_probability;
    const auto joint = joint_gaussian(*event.of);
    if (!joint) return add(*single_release(*event.of), count, q);
    if (q == 0.0 || std::isinf(joint->low)) return;
    add({Mechanism::Kind::gaussian, joint->low, joint->high, 0.0, q}, count);
  }

  void add(const Mechanism& mechanism, std::uint64_t count) { spent_[mechanism] += count; }

  void add_selection(const RepeatAndSelectEvent& event, std::uint64_t count) {
    for (Selected& known : selected_) {
      if (Event(known.event) != Event(event)) continue;
      known.count += count;
      return;
    }
    Selected one{.event = event, .count = count, .candidates = {}};
    bool costs = false;
    for (const Event& candidate : event.candidates) {
      auto run = std::make_unique<Pld>(relative_width_, most_points_);
      run->start(adjacency_);
      run->compose(candidate, 1);
      unbounded_ = unbounded_ || run->unbounded_;
      costs = costs || !run->is_nothing();
      one.candidates.push_back(std::move(run));
    }
    if (costs) selected_.push_back(std::move(one));
  }

  bool is_nothing() const { return spent_.empty() && selected_.empty() && !unbounded_; }

  void forget_answers() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }

  PrivacyAnswer answer(const pld::Question& question) const {
    const double worst = question.wants_epsilon ? kInfinity : 1.0;
    if (unbounded_) return to_answer({worst, worst, "a release without noise"});
    if (is_nothing()) return to_answer({0.0, 0.0, "nothing was released"});
    const std::lock_guard lock(mutex_);
    const std::pair<bool, double> key(question.wants_epsilon, question.given);
    auto found = answers_.find(key);
    if (found == answers_.end()) {
      pld::Interval interval = selected_.empty() ? composed(question) : with_selections(question);
      if (!(interval.lower <= interval.upper)) {
        throw NumericError("pld: the bounds contradict each other: " +
                           format_number(interval.lower) + " and " + format_number(interval.upper));
      }
      found = answers_.emplace(key, to_answer(std::move(interval))).first;
    }
    return found->second;
  }

  pld::Interval composed(const pld::Question& question) const {
    pld::Interval interval = pld::answer(directions(true), question, width(), most_points_);
    if (has_laws()) interval.note = "the interval of epochs is as wide as their laws' nodes lie";
    return interval;
  }

  static pld::Selection& bound_of(Selected& selection) {
    if (!selection.bound) {
      std::vector<const Pld*> runs;
      for (const auto& run : selection.candidates) runs.push_back(run.get());
      const auto largest = [runs](auto answer_of) {
        double most = 0.0;
        for (const Pld* run : runs) most = std::max(most, answer_of(*run).value);
        return most;
      };
      selection.bound.emplace(
          selection.event.mean, selection.event.shape,
          pld::RunProfile{.delta =
                              [largest](double epsilon) {
                                return largest([&](const Pld& run) { return run.delta(epsilon); });
                              },
                          .epsilon =
                              [largest](double delta) {
                                return largest([&](const Pld& run) { return run.epsilon(delta); });
                              }});
    }
    return *selection.bound;
  }

  /// Returns a lower bound on the cost of the best run: if all runs have the same score, the best
  /// run is like any other. With probability `share` there is a best run, and it belongs to a given
  /// candidate, which the output may reveal.
  static double least_of(const Selected& selection, const pld::Question& question) {
    const double share = (selection.event.is_poisson() ? -std::expm1(-selection.event.mean) : 1.0) /
                         static_cast<double>(selection.candidates.size()) * (1.0 - 1e-12);
    double most = 0.0;
    for (const auto& run : selection.candidates) {
      if (!question.wants_epsilon) {
        most = std::max(most, share * run->delta(question.given).lower.value_or(0.0));
      } else if (question.given < share) {
        most = std::max(most, run->epsilon(question.given / share).lower.value_or(0.0));
      }
    }
    return most;
  }

  pld::Interval with_selections(const pld::Question& question) const {
    pld::Interval interval;
    for (const Selected& one : selected_)
      interval.lower = std::max(interval.lower, least_of(one, question));
    if (spent_.empty() && selected_.size() == 1 && selected_.front().count == 1) {
      const pld::Selection& bound = bound_of(selected_.front());
      interval.upper =
          question.wants_epsilon ? bound.epsilon(question.given) : bound.delta(question.given);
      interval.note = "the best of the runs: by the privacy profile of one";
      return interval;
    }
    std::vector<std::vector<pld::Step>> all = {{}};
    if (!spent_.empty()) {
      interval.lower = std::max(interval.lower, composed(question).lower);
      all = directions(false);
    }
    for (Selected& one : selected_) {
      if (std::isinf(bound_of(one).epsilon(question.wants_epsilon ? question.given : 0.5)))
        return {interval.lower, question.wants_epsilon ? kInfinity : 1.0,
                "no bound on a selection"};
      if (!one.pair) one.pair = pld::pair_of_ratio(bound_of(one).law());
      for (auto& direction : all) direction.push_back({one.pair, one.pair, one.count});
    }
    // The pairs of selections are only upper bounds, so the lower bound stays as it is.
    interval.upper =
        pld::answer(all, question, std::max(relative_width_, kAllocatedWidth), most_points_).upper;
    interval.note = "the best of the runs: by the privacy profile of one, a polygon above it";
    return interval;
  }

  static PrivacyAnswer to_answer(pld::Interval interval) {
    return {.value = interval.upper,
            .bound = BoundKind::upper,
            .lower = interval.lower,
            .note = std::move(interval.note)};
  }

  /// Returns the lists of steps to compose: one list if all pairs are symmetric, otherwise one list
  /// for removing and one for adding.
  /// \param alone  whether these steps are the whole composition.
  std::vector<std::vector<pld::Step>> directions(bool alone) const {
    std::vector<pld::Step> removing, adding;
    bool symmetric = true;
    long double square = 0.0L;  // sum of the squared mu of all Gaussians
    std::uint64_t terms = 0;
    const double sensitivity = sensitivity_of_unit_bound(adjacency_);
    for (const auto& [mechanism, count] : spent_) {
      if (mechanism.kind == Mechanism::Kind::gaussian && mechanism.probability == 1.0) {
        const long double mu = static_cast<long double>(sensitivity) / mechanism.noise;
        square += static_cast<long double>(count) * mu * mu;
        ++terms;
        continue;
      }
      if (mechanism.kind == Mechanism::Kind::allocation) {
        const pld::RatioBracket& law = law_of(mechanism);
        removing.push_back({pld::pair_of_ratio(law.upper), pld::pair_of_ratio(law.lower), count});
        adding.push_back({pld::reversed_pair_of_ratio(law.upper),
                          pld::reversed_pair_of_ratio(law.lower), count});
        symmetric = false;
        continue;
      }
      const pld::LossPairPtr above = pair_of(mechanism, mechanism.noise, sensitivity);
      const pld::LossPairPtr below = mechanism.noise == mechanism.most_noise
                                         ? above
                                         : pair_of(mechanism, mechanism.most_noise, sensitivity);
      removing.push_back({above, below, count});
      adding.push_back({above, below, count});
      if (above->symmetric()) continue;
      symmetric = false;
      adding.back().above = pld::reversed(above);
      adding.back().below = above == below ? adding.back().above : pld::reversed(below);
    }
    if (terms > 0) {
      removing.push_back(gaussians(square, terms, alone && removing.empty()));
      adding.push_back(removing.back());
    }
    if (symmetric) return {std::move(removing)};
    return {std::move(removing), std::move(adding)};
  }

  bool has_laws() const {
    return std::ranges::any_of(
        spent_, [](const auto& one) { return one.first.kind == Mechanism::Kind::allocation; });
  }

  /// Returns the relative width to ask for; laws have too few nodes for a width below
  /// kAllocatedWidth.
  double width() const {
    return has_laws() ? std::max(relative_width_, kAllocatedWidth) : relative_width_;
  }

  /// The law of a mechanism, stored because it is requested again with every further release.
  const pld::RatioBracket& law_of(const Mechanism& epoch) const {
    constexpr std::size_t kMostLaws = 256;
    const auto found = laws_.find(epoch);
    if (found != laws_.end()) return found->second;
    if (laws_.size() >= kMostLaws) laws_.clear();
    const auto steps = static_cast<std::uint64_t>(epoch.parameter);
    return laws_.emplace(epoch, pld::allocation_ratio(steps, epoch.noise, kAllocationNodes))
        .first->second;
  }

  pld::LossPairPtr pair_of(const Mechanism& m, double noise, double sensitivity) const {
    const double q = m.probability;
    if (m.kind == Mechanism::Kind::gaussian && adjacency_ == Adjacency::replace_one)
      return pld::sampled_gaussian_replaced(q, noise);
    const pld::LossPairPtr pair =
        m.kind == Mechanism::Kind::laplace             ? pld::laplace(noise / sensitivity)
        : m.kind == Mechanism::Kind::discrete_gaussian ? pld::discrete_gaussian(noise, m.parameter)
                                                       : pld::gaussian(noise);
    return q < 1.0 ? pld::sampled(q, pair) : pair;
  }

  /// Returns all Gaussians as one step, or as several equal steps that fit a grid. The sum is
  /// rounded up for the upper bound and down for the lower bound.
  static pld::Step gaussians(long double square, std::uint64_t terms, bool alone) {
    const auto mu = static_cast<double>(std::sqrt(square));
    if (!std::isfinite(mu) || mu == 0.0) {
      throw NumericError("pld: the Gaussian noise is beyond what a double can hold");
    }
    constexpr double kLargestMu = 4.0;
    const double parts = alone ? 1.0 : std::ceil(std::pow(std::max(1.0, mu / kLargestMu), 2.0));
    const double error = kUlp * (8.0 + static_cast<double>(terms) / 1024.0);
    const double one = mu / std::sqrt(parts);
    return {pld::gaussian(1.0 / (one * (1.0 + error))), pld::gaussian(1.0 / (one * (1.0 - error))),
            static_cast<std::uint64_t>(parts)};
  }

  double relative_width_, most_points_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  std::map<Mechanism, std::uint64_t> spent_;
  mutable std::vector<Selected> selected_;
  bool unbounded_ = false;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<bool, double>, PrivacyAnswer> answers_;
  mutable std::map<Mechanism, pld::RatioBracket> laws_;
};

void register_components(Registrar& registrar) {
  registrar.add<Accountant, Pld>({
      .name = "pld",
      .summary = "Privacy loss distributions on a grid: a certified interval, as narrow as asked.",
      .reference = "Doroshenko et al. 2022 (connect the dots); Zhu, Dong and Wang 2022 (dominating "
                   "pairs); Gopi, Lee and Wutschitz 2021 (composition by Fourier transforms); "
                   "Chua et al. 2025 (random allocation); Koskela, Redberg and Wang 2024 (the best "
                   "of a random number of runs)",
      .params =
          {param::real(
               "relative_width",
               "Largest width of the interval between the lower and the upper bound, relative to "
               "epsilon; ten times as much relative to delta, where delta is computed. The grid is "
               "refined until the interval is as narrow, and twenty times narrower for up to four "
               "distinct steps of which few frequencies matter.")
               .at_least(1e-6)
               .at_most(0.5)
               .defaults_to(0.00001),
           param::integer("most_points",
                          "How many points the grid may have where all of it is transformed; if "
                          "that is not enough, the interval is wider and says so.")
               .at_least(4096)
               .at_most(4194304)
               .defaults_to(1048576)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.pld", "0.1.0", "accountant/pld", register_components)
