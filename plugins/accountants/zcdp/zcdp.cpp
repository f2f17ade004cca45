#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "conversion.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/upward.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr const char* kSubsampled =
    "zcdp has no proof for it: a subsampled Gaussian is not zCDP with an amplified rho (its Renyi "
    "divergences grow faster than linearly beyond some order); set `amplification: false` on the "
    "sampler";

/// Concentrated differential privacy (Bun and Steinke 2016): every event costs a rho, and rhos add.
///
/// The cost of each event, with s the sensitivity of a sum of contributions of norm at most 1
/// (1 for add_or_remove_one and zero_out, 2 for replace_one):
/// - gaussian: (s / noise_multiplier)^2 / 2 (Bun and Steinke, Proposition 1.6);
/// - discrete_gaussian: sensitivity^2 / (2 sigma^2) (Canonne, Kamath and Steinke 2020, Theorem 4).
///   Its sensitivity is the event's own, in grid units, already under the adjacency in use: the
///   accountant does not double it;
/// - laplace: it is (s / noise_multiplier)-DP, which is (epsilon^2 / 2)-zCDP (Proposition 1.4);
/// - zcdp: its rho;
/// - composed, self_composed: sums (Lemma 1.7, adaptive composition);
/// - non_private: infinite.
/// Rounding: upwards in every step, so the answers stay upper bounds.
///
/// A privacy filter: epsilon(delta) depends only on the sum of the rhos and increases with it, so
/// "at most the target" means "the sum is at most some rho*", and a run within this limit is
/// rho*-zCDP even if each rho was chosen from earlier releases (the Renyi filter of Feldman and
/// Zrnic 2021, at every order a with the budget a rho*; proof: docs/accounting.md).
class Zcdp final : public Accountant {
 public:
  explicit Zcdp(const Params& params) : optimal_(params.text("conversion") == "optimal") {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_ = {};
  }

  std::optional<std::string> refuses(const Event& event) const override {
    return first_refusal(
        event,
        Accepts<GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, ZcdpEvent, NonPrivateEvent>{},
        kSubsampled);
  }

  bool is_filter() const override { return true; }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
    spent_.add(multiply_up(count, rho_of(event)));
  }

  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw ConfigError("zcdp: delta is " + format_number(delta) + ", allowed is (0, 1)");
    }
    const double rho = spent_.total();
    return answer(optimal_ ? zcdp::optimal_epsilon(rho, delta) : zcdp::classic_epsilon(rho, delta),
                  rho);
  }

  PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw ConfigError("zcdp: epsilon is " + format_number(epsilon) + ", allowed is [0, inf)");
    }
    const double rho = spent_.total();
    return answer(optimal_ ? zcdp::optimal_delta(rho, epsilon) : zcdp::classic_delta(rho, epsilon),
                  rho);
  }

 private:
  /// Returns ratio^2 / 2, rounded up; above 0 even if the square underflows.
  static double half_square(double ratio) { return round_up(0.5 * ratio * ratio, 4.0); }

  double rho_of(const Event& event) const {
    const double sensitivity = sensitivity_of_unit_bound(adjacency_);
    return std::visit(
        Overloaded{
            [&](const GaussianEvent& e) { return half_square(sensitivity / e.noise_multiplier); },
            [&](const LaplaceEvent& e) { return half_square(sensitivity / e.noise_multiplier); },
            [](const DiscreteGaussianEvent& e) {
              return e.sensitivity == 0 ? 0.0
                                        : half_square(static_cast<double>(e.sensitivity) / e.sigma);
            },
            [](const ZcdpEvent& e) { return e.rho; },
            [this](const ComposedEvent& e) {
              UpwardSum sum;
              for (const Event& part : e.of) sum.add(rho_of(part));
              return sum.total();
            },
            [this](const SelfComposedEvent& e) {
              return multiply_up(static_cast<std::uint64_t>(e.count), rho_of(*e.of));
            },
            [](const auto&) { return kInfinity; },
        },
        event.kind());
  }

  static PrivacyAnswer answer(const zcdp::Bound& bound, double rho) {
    std::string note = "rho = " + format_number(rho);
    if (bound.order > 0.0) note += ", order = " + format_number(bound.order);
    return {.value = bound.value, .bound = BoundKind::upper, .lower = {}, .note = std::move(note)};
  }

  bool optimal_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  UpwardSum spent_;
};

void register_components(Registrar& registrar) {
  registrar.add<Accountant, Zcdp>({
      .name = "zcdp",
      .summary = "Zero-concentrated differential privacy: rhos add up; no amplification.",
      .reference =
          "Bun and Steinke 2016; conversion: Canonne, Kamath and Steinke 2020, Proposition 12",
      .params = {param::text(
                     "conversion",
                     "How rho becomes (epsilon, delta): optimal is the infimum over all Renyi "
                     "orders, classic is rho + 2 sqrt(rho ln(1/delta)), as papers print it.")
                     .one_of({"optimal", "classic"})
                     .defaults_to("optimal")},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.zcdp", "0.1.0", "accountant/zcdp", register_components)
