// A run's use of the account that its manifest names: the check in advance, and the reservation.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "privgrad/plan/plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/trust/data_account.hpp"

namespace privgrad::core {

/// Checks that the account named in the manifest, if there is one, accepts this kind of plan. The
/// account's remaining budget does not matter.
/// \throws PrivacyError, with the key, for a different adjacency or unit, a plan without noise, an
///   accountant that is not a filter, events that this accountant refuses, a seed, and unaccounted
///   outputs.
void check_account(const Plan& plan);

/// Checks that the account named in the manifest was read; does nothing if none is named. A
/// manifest that is loaded without its data may name a file that is missing.
/// \throws IoError if it was not read.
void require_account(const Manifest& manifest);

/// The account that the manifest names, as statements describe it; nothing if it names none.
std::optional<AccountFacts> account_facts(const std::optional<AccountUse>& use);

/// A reservation in the manifest's account, as the first line of the run's ledger records it; null
/// if the manifest names no account.
nlohmann::json reservation_facts(const std::optional<AccountUse>& use, const std::string& id);

/// Settles a reservation at its full cost, after the last release of its run; a reservation that
/// was settled before remains as it is.
/// \throws as DataAccount::settle().
void settle_in_full(const Plan& plan, const std::string& id, const std::string& status);

/// A run's reservation in the account that its manifest names.
class Reservation {
 public:
  /// Reserves the largest possible cost of the plan; in a federated run, the cost for the client
  /// with the largest cost.
  /// \param directory  the directory of the run; stored in the account for people to read.
  /// \throws as DataAccount::reserve(); PrivacyError if the account was replaced.
  Reservation(const Plan& plan, const std::filesystem::path& directory);

  /// Takes over the reservation of a resumed run.
  /// \throws PrivacyError if no open reservation for the plan's cost has this id, or if the account
  ///   was replaced.
  Reservation(const Plan& plan, std::string id);

  const std::string& id() const noexcept { return id_; }

  /// Must be called before the run opens its ledgers.
  /// \param bound  identifies the inputs of the run, as in DataAccount::begin().
  /// \throws as DataAccount::begin().
  void begin(const std::string& bound) { account_.begin(id_, bound); }

  /// Must be called before a resumed run opens its ledgers. From then on nothing is returned to the
  /// account, because copies of the run's state may be resumed too.
  /// \throws as DataAccount::resume().
  void resume(const std::string& bound) { account_.resume(id_, bound); }

  /// The reservation, as the first line of the run's ledger records it.
  nlohmann::json facts() const;

  /// Returns the whole reservation to the account. Allowed only before begin(), while nothing is
  /// charged.
  void give_back();

  /// Returns the unspent part of the reservation to the account, if the run was never resumed.
  /// Without this call, for example if the process is killed, nothing is returned.
  /// \param cost  the cost of everything that was charged; if absent: the whole reservation.
  void settle(const std::optional<Event>& cost, const std::string& status);

 private:
  const AccountUse& use_;
  DataAccount account_;
  ComponentPtr<Accountant> filter_;
  Event cost_;
  std::string id_;
};

}  // namespace privgrad::core
