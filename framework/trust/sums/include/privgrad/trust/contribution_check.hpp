// Spot checks during a run of the contributions of sampled examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Checks the contributions that some examples make to a step's sum: one drawn example, and others
/// from the same pass.
///
/// A check that ends a run proves that a component is faulty, independent of the examples. Each
/// check is exact, in integers or bits, and tests what a program (ExactClipping, ReproducibleRows)
/// or a clipping promises for every example, so no data can make a correct component fail.
///   - The cells that went into the sum have exactly their certified length, in 128 bits, and are
///     no longer than the bound.
///   - The pass changed the sum by these cells and the cells of its other examples, and by nothing
///     else.
///   - Each example's norms, cells and length are the same, bit for bit, in a pass of its own.
///   - When a whole pass is checked: repeating it gives the same norms, lengths and sum, bit for
///     bit.
///   - The clipping gives the same factors for the same norms.
///   - If a program returns rows and promises their bits: each row is the same when computed alone.
/// Only reported, because they prove no fault: a difference from gradient_rows() by more than
/// rounding (a sixty-fourth of the bound) and, without a promise of bits, a difference in any bit.
///
/// Threads: belongs to one sum.
struct ContributionCheck {
  /// The most examples that are checked in addition to the drawn one.
  static constexpr std::size_t kOthers = 7;

  std::size_t place = 0;                ///< The drawn example's place in the batch.
  std::vector<std::uint64_t> others{};  ///< Random numbers, from which examples_of() derives
                                        ///< places.
  bool is_of_all = false;               ///< Whether all examples of the pass are checked.
  std::string_view program;             ///< The program's name, for errors.
  std::string_view clipping;            ///< The clipping's name, for errors.
  bool differs = false;                 ///< out: whether a difference that is only reported was
                                        ///< found.
};

/// Returns which of the examples computed together are checked: their numbers, counted from the
/// first of these examples, ascending and without duplicates, including the drawn example.
/// \param first, rows  the place in the batch of the first of these examples, and their number.
std::vector<std::size_t> examples_of(const ContributionCheck& check, std::size_t first,
                                     std::size_t rows);

/// Draws the steps and examples of a run to check, and counts the results. In each period it draws
/// one step, and in it one example and one more for each 64 examples of the batch, at most kOthers
/// more, with a key that no plugin sees. Whether a step is checked depends only on the key and the
/// step's number, so the number of checks may be shown, and results do not depend on the checks.
///
/// Threads: calls must not overlap.
class ContributionChecks {
 public:
  /// The longest period, at which checks take less than a hundredth of a run's time
  /// (bench/README.md).
  static constexpr std::uint64_t kLongestPeriod = 256;
  /// Every run that is not ended early draws at least this many steps, or all steps.
  static constexpr std::uint64_t kLeastLooks = 16;
  /// A whole pass is checked once in this many consecutive checks.
  static constexpr std::uint64_t kLooksToAll = 16;

  /// \param key  the run's key; a key for this purpose is derived from it.
  /// \param steps  the planned number of steps.
  /// \param program, clipping  the names of the program and the clipping, for errors.
  ContributionChecks(const RandomKey& key, std::uint64_t steps, std::string program,
                     std::string clipping);

  /// The length of a period, in steps, in each of which one step is checked. It depends only on the
  /// planned number of steps.
  std::uint64_t period() const noexcept { return period_; }

  /// \returns the check of a step, valid as long as this object; nothing if the step has no check
  ///   or the batch is empty.
  std::optional<ContributionCheck> draw(std::uint64_t step, std::size_t batch_size);

  /// Saves the counts. The drawn steps follow from the key, which does not depend on rows.
  void save(StateWriter& out) const;
  void restore(StateReader& in);

  /// Records the result of a check from draw(), after its sum was made.
  void add(const ContributionCheck& check) noexcept { differences_ += check.differs ? 1 : 0; }

  /// The number of drawn steps, including those with empty batches: public.
  std::uint64_t made() const noexcept { return made_; }
  /// The number of these steps whose check found a difference: private.
  std::uint64_t differences() const noexcept { return differences_; }

 private:
  RandomKey key_;
  std::string program_, clipping_;
  std::uint64_t period_;
  std::uint64_t look_at_all_;           // this one of every kLooksToAll blocks is checked in full
  std::optional<std::uint64_t> block_;  // the block to which the next three members belong
  std::uint64_t position_ = 0;
  std::uint64_t draw_ = 0;
  std::vector<std::uint64_t> others_;
  std::uint64_t made_ = 0, differences_ = 0;
};

/// Checks a program whose rows are summed: compares rows computed alone with rows computed
/// together.
/// \param batch  the batch as it was summed.
/// \throws PluginError as ContributionCheck says.
void check_row(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
               ContributionCheck& check);

}  // namespace privgrad::core
