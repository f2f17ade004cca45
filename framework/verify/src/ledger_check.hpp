#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// What a ledger comes to.
struct LedgerAccount {
  RunStatus status = RunStatus::unfinished;
  std::uint64_t steps_done = 0;
  std::uint64_t steps = 0;   ///< Charged.
  std::uint64_t beside = 0;  ///< Charged releases that are no steps.
  std::vector<Event> costs;  ///< Of all of them, in the order of the ledger.
  PrivacyAnswer spent;       ///< Derived again.
  NoiseRecord noise;         ///< Of noise that adapts.
};

/// Derives again what ledgers say, by the accountant that their manifest names.
class LedgerChecker {
 public:
  /// \param plan  of the owner whose ledgers are checked; outlives this.
  /// \param problems  out: what is wrong is appended.
  explicit LedgerChecker(std::vector<std::string>& problems) : problems_(problems) {}

  /// \param plan  of the owner of the ledger.
  /// \param facts  what the first line has to say.
  /// \returns nothing if it is not what this plan charges.
  std::optional<LedgerAccount> check(const NamedLedger& ledger, const Plan& plan,
                                     const nlohmann::json& facts);

 private:
  std::vector<std::string>& problems_;
  /// Clients with the same events have the same answers.
  std::map<std::string, PrivacyAnswer> answers_;
};

}  // namespace privgrad::core
