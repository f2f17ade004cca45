// The computation behind `privgrad account --curve`: bounds on membership tests of an event.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/api/accounting.hpp"
#include "privgrad/statement/membership.hpp"

namespace privgrad::api {

/// A point of a trade-off, and the accountant that proves it.
struct TradeOffPoint {
  core::TestBound bound;
  std::string accountant;
};

/// Returns upper bounds on the true positive rate of a membership test, for false positive rates
/// from 0.001 to 0.5, ascending. Each is the smallest of the bounds that up to 64 proved pairs of
/// epsilon and delta give (core::most_found()), and holds for any test that sees everything that
/// the event releases.
/// \param calls  accountants that prove their answers. For each epsilon, the smallest delta of an
///   accountant is used. Accountants that refuse the event are left out.
/// \throws PrivacyError with all reasons if all accountants refuse the event; ConfigError if an
///   accountant's own answers are not proofs.
std::vector<TradeOffPoint> trade_off(const std::vector<AccountantCall>& calls, const Event& event);

/// Returns the output of `privgrad account --curve --json`.
nlohmann::json to_json(const std::vector<TradeOffPoint>& curve, Adjacency adjacency);

}  // namespace privgrad::api
