#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "privgrad/federated.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

using namespace privgrad;

constexpr std::uint64_t kMost = 100;

/// Chooses the number of local iterations that minimises a bound on the loss, given two remaining
/// budgets: rounds of communication (Rs), and local steps that the privacy budget pays for (Rc).
class AliDpfl final : public Schedule, public AdaptiveLocalIterations {
 public:
  explicit AliDpfl(const Params& params)
      : closed_(params.text("form") == "closed"),
        phi_(params.real("phi")),
        lambda_(params.real("lambda")),
        memory_(params.real("memory")) {}

  void start(const Horizon& horizon) override {
    if (horizon.slot == "local_iterations") return;
    throw ConfigError(
        "ali_dpfl: chooses local iterations; its place is "
        "federated.local_iterations");
  }

  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }

  bool start_rounds(std::uint64_t rounds, std::uint64_t steps) override {
    one_each_ = rounds >= steps;
    return !one_each_;
  }

  std::uint64_t next(const FederatedProgress& now) override {
    remember(now);
    // With a round left for every remaining step, several steps per round have no advantage.
    if (one_each_ || now.rounds_left >= now.steps_left) return 1;
    const std::uint64_t most = std::min(kMost, now.steps_left);
    const std::uint64_t chosen = closed_ ? by_formula(now) : by_search(now);
    return std::clamp<std::uint64_t>(chosen, 1, most);
  }

 private:
  /// Averages each estimate with earlier estimates, because estimates are noisy.
  void remember(const FederatedProgress& now) {
    const auto mix = [&](std::optional<double>& known, const std::optional<double>& made) {
      if (!made || !std::isfinite(*made)) return;
      known = known ? memory_ * *known + (1.0 - memory_) * *made : *made;
    };
    mix(lipschitz_, now.lipschitz);
    mix(smoothness_, now.smoothness);
    mix(divergence_, now.divergence);
    mix(convexity_, now.convexity);
    mix(heterogeneity_, now.heterogeneity);
  }

  /// Returns the gap between local and central descent after x steps (Ling et al., Eq. 11, with the
  /// factor of its second term chosen such that h(1) = 0): s/b ((1 + eta b)^x - 1) - eta s x, which
  /// is 0 for a flat loss (b -> 0).
  /// \param s  divergence of the gradients, plus twice the noise.
  static double gap(double s, double b, double eta, double x) {
    if (b * eta < 1e-12) return 0.0;
    return s / b * std::expm1(x * std::log1p(eta * b)) - eta * s * x;
  }

  /// Returns the number of local iterations, up to min(2 now.last, 100), with the least bound
  /// (Eq. 13).
  std::uint64_t by_search(const FederatedProgress& now) const {
    // Until all estimates exist, keeps the last number of local iterations; the first is 1.
    if (!lipschitz_ || !smoothness_ || !divergence_ || now.last == 0) {
      return std::max<std::uint64_t>(1, now.last);
    }
    // The norm of a step's noise: sqrt(d) sigma C / B.
    const double noise = std::sqrt(static_cast<double>(now.parameters)) * now.gradient_noise;
    const double s = *divergence_ + 2.0 * noise;
    std::uint64_t best = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::uint64_t tau = 1; tau <= std::min(2 * now.last, kMost); ++tau) {
      const auto x = static_cast<double>(tau);
      const double all =
          std::min(static_cast<double>(now.rounds_left) * x, static_cast<double>(now.steps_left));
      const double speed =
          now.learning_rate * phi_ -
          *lipschitz_ * gap(s, *smoothness_, now.learning_rate, x) / (x * lambda_ * lambda_);
      if (!(speed > 0.0)) continue;  // the bound is meaningless here
      const double bound = 1.0 / (all * speed);
      if (bound < least) {
        least = bound;
        best = tau;
      }
    }
    return best;
  }

  /// Returns sqrt(1 + (4/mu^2 + 3 C^2 + 2 Gamma T mu + b) / ((2 + 2/T)(C^2 + b))), at most
  /// min(2 tau, 100), where mu is the convexity, C the clip norm, Gamma the heterogeneity,
  /// b = d (sigma C / B)^2, T = min(Rs tau, Rc) and tau = now.last.
  std::uint64_t by_formula(const FederatedProgress& now) const {
    if (!convexity_ || !heterogeneity_ || now.last == 0) {
      return std::max<std::uint64_t>(1, now.last);
    }
    // Keeps the last number if the estimate of mu is not positive, because the loss is not convex
    // or the estimate is noisy.
    if (*convexity_ <= 0.0) return now.last;
    const double mu = *convexity_, c2 = now.clip_norm * now.clip_norm;
    const double b = static_cast<double>(now.parameters) * now.gradient_noise * now.gradient_noise;
    const double all =
        std::min(static_cast<double>(now.rounds_left) * static_cast<double>(now.last),
                 static_cast<double>(now.steps_left));
    const double tau =
        std::sqrt(1.0 + (4.0 / (mu * mu) + 3.0 * c2 + 2.0 * *heterogeneity_ * all * mu + b) /
                            ((2.0 + 2.0 / all) * (c2 + b)));
    // As in by_search(), a single estimate, which may be noise, must not spend the rest of the
    // budget.
    const std::uint64_t most = std::min(2 * now.last, kMost);
    if (!(tau < static_cast<double>(most))) return most;
    return static_cast<std::uint64_t>(std::llround(tau));
  }

  bool closed_;
  double phi_, lambda_, memory_;
  bool one_each_ = false;
  std::optional<double> lipschitz_, smoothness_, divergence_, convexity_, heterogeneity_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Schedule, AliDpfl>({
      .name = "ali_dpfl",
      .summary =
          "Local iterations of a federated run that minimise Eq. 13 of the paper, an estimate "
          "of its loss which takes noised gradients for exact ones, given the rounds and the "
          "privacy budget that are left; 1 where there are rounds enough.",
      .reference =
          "Ling et al. 2023, ALI-DPFL, Algorithm 2 and Eq. 13 with Eq. 11 put right; closed "
          "form: the later version's public code",
      .params =
          {text("form",
                "search: the least estimate over 1 to min(2 tau, 100), from estimates of the "
                "losses' "
                "slope, smoothness and divergence. closed: a formula of their convexity and "
                "heterogeneity.")
               .one_of({"search", "closed"})
               .defaults_to("search"),
           real("phi", "Control parameter of the bound: how fast descent would be without a gap.")
               .above(0)
               .defaults_to(1.0),
           real("lambda",
                "Control parameter of the bound: the loss above the optimum that is aimed "
                "at; small values weigh the gap more.")
               .above(0)
               .defaults_to(1.0),
           real("memory",
                "Share that the estimates of earlier rounds keep, against the noise in them; 0: "
                "the last round's alone, as printed.")
               .at_least(0)
               .below(1)
               .defaults_to(0.0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.ali_dpfl", "0.1.0", "schedule/ali_dpfl", register_components)
