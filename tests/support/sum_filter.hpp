// A privacy filter simple enough to check by hand, for tests of adaptive noise.
#pragma once

#include <variant>

#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"

/// A filter whose epsilon is the sum of 1 / noise_multiplier^2 over all Gaussians, at any delta:
/// simple enough to check by hand, but not a proof of anything.
class SumFilter final : public privgrad::Accountant {
 public:
  void start(privgrad::Adjacency) override { spent_ = 0.0; }
  std::optional<std::string> refuses(const privgrad::Event& event) const override {
    return privgrad::first_refusal(event, privgrad::Accepts<privgrad::GaussianEvent>{},
                                   "sums Gaussians only");
  }
  void compose(const privgrad::Event& event, std::uint64_t count) override {
    if (const auto why = refuses(event)) throw privgrad::PrivacyError(*why);
    for (const auto& [part, repeats] : privgrad::flatten(event)) {
      const double sigma = std::get<privgrad::GaussianEvent>(part.kind()).noise_multiplier;
      spent_ += static_cast<double>(repeats * count) / (sigma * sigma);
    }
  }
  privgrad::PrivacyAnswer epsilon(double) const override {
    return {.value = spent_, .bound = privgrad::BoundKind::upper, .lower = {}, .note = ""};
  }
  privgrad::PrivacyAnswer delta(double) const override {
    return {.value = 1.0, .bound = privgrad::BoundKind::upper, .lower = {}, .note = ""};
  }
  bool is_filter() const override { return true; }

 private:
  double spent_ = 0.0;
};
