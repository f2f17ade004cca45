// A run's use of the account that its manifest names: the check beforehand, and the reservation.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/trust/data_account.hpp"

namespace privgrad::core {

/// Checks that the account that the manifest names can pay for such a plan at all, however much is
/// left in it.
/// \throws PrivacyError, with the key, for another adjacency or unit, a plan without noise, events
///   that the account's filter has no proof for, noise that follows from a seed, and outputs that are
///   not accounted for.
void check_account(const Plan& plan);

/// The facts in statements about the account that the manifest names, if it names one.
std::optional<AccountFacts> account_facts(const Manifest& manifest);

/// A run's reservation in the account that its manifest names.
class Reservation {
 public:
  /// Reserves the most that the plan may cost; in a federated run, the cost for the client that
  /// it costs most.
  /// \param directory  of the run: goes into the account, for people to read.
  /// \throws PrivacyError if the account does not pay for it; IoError.
  Reservation(const Plan& plan, const std::filesystem::path& directory);

  /// Takes up the reservation of a resumed run.
  /// \throws PrivacyError if there is none of this id, or it was settled.
  Reservation(const Plan& plan, std::string id);

  const std::string& id() const noexcept { return id_; }

  /// Is called before the run opens its ledgers.
  /// \param bound  to its inputs, as DataAccount::begin().
  /// \throws PrivacyError if another run has done so with this reservation; IoError.
  void begin(const std::string& bound) { account_.begin(id_, bound); }

  /// Is called before a resumed run opens its ledgers. From here on nothing goes back to the
  /// account, because copies of the run's state may go on, too.
  /// \throws PrivacyError if it was settled, or pays for a run with other inputs; IoError.
  void resume(const std::string& bound) { account_.resume(id_, bound); }

  /// The reservation as the first line of the run's ledger states it.
  nlohmann::json facts() const;

  /// Gives back to the account what a run that was never resumed has not spent. Without this
  /// call, as after a kill, nothing goes back.
  /// \param cost  of everything that the run was charged for; nothing: all that was reserved.
  void settle(const std::optional<Event>& cost, const std::string& status);

 private:
  const AccountUse& use_;
  DataAccount account_;
  ComponentPtr<Accountant> filter_;
  Event cost_;
  std::string id_;
};

}  // namespace privgrad::core
