#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "privgrad/accountant.hpp"
#include "privgrad/plugin.hpp"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Larger than `value` by more than the few roundings that led to it, so that bounds stay bounds.
double rounded_up(double value) { return value * (1.0 + 1e-12); }

/// Zero-concentrated differential privacy of Gaussian releases. They add up: one of noise
/// multiplier sigma and sensitivity s (in units of the L2 bound) is rho-zCDP with rho = s^2 / (2
/// sigma^2).
///
/// Sources (Bun and Steinke 2016): the Gaussian is Proposition 1.6, composition Lemma 1.7, the
/// conversion to (epsilon, delta) Proposition 1.3.
class @CLASS@ final : public privgrad::Accountant {
 public:
  explicit @CLASS@(const privgrad::Params&) {}

  void start(privgrad::Adjacency adjacency) override {
    sensitivity_ = privgrad::sensitivity_of_unit_bound(adjacency);
    rho_ = 0.0;
  }

  std::optional<std::string> refuses(const privgrad::Event& event) const override {
    const Cost cost = cost_of(event);
    if (cost.refusal.empty()) return std::nullopt;
    return cost.refusal;
  }

  void compose(const privgrad::Event& event, std::uint64_t count) override {
    const Cost cost = cost_of(event);
    if (!cost.refusal.empty()) throw privgrad::PrivacyError(cost.refusal);
    rho_ = rounded_up(rho_ + times(count, cost.rho));
  }

  privgrad::PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw privgrad::ConfigError("@NAME@: delta is " + privgrad::format_number(delta) +
                                  ", allowed is (0, 1)");
    }
    return upper(rounded_up(rho_ + 2.0 * std::sqrt(rho_ * -std::log(delta))));
  }

  privgrad::PrivacyAnswer delta(double epsilon) const override {
    if (!(epsilon >= 0.0)) {
      throw privgrad::ConfigError("@NAME@: epsilon is " + privgrad::format_number(epsilon) +
                                  ", allowed is at least 0");
    }
    if (rho_ == 0.0) return upper(0.0);
    if (epsilon <= rho_ || std::isinf(rho_)) return upper(1.0);
    // A factor on the exponent, not on the result: exp() turns relative into absolute errors.
    const double exponent = (epsilon - rho_) * (epsilon - rho_) / (4.0 * rho_);
    return upper(std::min(1.0, rounded_up(std::exp(-exponent * (1.0 - 1e-12)))));
  }

 private:
  static privgrad::PrivacyAnswer upper(double value) {
    privgrad::PrivacyAnswer answer;
    answer.value = value;
    answer.bound = privgrad::BoundKind::upper;
    return answer;
  }

  struct Cost {
    double rho = 0.0;
    std::string refusal;  ///< "" if the event is understood.
  };

  // Zero times an infinite cost is zero: nothing was released.
  static double times(std::uint64_t count, double rho) {
    return count == 0 ? 0.0 : rounded_up(static_cast<double>(count) * rho);
  }

  Cost cost_of(const privgrad::Event& event) const {
    const auto& kind = event.kind();
    if (const auto* gaussian = std::get_if<privgrad::GaussianEvent>(&kind)) {
      const double ratio = sensitivity_ / gaussian->noise_multiplier;
      return {rounded_up(0.5 * ratio * ratio), ""};
    }
    if (const auto* zcdp = std::get_if<privgrad::ZcdpEvent>(&kind)) return {zcdp->rho, ""};
    if (std::holds_alternative<privgrad::NonPrivateEvent>(kind)) return {kInfinity, ""};
    if (const auto* repeated = std::get_if<privgrad::SelfComposedEvent>(&kind)) {
      Cost cost = cost_of(*repeated->of);
      cost.rho = times(static_cast<std::uint64_t>(repeated->count), cost.rho);
      return cost;
    }
    if (const auto* composed = std::get_if<privgrad::ComposedEvent>(&kind)) {
      Cost sum;
      for (const privgrad::Event& part : composed->of) {
        const Cost cost = cost_of(part);
        if (!cost.refusal.empty()) return cost;
        sum.rho = rounded_up(sum.rho + cost.rho);
      }
      return sum;
    }
    if (const auto* unsupported = std::get_if<privgrad::UnsupportedEvent>(&kind)) {
      return {0.0, "@NAME@: " + unsupported->reason};
    }
    return {0.0, "@NAME@ has no proof for " + std::string(event.name()) +
                     "; it accounts gaussian, zcdp and their compositions"};
  }

  double sensitivity_ = 1.0;
  double rho_ = 0.0;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Accountant, @CLASS@>({
      .name = "@NAME@",
      .summary = "zCDP of Gaussian releases.",
      .reference = "Bun and Steinke 2016, Propositions 1.3 and 1.6, Lemma 1.7",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("@VENDOR@.@NAME@", "0.1.0", register_components)
