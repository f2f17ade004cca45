// Receipts of a real ledger, for tests of releases.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "fake_accountant.hpp"
#include "privgrad/event.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/ledger.hpp"
#include "support.hpp"

/// Receipts from a ledger without a budget, in its own folder.
class Payments {
 public:
  explicit Payments(const std::vector<privgrad::Event>& releases)
      : ledger_(dir_.path() / "ledger.jsonl", {.target_epsilon = {}, .target_delta = 1e-5},
                accountant_, "fake", {}) {
    std::vector<privgrad::core::Charge> charges;
    for (std::uint64_t step = 0; step < releases.size(); ++step)
      charges.push_back({step, releases[step], releases[step]});
    receipts_ = ledger_.charge(charges);
  }
  Payments(std::size_t steps, double multiplier)
      : Payments(std::vector<privgrad::Event>(steps, privgrad::Event::gaussian(multiplier))) {}
  /// \param factor  the charged noise as a multiple of the recipes' noise.
  explicit Payments(const privgrad::core::CorrelatedRecipes& recipes, double factor = 1.0)
      : Payments(events_of(recipes, factor)) {}
  privgrad::core::Receipt take(std::size_t step) { return std::move(receipts_.at(step)); }

 private:
  static std::vector<privgrad::Event> events_of(const privgrad::core::CorrelatedRecipes& recipes,
                                                double factor) {
    std::vector<privgrad::Event> events;
    for (std::uint64_t step = 0; step < recipes.steps(); ++step)
      events.push_back(privgrad::Event::gaussian(factor * recipes.own_multiplier(step)));
    return events;
  }
  TempDir dir_;
  CountingAccountant accountant_;
  privgrad::core::Ledger ledger_;
  std::vector<privgrad::core::Receipt> receipts_;
};
