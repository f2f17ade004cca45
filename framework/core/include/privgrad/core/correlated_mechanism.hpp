#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "privgrad/core/correlated_recipes.hpp"
#include "privgrad/core/ledger.hpp"
#include "privgrad/core/random_key.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// Turns bounded sums into released values by recipes that share data and noise between steps.
///
/// Memory: the running sum s in double precision, and in single precision the noise z of every
/// earlier step that a later one continues; of a tree, one for each complete block that the next
/// release is made of. Neither drifts: s is never subtracted from, and each z is a sum of at most
/// as many terms as blocks. Time: the normals of the step's nodes, and one pass over what it reads.
class CorrelatedMechanism {
 public:
  /// \param recipes  must outlive this.
  /// \param executor  makes a release in parallel: the same for any number of threads.
  CorrelatedMechanism(const CorrelatedRecipes& recipes, RandomKey noise_key, Executor& executor);

  /// \param receipt  proof of payment for the step that follows the last one; used up.
  /// \param divisor  a constant of the plan, > 0.
  /// \throws PrivacyError if the receipt is for another step or for other noise, or if the bound or
  ///   the length of the sum is not that of the first one: noise of earlier steps fits no other.
  Released release(Bounded sum, Receipt receipt, double divisor);

  /// For comparisons without privacy: the same sums of data, exact.
  Released release_without_noise(Bounded sum, double divisor);

  /// What it holds between two steps.
  std::size_t memory_bytes() const;

 private:
  struct KeptNoise {
    std::uint64_t step = 0;
    double carried = 1.0;  // K(step, now)
    std::vector<float> z;
  };
  void check(const Bounded& sum, double divisor);
  std::vector<float> take_buffer(std::size_t size);
  void forget(std::uint64_t step);

  const CorrelatedRecipes& recipes_;
  RandomKey noise_key_;
  Executor& executor_;
  NoiseVariance variance_;
  std::uint64_t next_step_ = 0;
  double l2_bound_ = 0.0;
  std::vector<double> sum_;  // s
  std::vector<KeptNoise> kept_;
  std::vector<std::vector<float>> spare_;  // buffers to be used again
};

}  // namespace privgrad::core
