#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Turns bounded sums into released values by recipes that share data and noise between steps.
///
/// Memory, for each part: the running sum s in double precision, and in single precision the noise
/// z of every earlier step that a later one continues; of a tree, one for each complete block that
/// the next release is made of. Neither drifts: s is never subtracted from, and each z is a sum of
/// at most as many terms as blocks. Time: the normals of the step's nodes, and one pass over what
/// it reads.
class CorrelatedMechanism {
 public:
  /// \param recipes  must outlive this.
  /// \param executor  makes a release in parallel: the same for any number of threads.
  CorrelatedMechanism(const CorrelatedRecipes& recipes, RandomKey noise_key, Executor& executor);

  /// Several sums in each step, noised independently.
  /// \param parts  must outlive this.
  CorrelatedMechanism(std::span<const CorrelatedPart> parts, RandomKey noise_key,
                      Executor& executor);

  /// \param receipt  proof of payment for the step that follows the last one; used up.
  /// \param divisor  a constant of the plan, > 0.
  /// \throws PrivacyError if the receipt is for another step or for other noise, or if the bound or
  ///   the length of the sum is not that of the first one: noise of earlier steps fits no other.
  Released release(Bounded sum, Receipt receipt, double divisor);

  /// \param sums  one for each part that has a release in this step, in the order of the parts. The
  ///   bound of the first is the unit of the parts' bounds, which the others keep to.
  /// \throws PrivacyError also if they do not.
  std::vector<Released> release(std::vector<Bounded> sums, Receipt receipt, double divisor);

  /// For comparisons without privacy: the same sums of data, exact.
  Released release_without_noise(Bounded sum, double divisor);
  std::vector<Released> release_without_noise(std::vector<Bounded> sums, double divisor);

  /// What it holds between two steps.
  std::size_t memory_bytes() const;

 private:
  struct KeptNoise {
    std::uint64_t step = 0;
    double carried = 1.0;  // K(step, now)
    std::vector<float> z;
  };
  struct Part {
    Part(const CorrelatedRecipes& the_recipes, std::uint64_t the_first_step,
         std::span<const double> the_bounds, RandomKey the_key)
        : recipes(the_recipes),
          first_step(the_first_step),
          bounds(the_bounds),
          key(the_key),
          variance(the_recipes) {}
    /// Steps of the recipes.
    double bound(std::uint64_t step) const { return bounds.empty() ? 1.0 : bounds[step]; }
    std::vector<float> take_buffer();
    void forget(std::uint64_t step);

    const CorrelatedRecipes& recipes;
    std::uint64_t first_step;
    std::span<const double> bounds;
    RandomKey key;
    NoiseVariance variance;
    std::vector<double> sum;  // s
    std::vector<KeptNoise> kept;
    std::vector<std::vector<float>> spare;  // buffers to be used again
  };

  void check(std::span<const Bounded> sums, double divisor) const;
  void begin(std::span<const Bounded> sums);
  bool pays_for(const Event& paid, std::uint64_t step) const;
  Released noised(Part& part, std::uint64_t step_of_run, Bounded sum, double divisor);
  Released exact(Part& part, std::uint64_t step_of_run, Bounded sum, double divisor);

  Executor& executor_;
  std::vector<Part> parts_;
  std::uint64_t steps_;
  std::uint64_t next_step_ = 0;
  double unit_ = 0.0;     // the bound of the first sum
  std::size_t size_ = 0;  // of every sum
};

/// What the aggregator makes of the parts of a step: from released and public values alone, so it
/// costs nothing more (post-processing).
/// \param parts  two or three, as CorrelatedMechanism::release() gives them.
/// \param noise_stddev  of the result, as UsesGradientDifferences::combined_noise() says.
Released combined(UsesGradientDifferences& aggregator, std::uint64_t step,
                  std::span<const Released> parts, double noise_stddev);

}  // namespace privgrad::core
