#include "privgrad/api/trade_off.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::api {
namespace {

constexpr std::array kShares{0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5};

/// The delta at which last_epsilon() asks for epsilon. Smaller deltas, with larger epsilons, could
/// only improve bounds at smaller false positive rates than kShares.
constexpr double kLeastDelta = 1e-6;
constexpr int kPairs = 64;

struct Prover {
  std::string name;
  ComponentPtr<Accountant> accountant;
};

/// Returns the accountants that accept the event, after composing it.
std::vector<Prover> provers(const std::vector<AccountantCall>& calls, const Event& event) {
  std::vector<Prover> all;
  std::string reasons;
  for (const AccountantCall& call : calls) {
    if (!call.proves_itself()) {
      throw ConfigError(call.name() +
                        ": gives only estimates, and another accountant proves its answers; a "
                        "curve needs proofs: name that accountant, or none");
    }
    try {
      all.push_back({call.name(), call.after(event)});
    } catch (const PrivacyError& refusal) {
      reasons += std::string(reasons.empty() ? "" : "; ") + refusal.what();
    }
  }
  if (all.empty()) throw PrivacyError(reasons);
  return all;
}

/// Returns the largest epsilon that may give the best bound at any of kShares.
double last_epsilon(const std::vector<Prover>& provers) {
  double least = HUGE_VAL;
  for (const Prover& one : provers) {
    const PrivacyAnswer answer = core::checked(one.accountant->epsilon(kLeastDelta), one.name);
    if (answer.bound != BoundKind::estimate) least = std::min(least, answer.value);
  }
  return least;
}

struct ProvedPair {
  core::ProvedPair pair;
  std::string accountant;
};

/// Returns the smallest delta that is proved for an epsilon.
ProvedPair least_delta(const std::vector<Prover>& provers, double epsilon) {
  ProvedPair least{{epsilon, 1.0}, provers.front().name};
  for (const Prover& one : provers) {
    const PrivacyAnswer answer = core::checked(one.accountant->delta(epsilon), one.name);
    if (answer.bound != BoundKind::estimate && answer.value < least.pair.delta)
      least = {{epsilon, answer.value}, one.name};
  }
  return least;
}

}  // namespace

std::vector<TradeOffPoint> trade_off(const std::vector<AccountantCall>& calls, const Event& event) {
  const std::vector<Prover> all = provers(calls, event);
  std::vector<ProvedPair> proved{least_delta(all, 0.0)};
  const double last = last_epsilon(all);
  for (int i = 1; i < kPairs && std::isfinite(last) && last > 0.0; ++i)
    proved.push_back(least_delta(all, last * i / (kPairs - 1)));
  std::vector<core::ProvedPair> pairs;
  pairs.reserve(proved.size());
  for (const ProvedPair& one : proved) pairs.push_back(one.pair);
  std::vector<TradeOffPoint> curve;
  curve.reserve(kShares.size());
  for (const double share : kShares) {
    const core::TestBound bound = core::least_found(share, pairs);
    const auto whose = std::ranges::find_if(
        proved, [&](const ProvedPair& one) { return one.pair.epsilon == bound.by.epsilon; });
    curve.push_back({bound, whose->accountant});
  }
  return curve;
}

nlohmann::json to_json(const std::vector<TradeOffPoint>& curve, Adjacency adjacency) {
  nlohmann::json points = nlohmann::json::array();
  for (const TradeOffPoint& point : curve) {
    points.push_back({{"wrongly_accused", point.bound.wrongly},
                      {"found_at_most", point.bound.found},
                      {"missed_at_least", core::least_missed(point.bound)},
                      {"epsilon", core::json_number(point.bound.by.epsilon)},
                      {"delta", point.bound.by.delta},
                      {"accountant", point.accountant}});
  }
  return {{"adjacency", to_text(adjacency)}, {"points", std::move(points)}};
}

}  // namespace privgrad::api
