// The mechanism: releases a sum with the noise that a receipt was issued for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/event.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/grid.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Returns the event of each step's release on its own batch, derived from the recipes that the
/// mechanism will run, so that the charges match the releases.
///
/// Proved here: recipes with independent noise (nothing kept or continued, no node used twice).
/// Each is a Gaussian mechanism with the root of the summed squared multipliers.
/// \throws PrivacyError for recipes that share data or noise between steps: their guarantee depends
///   on participation (CorrelatedPlan).
std::vector<Event> release_events(const Aggregator& aggregator, std::uint64_t steps);

/// Like release_events(), for one step. It does not check that no other step uses the same noise
/// node; Mechanism refuses to use a node twice.
/// \throws PrivacyError as release_events() does.
Event release_event(const Aggregator& aggregator, std::uint64_t step);

/// Paid noise for one step's exact sum. With it, each process can add noise to its slice of the sum
/// (Slices), or a program to the sum on its device (ResidentRun). The process that holds the ledger
/// makes it in exchange for a receipt and sends it to the others. It reveals the sum to anyone who
/// also sees the release, so it travels only where the sums travel (Cluster).
class PaidNoise {
 public:
  /// Returns the message for the other processes, which they read with of().
  std::string secret_text() const;
  /// \throws IoError for a text that secret_text() did not return.
  static PaidNoise of(std::string_view secret_text);

  /// Adds noise to a slice of the sum, with the same bits that Mechanism::release() gives these
  /// elements.
  /// \param part  a slice of a sum on the grid of exact_sum(), with the l2 bound that was paid for.
  /// \param first  the position of the slice's first element in the whole sum.
  /// \throws PrivacyError for a sum on another grid or with another bound.
  Released release(BoundedOnGrid part, std::size_t first, Executor& executor) const;

  /// Standard deviation of the noise in each released coordinate.
  double stddev() const noexcept { return stddev_; }

 private:
  friend class Mechanism;
  friend class ResidentRun;
  explicit PaidNoise(const RandomKey& key) : key_(key) {}
  /// Noise of an earlier step, to be added once more.
  struct Older {
    RandomKey key = RandomKey::from_seed(0);  ///< The key of the stream itself
                                              ///< (RoundedGaussianStream).
    double sigma = 0.0;                       ///< In cells of the sum; may be negative.

    static auto state(auto& self) { return std::tie(self.key, self.sigma); }
  };
  static auto numbers(auto& self) {
    return std::tie(self.node_, self.levels_, self.shift_, self.sigma_, self.l2_bound_, self.width_,
                    self.stddev_);
  }

  RandomKey key_;
  std::uint64_t node_ = 0, levels_ = 0;
  unsigned shift_ = 0;
  double sigma_ = 0.0;  // in cells of the sum
  double l2_bound_ = 0.0, width_ = 0.0, stddev_ = 0.0;
  std::vector<Older> older_;
};

/// Turns bounded sums into released values, each with new noise and, with a window, with noise of
/// the last steps. Only this class, PaidNoise, CorrelatedMechanism and ResidentRun release sums.
///
/// With a window (Aggregator::window()), the keys of the last steps' streams are kept, 32 bytes a
/// step, and their normals are drawn again. The release is round((x + sum_j sigma_j zeta_j) / 2^h),
/// one rounding of an element of N (C X + zeta) (CorrelatedRecipes), and so post-processing of the
/// charged mechanism. Noise and sum are on the grid of exact_sum(), whose levels are a power of
/// two, so that each sigma_j is exactly the multiplier that was accounted.
class Mechanism {
 public:
  /// \param executor  makes the noise of a release in parallel, the same for any number of threads.
  /// \param windowed  the recipes of an aggregator with a window, which the mechanism follows
  ///   without asking the aggregator again; null without a window. Must outlive this.
  Mechanism(const Aggregator& aggregator, RandomKey noise_key, Executor& executor,
            const CorrelatedRecipes* windowed = nullptr);

  /// \param receipt  proof of payment for exactly this noise; used up.
  /// \param divisor  a constant of the plan, > 0, as in release_without_noise(); never the size of
  ///   a batch.
  /// \throws PrivacyError if the receipt is for noise other than the recipe's, if a receipt for
  ///   this or a later step was used before, or if the recipe now names a noise node that was used
  ///   before.
  Released release(Bounded sum, Receipt receipt, double divisor);

  /// Releases a sum on a grid, in integers: one rounded Gaussian of the joint variance of the
  /// recipe's terms (rounded_gaussian.hpp), round((sum + Z) / 2^h) with whole cells 2^h times
  /// coarser than the sum's, where h depends only on the noise (release_shift()). As the sum is
  /// whole, this is a function of the continuous Gaussian mechanism's answer, sum + Z, that is,
  /// post-processing of the charged mechanism. A sum of rounded Gaussians would not be such a
  /// function, so there is one draw for any number of terms.
  ///
  /// The released values are the noised integers times the width of their cells over the divisor,
  /// as floats: rounding them is post-processing, too.
  /// \throws PrivacyError as release() above does; ConfigError for noise of more than
  ///   kLargestRoundedSigma cells.
  Released release(BoundedOnGrid sum, Receipt receipt, double divisor);

  /// Pays for the noise with which release() would release an exact sum (exact_sum()), for
  /// processes that each release a slice of the sum. The step and its nodes are used up.
  /// \param l2_bound  bound of a contribution.
  /// \throws PrivacyError or ConfigError as release() does.
  PaidNoise pay_for_noise(double l2_bound, Receipt receipt, double divisor);

  /// Releases the exact mean, for comparisons without privacy; every output of the run is marked.
  Released release_without_noise(Bounded sum, double divisor);
  Released release_without_noise(BoundedOnGrid sum, double divisor);

  /// Draws the noise of later releases with keys derived from this one and, for each release, from
  /// its payment, the bound of its sum, and the keys and multipliers of the old noise that it adds.
  /// A copied state that continues with different noise at the same step then draws other normals.
  /// With the same normals, scaled by two multipliers or clip norms, the two releases would reveal
  /// the noise; and two different multiples of one older vector would reveal that vector.
  void use_key(const RandomKey& noise_key) {
    noise_key_ = noise_key;
    follows_payment_ = true;
  }

  /// Saves which steps and nodes have been used, and the keys of the window. Together with the
  /// releases, these reveal the last steps' sums up to the noise from before the window, so they
  /// are as private as the rows.
  void save(StateWriter& out) const;
  /// \throws IoError for an invalid state.
  void restore(StateReader& in);

 private:
  /// The grid of a sum.
  struct Cells {
    std::uint64_t levels;
    double width, l2_bound;
  };
  /// A stream that later steps may add once more.
  struct Kept {
    std::uint64_t node = 0;
    RandomKey key = RandomKey::from_seed(0);  ///< The key of the stream itself.

    static auto state(auto& self) { return std::tie(self.node, self.key); }
  };
  PaidNoise rounded_noise(const RandomKey& key, const ReleaseRecipe& recipe, const Cells& cells,
                          double divisor);
  ReleaseRecipe recipe_of(std::uint64_t step) const;
  ReleaseRecipe claim(const Receipt& receipt);

  const Aggregator& aggregator_;
  RandomKey key_of(const Receipt& receipt, double l2_bound, const ReleaseRecipe& recipe) const;

  RandomKey noise_key_;
  /// Whether use_key() was called; if not, a study's arms share this key.
  bool follows_payment_ = false;
  Executor& executor_;
  const CorrelatedRecipes* windowed_;
  std::vector<Kept> kept_;  ///< Streams of the last steps, latest first; as many as the window has.
  std::uint64_t next_step_ = 0;
  /// Checked because an aggregator may answer differently than during planning.
  std::unordered_set<std::uint64_t> used_nodes_;
};

}  // namespace privgrad::core
