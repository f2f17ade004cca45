// The account file: one privacy budget that all runs on the same private data share.
#pragma once

#include <cstdint>
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
  nlohmann::json run;  ///< The run that reserved: an object that the caller chooses.
  Event reserved = Event::nothing();
  std::optional<Event> settled;  ///< What the run spent; nothing: not known yet.
  std::string status;            ///< "reserved", "begun", "resumed", or how the run ended.
  bool begun = false;            ///< A ledger was opened for it.
  std::string bound = "";        ///< The inputs that the run is bound to, as it says.
  bool resumed = false;          ///< From its own files, or from a copy of them.

  /// The cost that the account counts.
  const Event& cost() const { return settled ? *settled : reserved; }
};

/// What an event costs by a filter, as a number to compare events by: its epsilon at a delta so small
/// that no cost is free. At the account's own delta a cost may have epsilon 0, and still be larger
/// than that of another event.
double cost_by_filter(Accountant& filter, Adjacency adjacency, const Event& event);

/// The account of one private data set: a budget that all runs on it share, in a file.
///
/// Privacy. Which run comes next, with which noise, depends on what earlier ones have released, so
/// the total is kept by a privacy filter (Accountant::is_filter()): a run's whole plan is reserved before
/// its data is read, and only if the filter, asked about it and all before it, still says at most
/// the budget. Then all that runs on this account release is (target_epsilon, target_delta)-DP
/// together, however they were chosen. Runs may be under way at the same time and each may be
/// planned from what the others have shown so far: filters of Renyi divergences at a fixed order
/// hold for mechanisms that are used concurrently, too (Haney et al. 2023, "Concurrent composition
/// for interactive differential privacy with adaptive privacy-loss parameters"), and rho-zCDP is
/// that at every order. What a run did not spend comes back to the account, which a filter allows:
/// only what was released counts.
///
/// Only a process that made the whole run knows how much that is. One that resumes a run may have a
/// copy of its files, and other copies may go further, unseen. So a run says here first, under the
/// lock, that it opens its ledger, or that it is resumed: a ledger is opened once for each
/// reservation, a run that was resumed is settled in full, and one that is settled neither begins nor
/// is resumed. A copy with other inputs would be a release of its own, so none goes on with the
/// reservation of a run that began with others. Of two processes, either the one that resumes comes
/// first, and nothing comes back, or the one that settles, and the other releases nothing more.
///
/// The file is a hash chain of JSON lines: "open" with the terms, and for each run "reserve",
/// "begin", any number of "resume", and "settle". Whoever may write the file can cut lines off its
/// end; keep the last hash elsewhere, or the runs' ledgers, which name their reservation.
///
/// Crashes: a call returns only after its line is on the disk; a line that was cut off by a crash
/// counts for nothing, and nothing was done for it. A run that is killed keeps its reservation.
/// Processes and threads: each call locks the file (flock), so that two runs never spend the same
/// part of the budget. Where a file system has no locks, all calls but open() fail.
class DataAccount {
 public:
  /// Opens a new account. Its first line has a random number, so that the hash of that line names
  /// this account and no other one with the same terms.
  /// \throws IoError if the file exists or cannot be written; ConfigError for terms out of range.
  static void open(const std::filesystem::path& file, const AccountTerms& terms);

  /// From now on `tell` is called, with the account's file, by each call of this process that has
  /// waited a second for whoever holds the account. To be called before there are threads.
  static void on_waiting(std::function<void(const std::filesystem::path&)> tell);

  /// Reads an account.
  /// \throws IoError if the file cannot be read, is no account, or was changed.
  explicit DataAccount(std::filesystem::path file);

  const AccountTerms& terms() const noexcept { return terms_; }
  /// As they were when this object last read the file: in the constructor, or in a call that
  /// writes.
  const std::vector<AccountEntry>& entries() const noexcept { return entries_; }
  const std::string& first_hash() const noexcept { return first_hash_; }
  const std::string& last_hash() const noexcept { return last_hash_; }

  /// Epsilon at the target delta of all entries, as the filter proves it.
  /// \param filter  the accountant of the terms; what it composed before is forgotten.
  /// \param more  counted beside them.
  /// \throws PrivacyError if it is no filter, or has no proof for an event.
  PrivacyAnswer spent(Accountant& filter, const Event& more = Event::nothing()) const;

  /// Reserves a run's cost.
  /// \param run  an object that says whose reservation this is.
  /// \returns its id.
  /// \throws PrivacyError if the budget does not hold it, or as spent(); IoError. Nothing is
  ///   reserved then.
  std::string reserve(Accountant& filter, const Event& cost, const nlohmann::json& run);

  /// Marks a reservation before a ledger is opened for it.
  /// \param bound  a text by which only the run itself can tell which inputs it is bound to.
  /// \throws PrivacyError if there is no such reservation, it was settled, or a ledger was opened for
  ///   it before; IoError.
  void begin(const std::string& id, const std::string& bound);

  /// Marks a reservation before its run is resumed.
  /// \throws PrivacyError if there is no such reservation, it was settled, or the run that began with
  ///   it was bound to other inputs: that would be another run, which is paid for anew; IoError.
  void resume(const std::string& id, const std::string& bound);

  /// Gives back a reservation for which no ledger was opened, which begin() says first: a run that
  /// was cut off before it has released nothing, and one that is still on its way there opens none.
  /// \returns false, and the reservation stays, where a ledger was opened.
  /// \throws PrivacyError if there is no such reservation, or it was settled before; IoError.
  bool give_back(Accountant& filter, const std::string& id);

  /// Replaces a reservation by what was spent of it; by all of it, if its run was resumed.
  /// \param status  how the run ended.
  /// One that was settled in full, by a copy of a run that was resumed, is left so.
  /// \throws PrivacyError if there is no such reservation, it was settled before otherwise, or
  ///   `cost` is more than it; IoError. The reservation stays then.
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
  std::string first_hash_, last_hash_;
  std::uint64_t lines_ = 0;
  std::uint64_t whole_bytes_ = 0;
};

}  // namespace privgrad::core
