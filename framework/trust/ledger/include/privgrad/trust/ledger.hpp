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

/// Proof that one release was paid for, and for which noise. Only a Ledger makes it, or
/// PaidElsewhere at a process that was told of the payment by the process that holds the ledger;
/// the mechanism takes it back for the release, once.
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

/// The budget of a run. Without a target everything is allowed, and still charged.
struct Budget {
  std::optional<double> target_epsilon;
  double target_delta = 0.0;        ///< In (0, 1).
  bool charges_are_bounds = false;  ///< Charges may exceed the true cost: no answer is then exact.
};

/// One release to be paid for.
struct Charge {
  std::uint64_t step = 0;
  Event release;       ///< The step's noise on its own batch.
  Event cost;          ///< Its cost to the whole data set: the sampler's charge.
  std::string what{};  ///< "" for a training step; else the purpose, which goes into its line.

  bool operator==(const Charge&) const = default;
};

/// The position up to which a ledger has been written.
struct LedgerPosition {
  std::uint64_t lines = 0, bytes = 0;
  std::string last_hash;

  static auto state(auto& self) { return std::tie(self.lines, self.bytes, self.last_hash); }
};

/// The state from which a ledger is taken up again.
struct LedgerReopening {
  LedgerPosition at;
  /// The number of steps charged up to there that had not been made yet: the last ones. Releases
  /// other than steps (Charge::what) are made at once after their charge, and are never in hand.
  std::uint64_t in_hand = 0;
  /// Whether releases that were charged behind `at` are the same again, bit for bit, when they are
  /// made again: same sum, same noise. Such a release tells nothing new and costs nothing more.
  bool may_repeat = false;
};

/// The account book of one run on one private data set: a privacy filter with a memory on disk.
/// It does not contain what other runs on the same data have spent.
///
/// The file holds one JSON object per line: an "open" line with the facts of the run, a "release"
/// line per release with running totals, a "close" line. Each line carries the hash of the line
/// before it and its own (SHA-256), so a line cannot be changed, dropped or reordered without a
/// trace.
///
/// Order: charge() returns only after its lines are on the disk, and the receipts that it returns
/// are what the mechanism needs; so, killed at any instant, the file never shows less than was
/// released. A last line that was cut off by a kill was not yet charged, and nothing was released
/// for it. Threads: calls on one ledger never overlap.
class Ledger {
 public:
  /// \param accountant  started, with nothing composed; guards the budget. Must outlive the ledger.
  /// \param facts       an object with what the "open" line is to say besides the budget.
  /// \throws IoError if the file exists or cannot be written.
  Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
         std::string accountant_name, const nlohmann::json& facts);

  /// Takes up the ledger of a run that was cut off, with all that it has paid for. The lines up to
  /// `again.at` are read, checked, and composed anew. What stands behind them is made again: charge()
  /// and close() compare their lines with those, and write only what is not there. So nothing is
  /// charged twice, and no receipt is given out for what the file does not hold. Epsilons, which
  /// another processor may have proved, are taken from the file within kOfProcessors, and the budget
  /// is wider by that: events decide what is paid.
  ///
  /// The caller answers for `again`: receipts in hand were used for nothing, and with `may_repeat`
  /// whoever gets a receipt again makes the same release again, to the last bit.
  /// \throws PrivacyError if the first line is not what these facts make it, or if releases were
  ///   charged behind the position that may not be repeated; IoError if the file cannot be read or
  ///   its chain is broken.
  Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
         std::string accountant_name, const nlohmann::json& facts, const LedgerReopening& again);

  /// The receipts in hand of a ledger that was taken up again: once.
  std::vector<Receipt> take_receipts_in_hand() { return std::move(in_hand_); }

  /// Whether the file holds lines that are still to be made again.
  bool is_behind() const noexcept { return !file_.ahead().empty(); }

  LedgerPosition position() const {
    return {.lines = chain_.lines(), .bytes = file_.position(), .last_hash = chain_.last_hash()};
  }

  /// Pays for all of `charges` together, or for none of them: the accountant answers before any
  /// value is made. They are paid at once, so each of their lines shows the total with all of them.
  /// After a refusal the ledger accepts no further charge.
  /// \returns a receipt for each charge, in order; nothing if they do not fit in the budget.
  /// \throws PrivacyError if the accountant refuses an event or is an estimate; IoError if the
  ///   lines cannot be brought to the disk. Nothing is paid then, and the ledger accepts no further
  ///   charge.
  std::vector<Receipt> charge(std::span<const Charge> charges);

  /// Epsilon at the target delta of everything paid so far.
  const PrivacyAnswer& spent() const noexcept { return spent_; }
  std::uint64_t releases() const noexcept { return releases_; }
  bool exhausted() const noexcept { return exhausted_; }

  /// The hash of the "open" line, and with it of all that this line says.
  const std::string& first_hash() const noexcept { return first_hash_; }

  /// Writes the "close" line.
  /// \param status  "completed", "budget_exhausted", ...
  /// \param files   an object: the SHA-256 of each file that the run has left, by its name.
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
