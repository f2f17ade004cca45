// Recomputes a ledger's charges and total from the plan, line by line.
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

/// \returns the status of an ended run that `text` names; nothing for any other text.
std::optional<RunStatus> status_of(const std::string& text);

/// The charges and totals of a checked ledger.
struct LedgerAccount {
  RunStatus status = RunStatus::unfinished;
  std::uint64_t steps_done = 0;
  std::uint64_t steps = 0;   ///< Charged steps.
  std::uint64_t beside = 0;  ///< Charged releases other than steps.
  std::vector<Event> costs;  ///< The costs of all these charges, in the order of the ledger.
  PrivacyAnswer spent;       ///< The recomputed total.
  NoiseRecord noise;         ///< The choices of adaptive noise.
};

/// Checks ledgers against the plan, and recomputes their totals with the manifest's accountant.
class LedgerChecker {
 public:
  /// \param problems  out: problems are appended; must outlive the checker.
  explicit LedgerChecker(std::vector<std::string>& problems) : problems_(problems) {}

  /// \param plan  the plan of the ledger's owner; null if there is no plan to compare with, so that
  ///   the ledger's events are trusted.
  /// \param facts  the facts that the first line must state.
  /// \returns nothing if the ledger fails a check, for example if a charge differs from the plan.
  std::optional<LedgerAccount> check(const NamedLedger& ledger, const Manifest& manifest,
                                     const Plan* plan, const nlohmann::json& facts);

 private:
  std::vector<std::string>& problems_;
  /// The answers by the hash of the charges: clients with the same charges have the same answers.
  std::map<std::string, PrivacyAnswer> answers_;
};

}  // namespace privgrad::core
