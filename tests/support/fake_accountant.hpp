// An accountant simple enough to check by hand, for tests of the ledger and its other users.
#pragma once

#include <string>

#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"

/// Every Gaussian release costs 1 / noise_multiplier^2, and epsilon is their sum: simple enough to
/// check by hand, but not a proof of anything.
class CountingAccountant : public privgrad::Accountant {
 public:
  explicit CountingAccountant(privgrad::BoundKind bound = privgrad::BoundKind::upper)
      : bound_(bound) {}
  void start(privgrad::Adjacency) override { spent_ = 0.0; }
  std::optional<std::string> refuses(const privgrad::Event& event) const override {
    if (std::holds_alternative<privgrad::GaussianEvent>(event.kind()) || event.is_nothing())
      return std::nullopt;
    return "counts Gaussians only";
  }
  void compose(const privgrad::Event& event, std::uint64_t count) override {
    if (const auto why = refuses(event)) throw privgrad::PrivacyError(*why);
    if (event.is_nothing()) return;
    const double sigma = std::get<privgrad::GaussianEvent>(event.kind()).noise_multiplier;
    spent_ += static_cast<double>(count) / (sigma * sigma);
  }
  /// Violates the contract, for tests of the code that must notice this.
  void refund(double epsilon) { spent_ -= epsilon; }
  /// Returns how many times epsilon was requested.
  int asked() const { return asked_; }
  privgrad::PrivacyAnswer epsilon(double) const override {
    ++asked_;
    return {.value = spent_, .bound = bound_, .lower = {}, .note = ""};
  }
  privgrad::PrivacyAnswer delta(double) const override {
    return {.value = 1.0, .bound = bound_, .lower = {}, .note = ""};
  }

 private:
  privgrad::BoundKind bound_;
  double spent_ = 0.0;
  mutable int asked_ = 0;
};
