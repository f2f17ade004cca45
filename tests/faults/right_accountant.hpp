// A correct accountant, for derived classes to break.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <variant>

#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"
#include "privgrad/params.hpp"

/// Composes Gaussians by their exact trade-off function (Balle and Wang 2018, Theorem 8), which
/// depends only on the sum of the squares of sensitivity / sigma.
class RightAccountant : public privgrad::Accountant {
 public:
  using Adjacency = privgrad::Adjacency;
  using BoundKind = privgrad::BoundKind;
  using Event = privgrad::Event;
  using PrivacyAnswer = privgrad::PrivacyAnswer;

  explicit RightAccountant(const privgrad::Params&) {}
  void start(Adjacency adjacency) override {
    sensitivity_ = sensitivity_of_unit_bound(adjacency);
    square_ = 0.0;
  }
  std::optional<std::string> refuses(const Event& event) const override {
    return std::isnan(cost(event)) ? std::optional<std::string>("only Gaussians") : std::nullopt;
  }
  void compose(const Event& event, std::uint64_t count) override {
    if (std::isnan(cost(event))) throw privgrad::PrivacyError("only Gaussians");
    if (count > 0) square_ += static_cast<double>(count) * cost(event);
  }
  PrivacyAnswer epsilon(double delta) const override {
    check_delta(delta);
    return exactly(smallest_epsilon(delta));
  }
  PrivacyAnswer delta(double epsilon) const override {
    check_epsilon(epsilon);
    return exactly(smallest_delta(epsilon));
  }

  /// Returns the square of sensitivity / sigma that the event adds; NaN if the event is unknown.
  virtual double cost(const Event& event) const {
    if (const auto* gaussian = as<privgrad::GaussianEvent>(event)) {
      const double ratio = sensitivity_ / gaussian->noise_multiplier;
      return ratio * ratio;
    }
    if (as<privgrad::NonPrivateEvent>(event)) return std::numeric_limits<double>::infinity();
    if (const auto* repeated = as<privgrad::SelfComposedEvent>(event)) {
      const double one = cost(*repeated->of);
      return repeated->count == 0 ? 0.0 : static_cast<double>(repeated->count) * one;
    }
    if (const auto* composed = as<privgrad::ComposedEvent>(event)) {
      double sum = 0.0;
      for (const Event& part : composed->of) sum += cost(part);
      return sum;
    }
    return std::nan("");
  }
  double smallest_delta(double epsilon) const {
    if (square_ == 0.0) return 0.0;
    if (std::isinf(square_)) return 1.0;
    const double mu = std::sqrt(square_);
    const double second = tail(epsilon / mu + mu / 2.0);
    return std::max(
        0.0, tail(epsilon / mu - mu / 2.0) - (second == 0.0 ? 0.0 : std::exp(epsilon) * second));
  }
  double smallest_epsilon(double delta) const {
    if (std::isinf(square_)) return std::numeric_limits<double>::infinity();
    if (smallest_delta(0.0) <= delta) return 0.0;
    double low = 0.0, high = 1.0;
    while (smallest_delta(high) > delta) high *= 2.0;
    for (int i = 0; i < 60; ++i)
      (smallest_delta((low + high) / 2) > delta ? low : high) = (low + high) / 2;
    return high;
  }

  static void check_delta(double delta) {
    if (!(delta > 0.0 && delta < 1.0)) throw privgrad::ConfigError("delta is outside (0, 1)");
  }
  static void check_epsilon(double epsilon) {
    if (!(epsilon >= 0.0)) throw privgrad::ConfigError("epsilon is negative");
  }
  template <class Kind>
  static const Kind* as(const Event& event) {
    return std::get_if<Kind>(&event.kind());
  }
  static PrivacyAnswer exactly(double value) {
    return {.value = value, .bound = BoundKind::exact, .lower = value, .note = {}};
  }
  static PrivacyAnswer answer(double value, BoundKind bound = BoundKind::upper) {
    return {.value = value, .bound = bound, .lower = {}, .note = {}};
  }

  double sensitivity_ = 1.0, square_ = 0.0;

 private:
  static double tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }
};
