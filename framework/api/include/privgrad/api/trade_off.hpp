// The computation behind `privgrad account --curve`: how well an event lets anybody test membership.
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

/// What a test for membership finds at most of those who were in the data, by the share of those who
/// were not that it accuses: for shares of 0.001 to 0.5, rising. Each is the least of what some 60
/// pairs of epsilon and delta prove (core::most_found), whose lines lie along the trade-off; the test
/// that is bounded sees everything that the event releases.
/// \param calls  accountants that prove their answers; of each pair the least delta counts. Those that
///   refuse the event are left out.
/// \throws PrivacyError if all refuse it, with their reasons; ConfigError if one proves nothing itself.
std::vector<TradeOffPoint> trade_off(const std::vector<AccountantCall>& calls, const Event& event);

/// As `privgrad account --curve --json` prints it.
nlohmann::json to_json(const std::vector<TradeOffPoint>& curve, Adjacency adjacency);

}  // namespace privgrad::api
