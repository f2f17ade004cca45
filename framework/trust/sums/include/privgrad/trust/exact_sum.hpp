// The clipped sum of a batch in whole cells of a grid, whose sensitivity has no rounding error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/grid.hpp"

namespace privgrad::core {

/// Cells of the public grid per clip norm, for everything that is noised with Gaussians. A power of
/// two: positions on the grid are then exact in floating point. With 2^26, rounding a contribution
/// of a million coordinates towards zero shortens it by less than 2e-5 of the clip norm.
inline constexpr std::uint64_t kExactLevels = std::uint64_t{1} << 26;

class ReleaseMemory;

/// Memory that the steps of a run reuse, so that it is allocated once. It belongs to one program
/// and must not outlive it.
struct SumMemory {
  std::unique_ptr<ExactClipping::Pass> pass;
  std::vector<std::unique_ptr<ExactClipping::Pass>> passes_of_one;  ///< For checks of single
                                                                    ///< examples.
  std::size_t microbatch_rows = 0;
  std::vector<float> features, targets;
  std::vector<double> squared_norms, scales;
  std::vector<SquaredLength> lengths;
  std::vector<std::uint8_t> taken;
  std::shared_ptr<ReleaseMemory> of_release;
  std::shared_ptr<const void> lent;  ///< Owned by a sum that is not yet added up; the next pass
                                     ///< invalidates it.
};

/// Returns the sum of the per-example gradients of a batch, each clipped as `clip` says, in whole
/// cells of a grid of kExactLevels per clip norm.
///
/// Sensitivity: one example adds a vector of whole numbers no longer than kExactLevels, and that
/// vector is a function of the example and the parameters alone; removing the example removes
/// exactly that vector. The proof, in docs/exactness.md, needs two things. (1) The length: a
/// contribution that is too long in integer arithmetic is left out (its squared length has 128
/// bits, so nothing wraps). (2) No other contribution changes: sums of integers are not rounded,
/// and the program promises that an example's norms and cells do not depend on the other examples
/// (ExactClipping, ReproducibleRows). Without that promise the plan lists `floating_point`.
///
/// With a count share s the sum is one of the vectors of joint_release.hpp, one element longer: the
/// count's part is +-floor(s kExactLevels) cells, and the gradient's part may use the rest of the
/// squared length.
///
/// An empty batch gives the zero vector. A gradient that is not finite counts as zero. Sums are
/// computed modulo 2^64, which a batch of 2^32 examples does not reach.
/// \param batch  row numbers in `data`, each at most once.
/// \param most_rows  the most rows of a pass; 0: the number that the program prefers. The result
///   does not depend on it.
/// \param memory  reused from step to step; null: allocated for this call.
/// \param unit  the privacy unit to which a row belongs.
/// \param check  checks some contributions without changing the sum; null: no check.
/// \throws ConfigError for a clip norm that check_clip_norm() refuses; PluginError for a row number
///   that is out of range or repeated, if the program has other groups than `clip`, or as
///   ContributionCheck says.
BoundedOnGrid exact_sum(const Program& program, const Dataset& data,
                        std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                        std::size_t most_rows = 0, SumMemory* memory = nullptr,
                        PrivacyUnit unit = PrivacyUnit::example,
                        ContributionCheck* check = nullptr);

/// Returns exact_sum(), for a release that follows immediately. If the program has pieces, the
/// cells of the last pass (or of all examples, if one pass takes the batch) are certified now, but
/// added up piece by piece when noise is added to them: the same integers, but never all in memory.
/// \param memory  holds a part of the sum. Once it is reused for another sum, or destroyed, this
///   sum can no longer be released (PrivacyError). The program must not change until the release.
/// \param check  if not null, the pass with the checked example is added up immediately; in pieces,
///   if it would have been deferred.
/// \throws ConfigError or PluginError as exact_sum() does, also for pieces that do not match.
BoundedOnGrid deferred_exact_sum(const Program& program, const Dataset& data,
                                 std::span<const std::uint32_t> batch, const Clip& clip,
                                 Executor& executor, std::size_t most_rows, SumMemory& memory,
                                 PrivacyUnit unit = PrivacyUnit::example,
                                 ContributionCheck* check = nullptr);

/// Returns how many cells an example's count adds or subtracts: floor(share kExactLevels).
std::uint64_t count_cells(double count_share);

/// Returns the largest integer whose square is at most `square`.
std::uint64_t whole_root(std::uint64_t square);

}  // namespace privgrad::core
