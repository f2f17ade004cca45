// Spot checks during a run: does a sampled example contribute what it should, and no more?
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The check of one example's contribution to a step's sum.
///
/// A check that ends a run proves that a component is faulty, whatever the example is. It is exact
/// in integers or bits, so no data can make an honest program fail: each check tests what a program
/// promises for every example (ExactClipping, ReproducibleRows), or what a clipping promises.
///   - The cells that went into the sum are as long as they were certified to be, in 128 bits, and
///     no longer than the bound.
///   - The sum moved by these cells, and by those of the others in the pass, and by nothing else.
///   - The example's norms, cells and length are the same, bit for bit, in a pass of its own.
///   - The clipping gives the same factors for the same norms.
///   - Of a program that gives rows and promises their bits: the row is the same alone.
/// A difference from gradient_rows() by more than rounding (a sixty-fourth of the bound) or,
/// without a promise of bits, in any bit is no such proof, and is only reported.
///
/// Threads: belongs to one sum.
struct ContributionCheck {
  std::size_t place = 0;      ///< In the batch.
  std::string_view program;   ///< The program's name, for errors.
  std::string_view clipping;  ///< The clipping's name, for errors.
  bool differs = false;       ///< out.
};

/// Draws the steps and examples of a run to check, and counts the results: one step in each
/// kPeriod, and in it one example, drawn by a key that no plugin sees. Whether a step is checked
/// depends on the key and its number alone, so the counts may be shown, and results are the same
/// with checks and without.
///
/// Threads: calls never overlap.
class ContributionChecks {
 public:
  /// A step that is checked takes up to three times as long, by the size of the batch: so a
  /// hundredth of the time of a run's steps is not reached (bench/README.md).
  static constexpr std::uint64_t kPeriod = 256;

  /// \param key  the run's key; a key for this purpose is derived from it.
  /// \param program, clipping  names for errors.
  ContributionChecks(const RandomKey& key, std::string program, std::string clipping);

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
  std::optional<std::uint64_t> block_;  // that position_ and draw_ are of
  std::uint64_t position_ = 0;
  std::uint64_t draw_ = 0;
  std::uint64_t made_ = 0, differences_ = 0;
};

/// The check of a program whose rows are summed: its row alone, and among those that it was computed
/// with.
/// \param batch  the batch as it was summed.
/// \throws PluginError as ContributionCheck says.
void check_row(const Program& program, const Dataset& data, std::span<const std::uint32_t> batch,
               ContributionCheck& check);

}  // namespace privgrad::core
