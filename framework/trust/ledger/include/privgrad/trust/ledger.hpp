// The ledger, which charges for each release before it is made and gives out receipts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/event.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/hash_chain.hpp"

namespace privgrad::core {

/// Proof that one release, with a certain noise, was paid for. It is made only by a Ledger, or by
/// PaidElsewhere in a process that the ledger's process has informed of the payment. The mechanism
/// takes it in exchange for the release, once.
class Receipt {
 public:
  Receipt(Receipt&&) noexcept = default;
  Receipt& operator=(Receipt&&) noexcept = default;
  Receipt(const Receipt&) = delete;
  Receipt& operator=(const Receipt&) = delete;

  std::uint64_t step() const noexcept { return step_; }
  /// The event that was charged for this step's own noise, before the sampler's amplification.
  const Event& release() const noexcept { return release_; }

 private:
  friend class Ledger;
  friend class PaidElsewhere;
  Receipt(std::uint64_t step, Event release) : step_(step), release_(std::move(release)) {}
  std::uint64_t step_;
  Event release_;
};

/// The budget of a run. Without a target epsilon every charge is allowed, but still recorded.
struct Budget {
  std::optional<double> target_epsilon;
  double target_delta = 0.0;        ///< In (0, 1).
  bool charges_are_bounds = false;  ///< Charges may exceed the true cost: no answer is then exact.
};

/// One release to be paid for.
struct Charge {
  std::uint64_t step = 0;
  Event release;       ///< The event of the step's own noise, before the sampler's amplification.
  Event cost;          ///< Its cost for the whole data set: the sampler's charge.
  std::string what{};  ///< "" for a training step; otherwise the purpose, which is written into its
                       ///< line.

  bool operator==(const Charge&) const = default;
};

/// The position up to which a ledger has been written.
struct LedgerPosition {
  std::uint64_t lines = 0, bytes = 0;
  std::string last_hash;

  static auto state(auto& self) { return std::tie(self.lines, self.bytes, self.last_hash); }
};

/// The state from which a ledger is reopened.
struct LedgerReopening {
  LedgerPosition at;
  /// The number of steps, counted back from this position, that were charged but not made yet.
  /// Releases other than steps (Charge::what) are made immediately after their charge, so they are
  /// never in hand.
  std::uint64_t in_hand = 0;
  /// Whether releases charged after `at`, if repeated, are identical bit for bit: the same sum and
  /// the same noise. A repeated release reveals nothing new and costs nothing more.
  bool may_repeat = false;
};

/// The account book of one run on one private data set: a privacy filter that is stored on disk. It
/// does not contain the costs of other runs on the same data.
///
/// The file holds one JSON object per line: an "open" line with the facts of the run, a "release"
/// line with running totals for each release, and a "close" line. Each line carries the hash of the
/// line before it and its own (SHA-256), so a line cannot be changed, dropped or reordered without
/// a trace.
///
/// Order: charge() returns only after its lines are on the disk, and the mechanism needs the
/// receipts that it returns. So the file never shows less than was released, even if the process is
/// killed at any instant. A last line truncated by a kill was not yet charged, and nothing was
/// released for it. Threads: calls on one ledger must not overlap.
class Ledger {
 public:
  /// \param accountant  started, with nothing composed; guards the budget. Must outlive the ledger.
  /// \param facts  an object with the contents of the "open" line, in addition to the budget.
  /// \throws IoError if the file exists or cannot be written; PrivacyError if the accountant has
  ///   only an estimate.
  Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
         std::string accountant_name, const nlohmann::json& facts);

  /// Reopens the ledger of an interrupted run, with everything that the run has paid for. The lines
  /// up to `again.at` are read, checked, and composed again. The lines after it are expected to be
  /// repeated: charge() and close() compare their lines with those in the file, and append only
  /// missing lines. So nothing is charged twice, and no receipt is issued without a line in the
  /// file. Epsilons in the file, which another processor may have proved, are kept if they agree
  /// within kOfProcessors: the events determine the payment. Unless the accountant is a filter, the
  /// budget is widened by the same share.
  ///
  /// The caller guarantees `again`: receipts in hand have not been used, and with `may_repeat`, a
  /// receipt that is issued again is used for the identical release, to the last bit.
  /// \throws PrivacyError if the first line does not match these facts, or if releases that may not
  ///   be repeated were charged after the position; IoError if the file cannot be read or its chain
  ///   is broken.
  Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
         std::string accountant_name, const nlohmann::json& facts, const LedgerReopening& again);

  /// The receipts in hand of a reopened ledger; may be called once.
  std::vector<Receipt> take_receipts_in_hand() { return std::move(in_hand_); }

  /// Whether the file holds lines that are still to be repeated.
  bool is_behind() const noexcept { return !file_.ahead().empty(); }

  LedgerPosition position() const {
    return {.lines = chain_.lines(), .bytes = file_.position(), .last_hash = chain_.last_hash()};
  }

  /// Pays for all of `charges` together, or for none of them: the accountant answers before any
  /// value is released. They are paid at once, so the line of each charge shows the total after all
  /// charges. After a refusal the ledger accepts no further charge.
  /// \returns a receipt for each charge, in order; nothing if they exceed the budget.
  /// \throws PrivacyError if the accountant refuses an event or returns an estimate, or if a
  ///   repeated line differs from the file; IoError if the lines cannot be written to the disk, or
  ///   an earlier charge failed. Nothing is paid then, and no further charge is accepted.

  std::vector<Receipt> charge(std::span<const Charge> charges);

  /// The proved epsilon of all charges so far, at the target delta.
  const PrivacyAnswer& spent() const noexcept { return spent_; }
  std::uint64_t releases() const noexcept { return releases_; }
  bool exhausted() const noexcept { return exhausted_; }

  /// The hash of the "open" line, which covers all of its contents.
  const std::string& first_hash() const noexcept { return first_hash_; }

  /// Writes the "close" line.
  /// \param status  "completed", "budget_exhausted", ...
  /// \param files  an object: the SHA-256 of each file that the run has written, by its name.
  void close(const std::string& status, std::uint64_t steps_done, const nlohmann::json& files);
  void close(const std::string& status, std::uint64_t steps_done);

 private:
  PrivacyAnswer ask() const;
  nlohmann::json first_line(const nlohmann::json& facts) const;
  nlohmann::json take_up(std::string_view text, const LedgerReopening& again);
  PrivacyAnswer as_ahead(PrivacyAnswer spent) const;

  Budget budget_;
  Accountant& accountant_;
  std::string accountant_name_;
  PrivacyAnswer spent_;
  std::uint64_t releases_ = 0;
  HashChain chain_;
  std::string first_hash_;
  bool exhausted_ = false;
  bool broken_ = false;
  AppendOnlyFile file_;
  std::vector<Receipt> in_hand_;
};

}  // namespace privgrad::core
