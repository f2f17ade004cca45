#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/trust/data_account.hpp"

namespace privgrad::core {

/// Whether the account that the manifest names can pay for such a plan at all, however much is left.
/// \throws PrivacyError, at privacy.account, for another adjacency or unit, a plan without noise, and
///   events that the account's filter has no proof for.
void check_account(const Plan& plan);

/// What statements say of the account that the manifest names, if it names one.
std::optional<AccountFacts> account_facts(const Manifest& manifest);

/// What a run has reserved in the account that its manifest names.
class Reservation {
 public:
  /// Reserves what the plan may come to cost; of a federated run, what it may cost the client that it
  /// costs most.
  /// \param directory  of the run: goes into the account, for people.
  /// \throws PrivacyError if the account does not pay for it; IoError.
  Reservation(const Plan& plan, const std::filesystem::path& directory);

  /// Takes up that of a run that goes on.
  /// \throws PrivacyError if there is none of this id, or it was settled.
  Reservation(const Plan& plan, std::string id);

  const std::string& id() const noexcept { return id_; }

  /// Before the run opens its ledgers.
  /// \param bound  to its inputs, as DataAccount::begin().
  /// \throws PrivacyError if another run has done so with this reservation; IoError.
  void begin(const std::string& bound) { account_.begin(id_, bound); }

  /// Before a run that goes on opens its ledgers. What it does not spend stays spent from here on,
  /// because copies of its state may go on, too.
  /// \throws PrivacyError if it was settled, or pays for a run with other inputs; IoError.
  void resume(const std::string& bound) { account_.resume(id_, bound); }

  /// For the first line of the run's ledger.
  nlohmann::json facts() const;

  /// What was not spent goes back to the account, of a run that never was resumed. Without a call, as
  /// after a kill, nothing does.
  /// \param cost  of what the run was charged for; nothing: of all that was reserved.
  void settle(const std::optional<Event>& cost, const std::string& status);

 private:
  const AccountUse& use_;
  DataAccount account_;
  ComponentPtr<Accountant> filter_;
  Event cost_;
  std::string id_;
};

}  // namespace privgrad::core
