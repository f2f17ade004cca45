#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "answer.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/joint_gaussian.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"

namespace {

using privgrad::Adjacency;
using privgrad::Event;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();

using privgrad::Overloaded;

/// A release whose loss distribution is known, with the numbers that decide it.
struct Mechanism {
  enum class Kind { gaussian, sampled_gaussian, laplace, discrete_gaussian };
  Kind kind;
  double noise = 0.0;       // noise multiplier, scale or sigma, rounded down
  double most_noise = 0.0;  // the same, rounded up
  double parameter = 0.0;   // sampling probability or sensitivity

  friend bool operator<(const Mechanism& a, const Mechanism& b) {
    return std::tie(a.kind, a.noise, a.most_noise, a.parameter) <
           std::tie(b.kind, b.noise, b.most_noise, b.parameter);
  }
};

/// Privacy loss distributions (Koskela, Jaelkoe and Honkela 2020; Gopi, Lee and Wutschitz 2021;
/// Doroshenko et al. 2022), composed by Fourier transforms, with both bounds certified.
///
/// The dominating pairs, s the sensitivity of a sum of contributions of norm at most 1 (1, or 2
/// under replace_one):
/// - gaussian: N(s, sigma^2) and N(0, sigma^2). Any number of them is one Gaussian with
///   mu^2 = sum (s / sigma)^2 (Dong, Roth and Su 2022, Corollary 3.3), so that a composition of
///   Gaussians alone has its answer in closed form;
/// - laplace: Lap(s, b) and Lap(0, b); discrete_gaussian: its own sensitivity, in grid units;
/// - poisson_sampled of a gaussian, add_or_remove_one: the mixture (1-q) N(0) + q N(1) against
///   N(0), and the two exchanged (Zhu, Dong and Wang 2022, Theorem 11); both directions are
///   composed, the larger answer counts. zero_out: the same two, because an example's contribution
///   is in the sum with probability q and then is replaced by nothing;
/// - poisson_sampled of a gaussian, replace_one: (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1),
///   sigma still relative to the norm of one contribution;
/// - several Gaussians sampled together are one (joint_gaussian.hpp). Its noise is rounded down for
///   the upper bound and up for the lower one: less noise dominates more, which is less with noise
///   added.
class Pld final : public privgrad::Accountant {
 public:
  explicit Pld(const privgrad::Params& params)
      : relative_width_(params.real("relative_width")),
        most_points_(static_cast<double>(params.integer("most_points"))) {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_.clear();
    unbounded_ = false;
    forget_answers();
  }

  std::optional<std::string> refuses(const Event& event) const override {
    return privgrad::first_refusal(event, refuses_release);
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw privgrad::PrivacyError(*reason);
    if (count == 0) return;
    const std::vector<privgrad::CountedEvent> parts = releases_of(event);
    for (const auto& part : parts) {
      if (part.count > kMostSteps / count) throw too_many();
    }
    forget_answers();
    for (const auto& part : parts) add(part.event, part.count * count);
  }

  privgrad::PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw privgrad::ConfigError("pld: delta is " + privgrad::format_number(delta) +
                                  ", allowed is (0, 1)");
    }
    return answer({.wants_epsilon = true, .given = delta});
  }

  privgrad::PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw privgrad::ConfigError("pld: epsilon is " + privgrad::format_number(epsilon) +
                                  ", allowed is [0, inf)");
    }
    return answer({.wants_epsilon = false, .given = epsilon});
  }

 private:
  static constexpr double kLargestDiscreteSigma = 1e5;
  static constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 53;

  /// flatten(), with what is "sampled" with probability 1 as if it was not.
  static std::vector<privgrad::CountedEvent> releases_of(const Event& event) {
    std::vector<privgrad::CountedEvent> releases;
    for (const auto& part : privgrad::flatten(event)) {
      const auto* sampled = std::get_if<privgrad::PoissonSampledEvent>(&part.event.kind());
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

  static privgrad::ConfigError too_many() {
    return privgrad::ConfigError("pld: more than 2^53 releases of one kind");
  }

  static std::optional<std::string> refuses_release(const Event& event) {
    using Reason = std::optional<std::string>;
    return std::visit(
        Overloaded{
            [](const privgrad::PoissonSampledEvent& e) -> Reason {
              if (e.sampling_probability == 1.0) {
                return privgrad::first_refusal(*e.of, refuses_release);
              }
              if (const auto joint = privgrad::joint_gaussian(*e.of); joint && joint->low > 0.0) {
                return {};
              }
              return "poisson_sampled of " + std::string(e.of->name()) +
                     ": pld has a proven pair of distributions only for sampled gaussians";
            },
            [](const privgrad::SampledWithoutReplacementEvent&) -> Reason {
              return "sampled_without_replacement: no pair of distributions is proven to dominate "
                     "it at every epsilon and under composition; use poisson sampling";
            },
            [](const privgrad::ZcdpEvent&) -> Reason {
              return "zcdp: rho bounds the Renyi divergences, which do not determine the privacy "
                     "loss distribution; compose the mechanism itself";
            },
            [](const privgrad::DiscreteGaussianEvent& e) -> Reason {
              if (e.sigma <= kLargestDiscreteSigma) return {};
              return "discrete_gaussian: sigma is " + privgrad::format_number(e.sigma) +
                     ", pld sums over the integers only up to 100000";
            },
            [](const auto&) -> Reason { return {}; },
        },
        event.kind());
  }

  void add(const Event& event, std::uint64_t count) {
    std::visit(
        Overloaded{
            [&](const privgrad::GaussianEvent& e) {
              add({Mechanism::Kind::gaussian, e.noise_multiplier, e.noise_multiplier}, count);
            },
            [&](const privgrad::LaplaceEvent& e) {
              add({Mechanism::Kind::laplace, e.noise_multiplier, e.noise_multiplier}, count);
            },
            [&](const privgrad::DiscreteGaussianEvent& e) {
              if (e.sensitivity == 0) return;
              add({Mechanism::Kind::discrete_gaussian, e.sigma, e.sigma,
                   static_cast<double>(e.sensitivity)},
                  count);
            },
            [&](const privgrad::PoissonSampledEvent& e) {
              const privgrad::JointGaussian joint = *privgrad::joint_gaussian(*e.of);
              const double q = e.sampling_probability;
              if (q == 0.0 || std::isinf(joint.low)) return;
              add({Mechanism::Kind::sampled_gaussian, joint.low, joint.high, q}, count);
            },
            [&](const auto&) { unbounded_ = true; },  // non_private
        },
        event.kind());
  }

  void add(const Mechanism& mechanism, std::uint64_t count) { spent_[mechanism] += count; }

  void forget_answers() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }

  privgrad::PrivacyAnswer answer(const pld::Question& question) const {
    const double worst = question.wants_epsilon ? kInfinity : 1.0;
    if (unbounded_) return to_answer({worst, worst, "a release without noise"});
    if (spent_.empty()) return to_answer({0.0, 0.0, "nothing was released"});
    const std::lock_guard lock(mutex_);
    const std::pair<bool, double> key(question.wants_epsilon, question.given);
    auto found = answers_.find(key);
    if (found == answers_.end()) {
      pld::Interval interval = pld::answer(directions(), question, relative_width_, most_points_);
      if (!(interval.lower <= interval.upper)) {
        throw privgrad::NumericError(
            "pld: the bounds contradict each other: " + privgrad::format_number(interval.lower) +
            " and " + privgrad::format_number(interval.upper));
      }
      found = answers_.emplace(key, to_answer(std::move(interval))).first;
    }
    return found->second;
  }

  static privgrad::PrivacyAnswer to_answer(pld::Interval interval) {
    return {.value = interval.upper,
            .bound = privgrad::BoundKind::upper,
            .lower = interval.lower,
            .note = std::move(interval.note)};
  }

  /// The lists of steps to compose: one if all pairs are symmetric, else removing and adding.
  std::vector<std::vector<pld::Step>> directions() const {
    std::vector<pld::Step> steps;
    bool symmetric = true;
    long double square = 0.0L;  // of the mu of all Gaussians together
    std::uint64_t terms = 0;
    const double sensitivity = privgrad::sensitivity_of_unit_bound(adjacency_);
    for (const auto& [mechanism, count] : spent_) {
      if (mechanism.kind == Mechanism::Kind::gaussian) {
        const long double mu = static_cast<long double>(sensitivity) / mechanism.noise;
        square += static_cast<long double>(count) * mu * mu;
        ++terms;
        continue;
      }
      const pld::LossPairPtr above = pair_of(mechanism, mechanism.noise, sensitivity);
      const pld::LossPairPtr below = mechanism.noise == mechanism.most_noise
                                         ? above
                                         : pair_of(mechanism, mechanism.most_noise, sensitivity);
      symmetric = symmetric && above->symmetric();
      steps.push_back({above, below, count});
    }
    if (terms > 0) steps.push_back(gaussians(square, terms, steps.empty()));
    std::vector<std::vector<pld::Step>> result{steps};
    if (!symmetric) {
      for (pld::Step& step : steps) {
        if (step.above->symmetric()) continue;
        const bool same = step.above == step.below;
        step.above = pld::reversed(step.above);
        step.below = same ? step.above : pld::reversed(step.below);
      }
      result.push_back(std::move(steps));
    }
    return result;
  }

  pld::LossPairPtr pair_of(const Mechanism& m, double noise, double sensitivity) const {
    switch (m.kind) {
      case Mechanism::Kind::laplace:
        return pld::laplace(noise / sensitivity);
      case Mechanism::Kind::discrete_gaussian:
        return pld::discrete_gaussian(noise, m.parameter);
      default:
        return adjacency_ == Adjacency::replace_one
                   ? pld::sampled_gaussian_replaced(m.parameter, noise)
                   : pld::sampled_gaussian(m.parameter, noise);
    }
  }

  /// All Gaussians as one step, or as equal ones of a size that a grid can hold. The roundings of
  /// the sum are taken upwards for one bound and downwards for the other.
  static pld::Step gaussians(long double square, std::uint64_t terms, bool alone) {
    const auto mu = static_cast<double>(std::sqrt(square));
    if (!std::isfinite(mu) || mu == 0.0) {
      throw privgrad::NumericError("pld: the Gaussian noise is beyond what a double can hold");
    }
    constexpr double kLargestMu = 4.0;
    const double parts = alone ? 1.0 : std::ceil(std::pow(std::max(1.0, mu / kLargestMu), 2.0));
    const double error = kUlp * (8.0 + static_cast<double>(terms) / 1024.0);
    const double one = mu / std::sqrt(parts);
    return {pld::sampled_gaussian(1.0, 1.0 / (one * (1.0 + error))),
            pld::sampled_gaussian(1.0, 1.0 / (one * (1.0 - error))),
            static_cast<std::uint64_t>(parts)};
  }

  double relative_width_, most_points_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  std::map<Mechanism, std::uint64_t> spent_;
  bool unbounded_ = false;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<bool, double>, privgrad::PrivacyAnswer> answers_;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Accountant, Pld>({
      .name = "pld",
      .summary = "Privacy loss distributions on a grid: a certified interval, as narrow as asked.",
      .reference = "Doroshenko et al. 2022 (connect the dots); Zhu, Dong and Wang 2022 (dominating "
                   "pairs); Gopi, Lee and Wutschitz 2021 (composition by Fourier transforms)",
      .params = {privgrad::param::real(
                     "relative_width",
                     "How wide the interval between the lower and the upper bound may "
                     "be, relative to epsilon; ten times that relative to delta where "
                     "delta is asked for. The grid is refined until it is.")
                     .at_least(1e-6)
                     .at_most(0.5)
                     .defaults_to(0.00001),
                 privgrad::param::integer(
                     "most_points",
                     "How many points the grid may have; if that is not enough, the "
                     "interval is wider and says so.")
                     .at_least(4096)
                     .at_most(4194304)
                     .defaults_to(1048576)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.pld", "0.1.0", register_components)
