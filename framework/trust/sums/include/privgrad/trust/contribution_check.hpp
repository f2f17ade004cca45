// Spot checks during a run: do sampled examples contribute what they should, and no more?
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

/// The check of some examples' contributions to a step's sum: a drawn one, and others that the
/// program computes beside it.
///
/// A check that ends a run proves that a component is faulty, whatever the examples are. It is exact
/// in integers or bits, so no data can make an honest program fail: each check tests what a program
/// promises for every example (ExactClipping, ReproducibleRows), or what a clipping promises.
///   - The cells that went into the sum are as long as they were certified to be, in 128 bits, and
///     no longer than the bound.
///   - The sum moved by these cells, and by those of the others in the pass, and by nothing else.
///   - Each example's norms, cells and length are the same, bit for bit, in a pass of its own.
///   - Where all of the pass is looked at: all its norms, lengths and its sum are the same, bit for
///     bit, when it is made again.
///   - The clipping gives the same factors for the same norms.
///   - Of a program that gives rows and promises their bits: each row is the same alone.
/// A difference from gradient_rows() by more than rounding (a sixty-fourth of the bound) or,
/// without a promise of bits, in any bit is no such proof, and is only reported.
///
/// Threads: belongs to one sum.
struct ContributionCheck {
  /// The most examples beside the drawn one.
  static constexpr std::size_t kOthers = 7;

  std::size_t place = 0;                ///< In the batch.
  std::vector<std::uint64_t> others{};  ///< Random; examples_of() makes places of them.
  bool is_of_all = false;               ///< Of all examples that are computed beside it.
  std::string_view program;             ///< The program's name, for errors.
  std::string_view clipping;            ///< The clipping's name, for errors.
  bool differs = false;                 ///< out.
};

/// The examples that are looked at among those that are computed together, counted from the first
/// of them: ascending, each once, the drawn one among them.
/// \param first, rows  the places in the batch of those that are computed together.
std::vector<std::size_t> examples_of(const ContributionCheck& check, std::size_t first,
                                     std::size_t rows);

/// Draws the steps and examples of a run to check, and counts the results: one step in each period,
/// and in it one example, and one more for each 64 of the batch, drawn by a key that no plugin sees.
/// Whether a step is checked depends on
/// the key and its number alone, so the counts may be shown, and results are the same with checks
/// and without.
///
/// Threads: calls never overlap.
class ContributionChecks {
 public:
  /// The longest period: of runs whose looks take less than a hundredth of their time
  /// (bench/README.md).
  static constexpr std::uint64_t kLongestPeriod = 256;
  /// Every run that is not ended early has at least so many looks, or one in each step.
  static constexpr std::uint64_t kLeastLooks = 16;
  /// Of so many looks in a row, one is at all of a pass.
  static constexpr std::uint64_t kLooksToAll = 16;

  /// \param key    the run's key; a key for this purpose is derived from it.
  /// \param steps  that are planned.
  /// \param program, clipping  names for errors.
  ContributionChecks(const RandomKey& key, std::uint64_t steps, std::string program,
                     std::string clipping);

  /// Steps in each of which one is looked at: a function of the planned number of steps.
  std::uint64_t period() const noexcept { return period_; }

  /// \returns the check of a step; nothing: there is none in this step, or the batch is empty. Valid
  ///   as long as this is.
  std::optional<ContributionCheck> draw(std::uint64_t step, std::size_t batch_size);

  /// Saves the counts. The drawn steps follow from the key, which tells nothing about rows.
  void save(StateWriter& out) const;
  void restore(StateReader& in);

  /// Takes note of what draw() gave, once the sum is made.
  void add(const ContributionCheck& check) noexcept { differences_ += check.differs ? 1 : 0; }

  /// The steps that were drawn, those with empty batches too: public.
  std::uint64_t made() const noexcept { return made_; }
  /// The number of these steps whose check found a difference: private.
  std::uint64_t differences() const noexcept { return differences_; }

 private:
  RandomKey key_;
  std::string program_, clipping_;
  std::uint64_t period_;
  std::uint64_t look_at_all_;           // number modulo kLooksToAll
  std::optional<std::uint64_t> block_;  // that the next three are of
  std::uint64_t position_ = 0;
  std::uint64_t draw_ = 0;
  std::vector<std::uint64_t> others_;
  std::uint64_t made_ = 0, differences_ = 0;
};

/// The check of a program whose rows are summed: rows alone, and among those that they were computed
/// with.
/// \param batch  the batch as it was summed.
/// \throws PluginError as ContributionCheck says.
void check_row(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
               ContributionCheck& check);

}  // namespace privgrad::core
