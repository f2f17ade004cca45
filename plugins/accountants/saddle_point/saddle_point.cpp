#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "contour.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/joint_gaussian.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

using saddle_point::Bounds;
using saddle_point::Pair;

using saddle_point::kInfinity;

// A result is called exact if the integral's relative error is at most this, or if its two bounds
// agree closely (describe()).
constexpr double kExact = 1e-8;

// The most times that one step may be composed: up to here, counts are exact as doubles.
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 53;

// Sampled steps are integrated if their noise is between these limits: with far less noise the loss
// overflows, and with far more it underflows.
constexpr double kLeastSampledNoise = 0.02;
constexpr double kMostSampledNoise = 1e7;

constexpr std::size_t kMostAnswers = 64;

struct Step {
  double q = 0.0;  // 1 without sampling
  JointGaussian noise;

  friend bool operator<(const Step& a, const Step& b) {
    return std::tie(a.q, a.noise.low, a.noise.high) < std::tie(b.q, b.noise.low, b.noise.high);
  }
};

/// Which end of each step's noise interval is used.
enum class End { low, high };

double noise_of(const Step& step, End end) {
  return end == End::low ? step.noise.low : step.noise.high;
}

/// The composed events, with equal steps added up. They are ordered, so that sums do not depend on
/// the order of composition.
struct Spent {
  std::map<Step, std::uint64_t> steps;
  bool no_noise = false;
};

constexpr const char* kNoProof =
    "saddle_point needs the privacy loss's moment generating function in closed form, which it has "
    "for gaussian and poisson_sampled(gaussian) only";

std::string one_digit(double x) {
  std::array<char, 16> text{};
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), x, std::chars_format::scientific, 0);
  return error == std::errc{} ? std::string(text.data(), end) : std::string("?");
}

/// Returns why a sampled event is refused (a part is not a Gaussian, or has next to no noise);
/// nothing if it is accepted.
std::optional<std::string> refuses_sampled(const PoissonSampledEvent& event) {
  if (const auto joint = joint_gaussian(*event.of); joint && joint->low > 0.0) return {};
  for (const auto& [part, count] : flatten(*event.of)) {
    if (std::holds_alternative<GaussianEvent>(part.kind())) continue;
    return "poisson_sampled: " + std::string(part.name()) + ": " + kNoProof;
  }
  return "poisson_sampled: next to no noise inside";
}

/// The exact epsilon and delta of composed Gaussian and Poisson-sampled Gaussian releases, from the
/// moment generating function of the privacy loss (contour.hpp).
///
/// For one step, the following pairs of distributions are compared (privacy_loss.hpp). A
/// composition compares the products of its steps' pairs, which also dominate adaptively chosen
/// steps (dominating pairs: Zhu, Dong and Wang 2022):
/// - gaussian: N(s, sigma^2) and N(0, sigma^2), s the sensitivity of a sum of contributions of norm
///   at most 1 (1, and 2 for replace_one);
/// - poisson_sampled(gaussian) under add_or_remove_one: "remove" and "add", each composed
///   separately; the larger answer counts;
/// - under zero_out: the same two. The example is in the batch with probability q, and its
///   contribution is then present or replaced by zero; if it is not in the batch, the two data sets
///   look the same. So the sums have the distributions with and without the example;
/// - under replace_one: "replace", which is its own mirror image.
///
/// The estimate of the integral's own error, rounding included, is added to the value, and
/// subtracted for `lower`. The answer is marked `upper` if this estimate is above 1e-8 of delta and
/// the two bounds are not close (describe()). It is an estimate, not a proof (contour.hpp lists the
/// estimated parts), so publish these figures together with pld's interval.
class SaddlePoint final : public Accountant {
 public:
  explicit SaddlePoint(const Params& params) : direction_(params.text("direction")) {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_ = {};
    forget_answers();
  }

  std::optional<std::string> refuses(const Event& event) const override {
    return first_refusal(
        event,
        Overloaded{Accepts<GaussianEvent, NonPrivateEvent>{},
                   [](const PoissonSampledEvent& e) { return refuses_sampled(e); }},
        kNoProof);
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
    if (count == 0) return;
    Spent added;
    for (const auto& part : flatten(event)) add(part, count, added);
    for (const auto& [step, times] : added.steps) {  // before anything is changed
      const auto found = spent_.steps.find(step);
      if (found != spent_.steps.end()) require_countable(found->second, times);
    }
    for (const auto& [step, times] : added.steps) spent_.steps[step] += times;
    spent_.no_noise = spent_.no_noise || added.no_noise;
    forget_answers();
  }

  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw ConfigError("saddle_point: delta is " + format_number(delta) + ", allowed is (0, 1)");
    }
    return remembered(epsilons_, delta, [&] {
      return answer(kInfinity, [&](auto& loss) { return saddle_point::epsilon_of(loss, delta); });
    });
  }

  PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw ConfigError("saddle_point: epsilon is " + format_number(epsilon) +
                        ", allowed is [0, inf)");
    }
    return remembered(deltas_, epsilon, [&] {
      return answer(1.0, [&](auto& loss) { return saddle_point::delta_of(loss, epsilon); });
    });
  }

 private:
  using Answers = std::map<double, PrivacyAnswer>;

  static void require_countable(std::uint64_t have, std::uint64_t more) {
    if (have > kMostSteps || more > kMostSteps - have) {
      throw ConfigError("saddle_point: a step is composed more than 2^53 times, allowed is 2^53");
    }
  }

  static void add(const CountedEvent& part, std::uint64_t count, Spent& to) {
    std::uint64_t times = 0;
    if (__builtin_mul_overflow(part.count, count, &times)) times = kMostSteps + 1;
    if (std::holds_alternative<NonPrivateEvent>(part.event.kind())) {
      to.no_noise = true;
      return;
    }
    Step step{1.0, {}};
    if (const auto* sampled = std::get_if<PoissonSampledEvent>(&part.event.kind())) {
      step = {sampled->sampling_probability, *joint_gaussian(*sampled->of)};
      if (step.q == 0.0 || std::isinf(step.noise.low)) return;
    } else {
      step.noise = *joint_gaussian(part.event);
    }
    require_countable(to.steps[step], times);
    to.steps[step] += times;
  }

  /// Returns the sum of (sensitivity / sigma)^2 over everything that is not sampled.
  double gaussian_square(End end) const {
    const double sensitivity = sensitivity_of_unit_bound(adjacency_);
    double sum = 0.0;
    for (const auto& [step, count] : spent_.steps) {
      if (step.q < 1.0) continue;
      const double ratio = sensitivity / noise_of(step, end);
      sum += static_cast<double>(count) * ratio * ratio;
    }
    return sum;
  }

  std::vector<saddle_point::SampledSteps> sampled_steps(End end) const {
    std::vector<saddle_point::SampledSteps> steps;
    for (const auto& [step, count] : spent_.steps) {
      if (step.q == 1.0) continue;
      const double noise = noise_of(step, end);
      if (!(noise <= kMostSampledNoise)) {
        throw NumericError("saddle_point: the noise multiplier of a sampled gaussian is " +
                           format_number(noise) + ", which is integrated up to " +
                           format_number(kMostSampledNoise) + " only");
      }
      steps.push_back({step.q, noise, static_cast<double>(count)});
    }
    return steps;
  }

  std::vector<Pair> pairs(bool sampled) const {
    if (adjacency_ == Adjacency::replace_one) return {Pair::replace};
    if (direction_ == "add") return {Pair::add};
    if (direction_ == "remove" || !sampled) return {Pair::remove};  // Gaussians are symmetric
    return {Pair::remove, Pair::add};
  }

  /// Returns the larger of the results of `compute` for the two directions.
  /// \param most  the result if there is no noise.
  template <class Compute>
  PrivacyAnswer answer(double most, const Compute& compute) const {
    // The largest answer is always a bound; a search for a scale treats it as too little noise.
    const bool has_next_to_none =
        !std::isfinite(gaussian_square(End::low)) ||
        std::ranges::any_of(spent_.steps, [&](const auto& one) {
          return one.first.q < 1.0 && noise_of(one.first, End::low) < kLeastSampledNoise;
        });
    if (spent_.no_noise || has_next_to_none) {
      return {.value = most,
              .bound = spent_.no_noise ? BoundKind::exact : BoundKind::upper,
              .lower = {},
              .note = spent_.no_noise ? "something was released without noise"
                                      : "next to no noise: the privacy loss is not computed"};
    }
    if (spent_.steps.empty()) {
      return {.value = 0.0, .bound = BoundKind::exact, .lower = 0.0, .note = ""};
    }
    Bounds worst = worst_of(End::low, compute);
    // Several Gaussians on one batch count as one, whose noise has been rounded: down for the upper
    // bound, up for the lower one.
    const bool rounded = std::ranges::any_of(
        spent_.steps, [](const auto& one) { return one.first.noise.low < one.first.noise.high; });
    if (rounded) worst.lower = std::min(worst.lower, worst_of(End::high, compute).lower);
    return describe(worst);
  }

  template <class Compute>
  Bounds worst_of(End end, const Compute& compute) const {
    const auto steps = sampled_steps(end);
    Bounds worst;
    for (const Pair pair : pairs(!steps.empty())) {
      saddle_point::PrivacyLoss loss(pair, gaussian_square(end), steps);
      const Bounds found = compute(loss);
      const double lower = std::max(worst.lower, found.lower);
      if (found.upper >= worst.upper) worst = found;
      worst.lower = lower;
    }
    return worst;
  }

  PrivacyAnswer describe(const Bounds& bounds) const {
    const bool exact = bounds.upper == 0.0 || bounds.relative_error <= kExact ||
                       bounds.upper - bounds.lower <= 2e-9 * bounds.upper;
    std::string note;
    if (!exact) {
      note = std::isinf(bounds.relative_error)
                 ? "delta drowns in the rounding of the integral: Chernoff's bound; pld may be "
                   "tighter"
                 : "upper bound: the integral is right to " + one_digit(bounds.relative_error) +
                       " of delta only, by its own estimate";
    } else if (bounds.relative_error > 0.0) {
      note = "right to " + one_digit(bounds.relative_error) + " of delta by its own estimate";
    }
    BoundKind bound = exact ? BoundKind::exact : BoundKind::upper;
    if (direction_ != "both" && adjacency_ != Adjacency::replace_one) {
      bound = BoundKind::estimate;
      note = "direction " + direction_ + " alone, no guarantee" + (note.empty() ? "" : "; ") + note;
    }
    return {.value = bounds.upper, .bound = bound, .lower = bounds.lower, .note = std::move(note)};
  }

  /// Stores answers, because plans, ledgers and reports often repeat a question before anything new
  /// is composed.
  template <class Compute>
  PrivacyAnswer remembered(Answers& answers, double key, const Compute& compute) const {
    {
      const std::lock_guard lock(answers_mutex_);
      const auto found = answers.find(key);
      if (found != answers.end()) return found->second;
    }
    PrivacyAnswer made = compute();
    const std::lock_guard lock(answers_mutex_);
    if (answers.size() >= kMostAnswers) answers.clear();
    answers.emplace(key, made);
    return made;
  }

  void forget_answers() {
    epsilons_.clear();
    deltas_.clear();
  }

  std::string direction_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  Spent spent_;
  mutable std::mutex answers_mutex_;
  mutable Answers epsilons_;
  mutable Answers deltas_;
};

void register_components(Registrar& registrar) {
  registrar.add<Accountant, SaddlePoint>({
      .name = "saddle_point",
      .summary =
          "Exact epsilon and delta of composed (Poisson-sampled) Gaussians, in milliseconds.",
      .reference = "Zhu, Dong and Wang 2022 (dominating pairs); Alghamdi et al. 2022 (the saddle "
                   "point, as an "
                   "approximation); Trefethen and Weideman 2014 (the trapezoidal rule)",
      .params = {param::text(
                     "direction",
                     "Under add_or_remove_one and zero_out: both compares either data set with the "
                     "other and reports the larger answer; remove and add show one of the two, "
                     "which is no guarantee and is labelled an estimate.")
                     .one_of({"both", "remove", "add"})
                     .defaults_to("both")},
      .certified_by = "pld",
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.saddle_point", "0.1.0", "accountant/saddle_point", register_components)
