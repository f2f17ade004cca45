// The @KIND@ @NAME@.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "privgrad/accountant.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/upward.hpp"

namespace @NAMESPACE@ {

/// Zero-concentrated differential privacy of Gaussian releases. A release with noise multiplier
/// sigma and sensitivity s (in units of the L2 bound) is rho-zCDP with rho = s^2 / (2 sigma^2), and
/// the rho of several releases add up.
///
/// Sources (Bun and Steinke 2016): the Gaussian is Proposition 1.6, composition Lemma 1.7, the
/// conversion to (epsilon, delta) Proposition 1.3.
class @CLASS@ final : public privgrad::Accountant {
 public:
  static privgrad::ComponentInfo declaration() {
    return {
        .name = "@NAME@",
        .summary = "zCDP of Gaussian releases.",
        .reference = "Bun and Steinke 2016, Propositions 1.3 and 1.6, Lemma 1.7",
        .params = {},
    };
  }

  explicit @CLASS@(const privgrad::Params&) {}

  void start(privgrad::Adjacency adjacency) override {
    sensitivity_ = privgrad::sensitivity_of_unit_bound(adjacency);
    rho_ = {};
  }

  std::optional<std::string> refuses(const privgrad::Event& event) const override {
    using namespace privgrad;
    return first_refusal(event, Accepts<GaussianEvent, ZcdpEvent, NonPrivateEvent>{},
                         "@NAME@ accounts gaussian, zcdp and their compositions");
  }

  void compose(const privgrad::Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw privgrad::PrivacyError(*reason);
    for (const auto& [release, repeats] : privgrad::flatten(event)) {
      rho_.add(privgrad::multiply_up(count, privgrad::multiply_up(repeats, rho_of(release))));
    }
  }

  privgrad::PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw privgrad::ConfigError("@NAME@: delta is " + privgrad::format_number(delta) +
                                  ", allowed is (0, 1)");
    }
    const double rho = rho_.total();
    if (rho == 0.0) return upper(0.0);
    return upper(privgrad::round_up(rho + 2.0 * std::sqrt(rho * -std::log(delta)), 8.0));
  }

  privgrad::PrivacyAnswer delta(double epsilon) const override {
    if (!(epsilon >= 0.0)) {
      throw privgrad::ConfigError("@NAME@: epsilon is " + privgrad::format_number(epsilon) +
                                  ", allowed is at least 0");
    }
    const double rho = rho_.total();
    if (rho == 0.0) return upper(0.0);
    if (epsilon <= rho || std::isinf(rho)) return upper(1.0);
    // The factor is applied to the exponent, not to the result, because exp() turns relative errors
    // into absolute ones.
    const double exponent = (epsilon - rho) * (epsilon - rho) / (4.0 * rho);
    return upper(std::min(1.0, privgrad::round_up(std::exp(-exponent * (1.0 - 1e-12)), 8.0)));
  }

 private:
  static privgrad::PrivacyAnswer upper(double value) {
    privgrad::PrivacyAnswer answer;
    answer.value = value;
    answer.bound = privgrad::BoundKind::upper;
    return answer;
  }

  /// The cost of one release, rounded up.
  /// \param event  one that refuses() accepts, and no composition.
  double rho_of(const privgrad::Event& event) const {
    if (const auto* gaussian = std::get_if<privgrad::GaussianEvent>(&event.kind())) {
      const double ratio = sensitivity_ / gaussian->noise_multiplier;
      return privgrad::round_up(0.5 * ratio * ratio, 4.0);
    }
    if (const auto* zcdp = std::get_if<privgrad::ZcdpEvent>(&event.kind())) return zcdp->rho;
    return std::numeric_limits<double>::infinity();
  }

  double sensitivity_ = 1.0;
  privgrad::UpwardSum rho_;
};

}  // namespace @NAMESPACE@
