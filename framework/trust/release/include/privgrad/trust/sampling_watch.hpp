// Tests during a run whether the sampler's batches follow the law for which they are charged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The law that a batch must follow, according to the charge of its step.
struct SamplingLaw {
  enum class Kind {
    any = 1,              ///< The draw does not lower the cost: each batch is paid in full.
    poisson,              ///< Each row is drawn by its own coin, in the steps assigned to it.
    without_replacement,  ///< A set of `size` of `rows` is drawn, each with the same probability.
    once,                 ///< One release pays for several steps; each row is in at most one.
    allocated,            ///< Each row is in one step of an epoch, drawn independently for each
                          ///< row.
  };
  Kind kind = Kind::any;
  double rate = 0.0;                 ///< Per row; only poisson, without_replacement.
  std::uint64_t rows = 0, size = 0;  ///< without_replacement.
  /// Only poisson, once, allocated: the first and last of the steps that are paid together.
  std::uint64_t first = 0, last = 0;
  /// Only allocated, poisson: the length of a full epoch or cycle; the run's last may be shorter.
  std::uint64_t steps = 0;
};

/// Reads a step's law from its charge. poisson_sampled and sampled_without_replacement state it;
/// poisson_sampled also covers the following steps that cost nothing (Sampler::charges(): row i
/// belongs to step i mod `steps` of a cycle, or to none). A cost equal to the release of a step
/// that it pays for (its own, or a following step that costs nothing) is parallel composition,
/// which requires that no row is in two of these steps. random_allocation covers its own step and
/// the following steps that cost nothing. Any other cost makes no testable claim about the draw.
/// \param step  below charges.size().
SamplingLaw sampling_law(std::span<const Charge> charges, std::uint64_t step);

/// Whether the steps cost less because the choice of their examples is secret. Otherwise the order
/// may be public, and a sampler may draw it for many steps at once.
bool rest_on_secret_draws(std::span<const Charge> charges);

/// Whether some charge is for a whole epoch, in which each row draws its step.
bool draw_epochs(std::span<const Charge> charges);

/// Tests a count, step by step, against its claimed law: at each step, given the past, it is
/// Bin(trials, rate), or a sum of negatively associated indicators with that mean (as in a draw
/// without replacement: Joag-Dev and Proschan 1983).
///
/// For every lambda, L_t = exp(sum (lambda count - trials ln(1 + rate (exp(lambda) - 1)))) is then
/// a supermartingale that begins at 1, however trials and rates are chosen before the draw. So the
/// probability that L ever reaches 1 / alpha, at any step of a run of any length, is at most alpha
/// (Ville 1939; Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid inference").
/// Here lambda is one of +-2^-8 ... +-2^2, each with an equal share of alpha.
class CountLaw {
 public:
  static constexpr std::size_t kBets = 22;

  void add(double trials, double rate, double count);
  /// \param evidence  ln(1 / alpha), > 0.
  /// \returns whether the counts so far refute the law at the level alpha.
  bool is_refuted(double evidence) const;

  const std::array<double, kBets>& log_wealth() const noexcept { return log_wealth_; }
  void set_log_wealth(std::span<const double, kBets> values);

 private:
  std::array<double, kBets> log_wealth_{};
};

/// Tests the batches of a run against the law for which they are accounted, and ends a run whose
/// sampler follows another law. For draws by coins (and for draws without replacement, except their
/// sizes, which are fixed) it tests
///   - the sum of all sizes: detects batches that are too large or too small;
///   - whether a size is odd, as about half of the sizes should be with coins: detects batches of a
///     fixed size;
///   - that no batch equals one of the first 2^18, where chance makes that negligible: detects
///     coins from too few random bits;
///   - repeated rows: the number of recently drawn rows that are drawn now, compared with the same
///     number of coins. In batches cut from a permutation no row repeats, in repeated batches all
///     do;
///   - how often each row was drawn: detects rows that are favoured or never drawn;
///   - in cycles, that every row is drawn only in its own step.
/// For batches that are charged together, it tests that no row is in two of them.
///
/// In an epoch of t steps in which each row draws its step, the following holds: given all batches
/// before step j, 0 <= j < t, each row that was in none of them is in batch j by its own coin of
/// probability 1 / (t - j). The tests are
///   - that no row is in two batches of an epoch, and none is missing at its end;
///   - the sizes, their parity, and whether a batch repeats an earlier one, by the same
///     coins;
///   - whether rows stay together: let o be the batch that contained the first drawn row in the
///     previous epoch. Whether later rows that were also in o are drawn now depends on their own
///     coins. If the batches of an old epoch are repeated in any order, all of them are drawn.
///     Batches of one row reveal nothing here. A restored watch begins with a new epoch.
///
/// False alarms: a sampler that follows the law, on any data, ends the run with probability at most
/// kFalseAlarm over all steps together, because each of the five tests of counts gets a fifth of
/// it, and each row an equal share of its test's part (see CountLaw). A later batch equals a given
/// earlier batch with probability at most 2^-kBitsOfABatch: in a run of at most 2^32 steps, 2^-90
/// altogether. The draws, and so the end of a run, are independent of the data's values. But an end
/// depends on the secret coins, which changes the distribution of the releases by at most
/// kFalseAlarm, that is, adds at most (1 + exp(epsilon)) kFalseAlarm to delta. Statements of
/// epsilon and delta include neither this nor the advantage of an attack on the cipher.
///
/// Not detected: a sampler that passes all five tests, and faults that affect few draws: a row that
/// is never drawn is noticed after about 70 expected draws, and a row that is always drawn after
/// about 70 / ln(1 / rate) steps.
///
/// Memory: 5 bytes per row; in epochs in which rows draw their steps 12, and 8 per step; 200 per
/// step of a cycle; some 130 for each batch that is kept for comparison. Threads: calls must not
/// overlap.
class SamplingWatch {
 public:
  static constexpr double kFalseAlarm = 0x1p-64;
  /// Batches with fewer random bits are not compared with earlier ones.
  static constexpr double kBitsOfABatch = 140.0;
  /// The most batches that are kept for comparison.
  static constexpr std::size_t kMostBatches = std::size_t{1} << 18;

  /// \param charges  the charges of the steps, in order; must outlive this.
  /// \param sampler  the sampler's name, for errors.
  SamplingWatch(std::span<const Charge> charges, std::string sampler);

  /// \param step  below the number of charges; each once, in order, starting anywhere.
  /// \param rows  the number of rows to draw from, the same in every step.
  /// \param batch  the rows as drawn.
  /// \throws PluginError for a row that does not exist or is named twice, and for batches that do
  ///   not follow their law. The message names no row and no size, which are private.
  void check(std::uint64_t step, std::size_t rows, std::span<const std::uint32_t> batch);

  /// Saves the evidence from batch sizes and from repeated rows, and the rows of batches that are
  /// charged together. It does not save how often secret coins drew each row, nor the batches,
  /// because these would reveal who took part; the corresponding tests begin anew after restore().
  /// A watch that is restored n times raises a false alarm with probability at most (n + 1)
  /// kFalseAlarm.
  void save(StateWriter& out) const;
  /// \throws IoError for an invalid state.
  void restore(StateReader& in);

  /// The number of steps tested against a law.
  std::uint64_t batches() const noexcept { return batches_; }

 private:
  /// Limits on the number of times that a row of a group may have been drawn so far. They hold for
  /// all rows of the group, because bets on each row have the same price.
  struct Limits {
    double least = 0.0, most = 0.0;
  };

  /// Rows that belong to the same step of a cycle; without cycles, all rows.
  struct Group {
    // The price of all bets on a row so far, the same for each row.
    std::array<double, CountLaw::kBets> price{};
    double checked_least = -1.0;  // at the last check, each row was drawn more often
    std::size_t in_window = 0;    // number of rows in lately_
  };

  void check_draw(std::uint64_t step, const SamplingLaw& law, std::span<const std::uint32_t> batch);
  void check_sizes(std::uint64_t step, std::size_t rows, double rate, std::size_t size);
  void check_is_new(std::uint64_t step, double bits, std::span<const std::uint32_t> batch);
  void check_returns(std::uint64_t step, std::size_t group, double rate,
                     std::span<const std::uint32_t> batch);
  void check_rows(std::uint64_t step, std::size_t group, double rate,
                  std::span<const std::uint32_t> batch);
  void check_once(const SamplingLaw& law, std::span<const std::uint32_t> batch);
  void check_allocated(std::uint64_t step, std::span<const std::uint32_t> batch);
  void check_coins(std::uint64_t step, double rate, std::span<const std::uint32_t> batch);
  void check_together(std::uint64_t step, double rate, std::span<const std::uint32_t> batch);
  void end_epoch();
  void restore_epoch(StateReader& in, std::uint64_t first, std::uint64_t last);
  Limits limits_of_a_row(const Group& group) const;
  [[noreturn]] void refuse(std::uint64_t step, const std::string& what) const;
  [[noreturn]] void refuse_epoch(const std::string& what) const;

  std::span<const Charge> charges_;
  std::string sampler_;
  std::uint64_t batches_ = 0;
  std::size_t rows_ = 0;
  SamplingLaw law_;  // the law of the last step
  CountLaw sizes_, odd_, returns_;
  std::unordered_set<std::string> batches_before_;  // hashes of the earlier batches
  std::vector<std::uint32_t> drawn_;                // [rows]: the number of batches that contained
                                                    // it
  std::vector<bool> lately_;      // [rows]: whether it was drawn since its group's window began
  std::vector<Group> groups_{1};  // row i is in group i modulo the number of groups
  // For epochs in which rows draw their steps: each row's step, or kNotYet; the previous epoch's
  // rows sorted by step.
  std::vector<std::uint32_t> step_of_, rows_before_;
  std::vector<std::uint32_t> step_before_;  // [rows]
  // [steps + 1]: the beginning of each step in rows_before_.
  std::vector<std::size_t> begins_before_;
  std::size_t not_yet_ = 0;
};

}  // namespace privgrad::core
