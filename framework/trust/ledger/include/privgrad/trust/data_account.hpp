// The account file: one privacy budget that all runs on the same private data share.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/event.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/account_terms.hpp"

namespace privgrad::core {

/// The reservation of one run, and its outcome.
struct AccountEntry {
  std::string id;      ///< 32 hex digits.
  nlohmann::json run;  ///< The run that made the reservation: an object that the caller chooses.
  Event reserved = Event::nothing();
  std::optional<Event> settled;  ///< The run's actual cost; nothing if it is not known yet.
  std::string status;            ///< "reserved", "begun", "resumed", or how the run ended.
  bool begun = false;            ///< Whether a ledger was opened for it.
  std::string bound = "";        ///< The inputs to which the run is bound, as the run states them.
  bool resumed = false;          ///< Whether the run was resumed, from its own files or from a
                                 ///< copy.

  /// The cost that the account counts.
  const Event& cost() const { return settled ? *settled : reserved; }
};

/// Returns the day of a time in UTC, "2026-12-31", whatever time zone the environment says.
std::string utc_day(std::time_t time);

/// Returns an event's cost according to a filter, as a number by which events can be compared:
/// epsilon at a delta so small that even cheap events have a positive epsilon. (At the account's
/// own delta, two events of different cost may both have epsilon 0.)
double cost_by_filter(Accountant& filter, Adjacency adjacency, const Event& event);

/// The account of one private data set: a budget that all runs on it share, in a file.
///
/// Privacy. People choose the next run, and its noise, based on the releases of earlier runs, so a
/// privacy filter keeps the total (Accountant::is_filter()): a run's whole plan is reserved before
/// its data is read, and only if the filter's answer for it and all earlier reservations is at most
/// the budget. All releases of the runs on this account together are then
/// (target_epsilon, target_delta)-DP, however the runs were chosen. Runs may overlap in time, and
/// each may use the others' releases so far: filters of Renyi divergences at a fixed order hold for
/// mechanisms that are used concurrently, too (Haney et al. 2023, "Concurrent composition for
/// interactive differential privacy with adaptive privacy-loss parameters"), and rho-zCDP is such a
/// bound at every order. The unspent part of a reservation is returned to the account; a filter
/// allows this, since only actual releases count.
///
/// Only a process that made the whole run knows the unspent part. A process that resumes a run may
/// have a copy of its files, and other copies may continue elsewhere, unseen. A run therefore first
/// records here, under the lock, that it opens its ledger or is resumed. A ledger is opened once
/// per reservation; a resumed run is settled in full; a settled run neither begins nor is resumed.
/// A copy with other inputs would make different releases, so it may not use the reservation. If
/// one process resumes a run while another settles it, the first line decides: a resumed run gets
/// nothing back, and a settled run releases nothing more.
///
/// The file is a hash chain of JSON lines: "open" with the terms, and for each run "reserve",
/// "begin", "resume" if it was resumed, and "settle". Anyone who can write the file can truncate
/// it; keep the last hash elsewhere, or the runs' ledgers, which name their reservation.
///
/// Crashes: a call returns only after its line is on the disk; a line truncated by a crash does not
/// count, and no action followed it. A run that is killed keeps its reservation. Processes and
/// threads: each call locks the file (flock), so that two runs never spend the same part of the
/// budget. Where a file system has no locks, all calls but open() fail.
class DataAccount {
 public:
  /// Opens a new account. Its first line contains a random number, so its hash identifies this
  /// account among others with the same terms.
  /// \throws IoError if the file exists or cannot be written; ConfigError for terms out of range.
  static void open(const std::filesystem::path& file, const AccountTerms& terms);

  /// Sets a function that is called with the account's file whenever a call in this process has
  /// waited a second for the account's lock. Must be called before threads start.
  static void on_waiting(std::function<void(const std::filesystem::path&)> tell);

  /// Reads an account.
  /// \throws IoError if the file cannot be read, is not an account, or was changed.
  explicit DataAccount(std::filesystem::path file);

  const AccountTerms& terms() const noexcept { return terms_; }
  /// The entries as of this object's last read of the file, in the constructor or in a call that
  /// writes.
  const std::vector<AccountEntry>& entries() const noexcept { return entries_; }
  const std::string& first_hash() const noexcept { return first_hash_; }
  /// The day on which the account was opened, "2026-12-31" in UTC; "" for older accounts, which do
  /// not say.
  const std::string& opened_on() const noexcept { return opened_on_; }
  const std::string& last_hash() const noexcept { return last_hash_; }

  /// Returns the epsilon that the filter proves for all entries together, at the target delta.
  /// \param filter  the accountant of the terms; its earlier composition is discarded.
  /// \param more  an event to count in addition.
  /// \throws PrivacyError if the accountant is not a filter, or has no proof for an event.
  PrivacyAnswer spent(Accountant& filter, const Event& more = Event::nothing()) const;

  /// Reserves a run's cost.
  /// \param run  an object that identifies the run.
  /// \returns its id.
  /// \throws PrivacyError if the cost exceeds the rest of the budget, and as spent() does; IoError
  ///   if the file cannot be read or written. Nothing is reserved then.
  std::string reserve(Accountant& filter, const Event& cost, const nlohmann::json& run);

  /// Marks a reservation before a ledger is opened for it.
  /// \param bound  a text that identifies the run's inputs; only the run itself interprets it.
  /// \throws PrivacyError if there is no such reservation, it was settled, or a ledger was already
  ///   opened for it; IoError as reserve() does.
  void begin(const std::string& id, const std::string& bound);

  /// Marks a reservation before its run is resumed.
  /// \throws PrivacyError if there is no such reservation, it was settled, or its run was bound to
  ///   other inputs, which makes this a different run with a cost of its own; IoError as reserve()
  ///   does.
  void resume(const std::string& id, const std::string& bound);

  /// Cancels a reservation for which no ledger was opened. A run that stopped before it called
  /// begin() has released nothing, and begin() refuses it after this call.
  /// \returns false, and the reservation stays, if a ledger was opened or the run was resumed.
  /// \throws PrivacyError if there is no such reservation, or it was settled before; IoError as
  ///   reserve() does.
  bool give_back(Accountant& filter, const std::string& id);

  /// Replaces a reservation by the part of it that was spent, or by the whole reservation if its
  /// run was resumed. A reservation that was settled in full stays as it is, if its run was resumed
  /// or `cost` is all of it.
  /// \param status  the status at the end of the run.
  /// \throws PrivacyError if there is no such reservation, it was settled differently before, or
  ///   `cost` exceeds it; IoError as reserve() does. The reservation stays then.
  void settle(Accountant& filter, const std::string& id, const Event& cost,
              const std::string& status);

 private:
  class Lock;
  void read(Lock& lock);
  void append(Lock& lock, nlohmann::json line);
  void add(const nlohmann::json& line);
  AccountEntry& open_entry(const std::string& id);
  void mark_begun(const std::string& id, const std::string& bound);
  void mark_resumed(const std::string& id);
  void settle_under(Lock& lock, Accountant& filter, AccountEntry& entry, const Event& cost,
                    const std::string& status);

  std::filesystem::path file_;
  AccountTerms terms_;
  std::vector<AccountEntry> entries_;
  std::string first_hash_, last_hash_, opened_on_;
  std::uint64_t lines_ = 0;
  std::uint64_t whole_bytes_ = 0;
};

}  // namespace privgrad::core
