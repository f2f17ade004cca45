// Tests during a run whether the sampler's batches follow the law that they are charged by.
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

/// The law by which a batch must be drawn, according to the charge of its step.
struct SamplingLaw {
  enum class Kind {
    any = 1,              ///< Nothing about the draw lowers the cost: every batch is paid for.
    poisson,              ///< Each row by a coin of its own, in the steps that are its own.
    without_replacement,  ///< `size` of `rows`, each such set as likely as any other.
    once,                 ///< One release pays for several steps: a row is in one of them at most.
    allocated,            ///< Each row is in one step of an epoch, which it drew by itself.
  };
  Kind kind = Kind::any;
  double rate = 0.0;                 ///< For each row; poisson, without_replacement.
  std::uint64_t rows = 0, size = 0;  ///< without_replacement.
  /// poisson, once, allocated: the steps that are paid for together.
  std::uint64_t first = 0, last = 0;
  /// allocated, poisson: of a whole epoch or cycle; the last one may have fewer.
  std::uint64_t steps = 0;
};

/// Reads the law of a step off what was charged for it: poisson_sampled and
/// sampled_without_replacement say it, the former also for the steps behind it that cost nothing
/// (Sampler::charges(): row i is in the step i mod `steps` of a cycle, or in none). A cost that is the release of one of the steps that it pays
/// for, its own and those behind it that cost nothing, is parallel composition, and holds where no
/// row is in two of them. random_allocation is for its own step and those behind it that cost
/// nothing. Any other cost claims nothing about the draw that could be looked for.
/// \param step  below charges.size().
SamplingLaw sampling_law(std::span<const Charge> charges, std::uint64_t step);

/// A count, step by step, against the law that it is said to have: at each step, given all that was
/// before, it is Bin(trials, rate), or a sum of indicators of that mean that are negatively
/// associated (as those of a draw without replacement are: Joag-Dev and Proschan 1983).
///
/// For every lambda, L_t = exp(sum lambda count - trials ln(1 + rate (exp(lambda) - 1))) is then a
/// supermartingale that begins at 1, whatever decides about trials and rates before the draw. So
/// the probability that L ever reaches 1 / alpha, at any step of a run of any length, is at most
/// alpha (Ville 1939; Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid
/// inference"). Here lambda is one of +-2^-8 ... +-2^2, and each has an equal share of alpha.
class CountLaw {
 public:
  static constexpr std::size_t kBets = 22;

  void add(double trials, double rate, double count);
  /// \param evidence  ln(1 / alpha), > 0.
  /// \returns whether what was added is evidence against the law, at the level alpha.
  bool is_refuted(double evidence) const;

  const std::array<double, kBets>& log_wealth() const noexcept { return log_wealth_; }
  void set_log_wealth(std::span<const double, kBets> values);

 private:
  std::array<double, kBets> log_wealth_{};
};

/// Holds the batches of a run against the law that they are accounted by, and ends a run whose
/// sampler keeps to another one. Looked at are, of draws by coins (and, but for the sizes, which are
/// then fixed, of draws without replacement):
///   - the sizes, all together: batches that are larger or smaller than they may be;
///   - whether a size is odd, which with coins it is half of the time: batches of a fixed size;
///   - that no batch is one of the first 2^18, where chance makes none so: coins of few random bits;
///   - rows that come again: how many of those drawn lately are drawn now, against the same number of
///     coins. With batches that are cut from a permutation none does, and with repeated ones all do;
///   - every row: how often it was drawn. One that is favoured, or never drawn;
///   - in cycles, that every row is drawn in its own step alone.
/// For batches that are charged together: that no row is in two of them.
///
/// Of an epoch of t steps in which each row drew its own: given all batches before step j, 0 <= j <
/// t, each row that was in none of them is in this one by a coin of 1 / (t - j) of its own. Looked at
/// are
///   - rows that are in two batches of an epoch, or, once it is over, in none: neither can be;
///   - the sizes, whether they are odd, and whether a batch is an earlier one, by those coins;
///   - rows that come together again: go through the rows by number, and let the first that is drawn
///     have been in batch o of the epoch before. How many behind it that were in o, too, are drawn
///     now, is then a matter of their own coins. With the batches of an old epoch, in whatever order,
///     all of them are. With batches of one row none is, and nothing is seen. A watch that was
///     restored begins with a new epoch.
///
/// False alarms: a sampler that keeps to the law, on whatever data, ends the run with a probability
/// of at most kFalseAlarm, over all steps of the run together, since each of the five looks has a
/// fifth of that and each row an equal share of its look's (see CountLaw). Of two batches that are
/// compared, the later one is the earlier one with probability 2^-kBitsOfABatch at most, whatever the
/// earlier one is: in a run of at most 2^32 steps, 2^-90 altogether. The draws are
/// independent of the data's values, and so is what ends a run. That an end can follow from the
/// coins, which are secret, moves the distribution of what is released by at most kFalseAlarm: at
/// most (1 + exp(epsilon)) kFalseAlarm more of delta, which no statement counts, as none counts the
/// advantage against the cipher.
///
/// Not detected: a sampler that looks right in all five ways, and a fault of few draws: a row
/// that is never drawn is noticed after about 70 expected draws, one that is always drawn after
/// about 70 / ln(1 / rate) steps.
///
/// Memory: 5 bytes a row; of epochs in which rows draw their steps 12, and 8 for each step; 200 for
/// each step of a cycle; some 130 for each batch that later ones are compared with. Threads: calls
/// never overlap.
class SamplingWatch {
 public:
  static constexpr double kFalseAlarm = 0x1p-64;
  /// Batches with fewer random bits than that are not compared with earlier ones.
  static constexpr double kBitsOfABatch = 140.0;
  /// Batches that later ones are compared with.
  static constexpr std::size_t kMostBatches = std::size_t{1} << 18;

  /// \param charges  the charges of the steps, in order; must outlive this.
  /// \param sampler  the sampler's name, for errors.
  SamplingWatch(std::span<const Charge> charges, std::string sampler);

  /// \param step   below the number of charges; each once, in order, from anywhere on.
  /// \param rows   how many there are to draw from, the same in every step.
  /// \param batch  the rows as drawn.
  /// \throws PluginError for a row that does not exist or is named twice, and for batches that do
  ///   not follow their law. It names no row and no size, which are private.
  void check(std::uint64_t step, std::size_t rows, std::span<const std::uint32_t> batch);

  /// Saves the evidence from the sizes of batches and from rows that came again, and the rows of
  /// batches that are charged together. How often each row was drawn by secret coins, and which
  /// batches there were, is left out: whoever found it would know who took part. So these watches
  /// begin anew when they are restored; restored n times, it raises a false alarm with a probability of at most (n + 1)
  /// kFalseAlarm.
  void save(StateWriter& out) const;
  /// \throws IoError
  void restore(StateReader& in);

  /// The number of steps that were tested against a law.
  std::uint64_t batches() const noexcept { return batches_; }

 private:
  /// Limits on how often any one row may have been drawn by now; all rows share the cost of the
  /// bets.
  struct Limits {
    double least = 0.0, most = 0.0;
  };

  /// Rows that have the same steps of a cycle as their own; without cycles all of them.
  struct Group {
    std::array<double, CountLaw::kBets> price{};  // of the bets on a row so far, the same for each
    double checked_least = -1.0;                  // its rows were drawn more often than this
    std::size_t in_window = 0;                    // of lately_
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
  SamplingLaw law_;  // of the last step
  CountLaw sizes_, odd_, returns_;
  std::unordered_set<std::string> batches_before_;  // their hashes
  std::vector<std::uint32_t> drawn_;                // [rows]: in how many batches
  std::vector<bool> lately_;      // [rows]: in a batch since its group's window began
  std::vector<Group> groups_{1};  // row i is in group i modulo their number
  // Of epochs that are drawn: each row's step, or kNotYet; the rows before by their steps.
  std::vector<std::uint32_t> step_of_, rows_before_;
  std::vector<std::uint32_t> step_before_;  // [rows]
  std::vector<std::size_t> begins_before_;  // [steps + 1], of each step in rows_before_
  std::size_t not_yet_ = 0;
};

}  // namespace privgrad::core
