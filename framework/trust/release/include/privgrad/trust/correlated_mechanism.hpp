// The mechanism for aggregators whose noise is shared between steps, such as trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/grid.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/slice.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

class ExactPart;

/// The most rows of a batch, because row numbers have 32 bits.
inline constexpr std::uint64_t kMostBatchRows = std::uint64_t{1} << 32;

/// Returns the factor by which exact releases by these parts enlarge their recipes' noise, to make
/// up for rounding when values are not integers (a keep between 0 and 1, a fractional share). It is
/// at least 1, and exactly 1 if all values are integers. Let e bound the effect of rounding in
/// units of the noise (the root of the parts' summed squares; src/exact_part.hpp has the proof).
/// The mechanism's sensitivity S, in the same units, is at least 1 / m, where m is the first part's
/// largest noise multiplier, because a unit moves the release of its own step by that much. With

/// noise enlarged by 1 + m e, the sensitivity becomes (S + e) / (1 + m e) <= S, so the charged cost
/// holds.
/// \param parameters  coordinates of each sum.
/// \param most_rows  the same as for CorrelatedMechanism.
/// \returns a factor, which is below kLargestNoiseFactor for, say, 10^9 parameters and 10^5 steps
///   with a keep of 0.999 and noise multipliers up to 8; the plan refuses larger factors.
double exact_noise_factor(std::span<const CorrelatedPart> parts, std::size_t parameters,
                          std::uint64_t most_rows = kMostBatchRows);

inline constexpr double kLargestNoiseFactor = 1.0 + 1e-6;

/// Turns bounded sums into released values by recipes that share data and noise between steps.
///
/// Sums on a grid are released exactly (ExactPart): each release of whole recipes is one rounded
/// Gaussian of the joint variance of the step's new noise terms, added to whole numbers. Sums in
/// floating point (`arithmetic: float`) exist for comparison. All sums of a run are of one kind.
///
/// Memory of each part of an exact run, per coordinate: 8 bytes for the running sum, and 8 bytes
/// for every earlier step that a later one continues (in a tree, for each complete block in the
/// next release). If a keep or share is not an integer, these are 8 and 12 bytes (for the largest
/// runs, 16 and 20), and in floating point 8 and 4. A step takes the time to draw its normals and
/// to pass over this memory once.
class CorrelatedMechanism {
 public:
  /// \param recipes  must outlive this.
  /// \param executor  makes a release in parallel, with the same bits for any number of threads.
  /// \param most_rows  the most examples in the sum of a step, a public number: exact running sums
  ///   reserve room for that many contributions of the largest norm in every step that they
  ///   remember. A smaller number leaves more digits.
  CorrelatedMechanism(const CorrelatedRecipes& recipes, RandomKey noise_key, Executor& executor,
                      std::uint64_t most_rows = kMostBatchRows);

  /// Releases several sums in each step, with independent noise.
  /// \param parts  must outlive this.
  /// \param slice  the slice of every sum that this object receives and keeps. It releases the same
  ///   values for this slice as an object for whole sums would. If absent: whole sums.
  CorrelatedMechanism(std::span<const CorrelatedPart> parts, RandomKey noise_key,
                      Executor& executor, std::uint64_t most_rows = kMostBatchRows,
                      std::optional<Slice> slice = std::nullopt);
  ~CorrelatedMechanism();

  /// \param receipt  proof of payment for the step after the last one; used up.
  /// \param divisor  a constant of the plan, > 0.
  /// \throws PrivacyError if the receipt is for another step or other noise, or if the sum's bound
  ///   or length differs from the first sum's: the noise of earlier steps would not match.
  Released release(Bounded sum, Receipt receipt, double divisor);

  /// \param sums  one for each part that makes a release in this step, in the order of the parts.
  ///   The parts' bounds are relative to the first sum's bound, and no other sum may exceed its
  ///   part's bound.
  /// \throws PrivacyError as release() above does, and if a sum exceeds its bound.
  std::vector<Released> release(std::vector<Bounded> sums, Receipt receipt, double divisor);

  /// Like release() above, in exact arithmetic.
  /// \throws PrivacyError as above; also for a sum of more cells than its part's bound, or of more
  ///   examples than most_rows.
  Released release(BoundedOnGrid sum, Receipt receipt, double divisor);
  std::vector<Released> release(std::vector<BoundedOnGrid> sums, Receipt receipt, double divisor);

  /// Releases the exact combination of the sums, for comparisons without privacy.
  Released release_without_noise(Bounded sum, double divisor);
  std::vector<Released> release_without_noise(std::vector<Bounded> sums, double divisor);

  /// Draws the new noise of later steps with keys derived from this key and, for each step, from
  /// its payment and bound, as in Mechanism::use_key(). Noise that earlier steps have drawn is
  /// kept.
  void use_key(const RandomKey& noise_key);

  /// The message that lets other processes draw the same noise: as secret as the noise.
  std::string secret_key() const;
  /// \throws IoError for a text that secret_key() did not return.
  void use_secret_key(std::string_view secret_key);

  /// Saves the running sums of private data and all noise that later steps continue: as private as
  /// the rows.
  void save(StateWriter& out) const;
  /// Must be called on a mechanism that has released nothing.
  /// \throws IoError, and PrivacyError as release() does.
  void restore(StateReader& in);

  /// The memory in use between two steps, in bytes.
  std::size_t memory_bytes() const;

 private:
  struct KeptNoise {
    std::uint64_t step = 0;
    double carried = 1.0;  // K(step, now)
    std::vector<float> z;

    static auto state(auto& self) { return std::tie(self.step, self.carried, self.z); }
  };
  struct Part {
    Part(const CorrelatedRecipes& the_recipes, std::uint64_t the_first_step,
         std::span<const double> the_bounds, RandomKey the_key);
    ~Part();
    Part(Part&&) noexcept;
    /// \param step  counted from the part's first step.
    double bound(std::uint64_t step) const { return bounds.empty() ? 1.0 : bounds[step]; }
    std::vector<float> take_buffer();
    void forget(std::uint64_t step);

    const CorrelatedRecipes& recipes;
    std::uint64_t first_step;
    std::span<const double> bounds;
    RandomKey key;
    NoiseVariance variance;
    std::unique_ptr<ExactPart> exact;  // used in exact runs; other runs use the members below
    std::vector<double> sum;           // s
    std::vector<KeptNoise> kept;
    std::vector<std::vector<float>> spare;  // buffers for reuse
  };

  template <class Sum>
  void check(std::span<const Sum> sums, double divisor) const;
  template <class Sum>
  std::vector<Released> release_all(std::vector<Sum> sums, const Receipt& receipt, double divisor);
  std::size_t whole_size() const { return slice_ ? slice_->of : size_; }
  void make_exact_parts();
  void draw_with(const RandomKey& key);
  void begin(std::span<const Bounded> sums);
  void begin(std::span<const BoundedOnGrid> sums);
  bool pays_for(const Event& paid, std::uint64_t step) const;
  Released noised(Part& part, std::uint64_t step_of_run, Bounded sum, double divisor);
  Released noised(Part& part, std::uint64_t step_of_run, BoundedOnGrid sum, double divisor);
  Released exact(Part& part, std::uint64_t step_of_run, Bounded sum, double divisor);

  Executor& executor_;
  RandomKey noise_key_;
  bool follows_payment_ = false;  // whether use_key() was called; the arms of a study share the
                                  // constructor's key
  std::vector<Part> parts_;
  std::uint64_t steps_, most_rows_ = kMostBatchRows;
  std::uint64_t next_step_ = 0;
  double unit_ = 0.0;     // the bound of the first sum
  std::size_t size_ = 0;  // the same for every sum
  std::optional<Slice> slice_;
};

/// Returns the aggregator's combination of a step's parts. It uses only released and public values,
/// so it costs nothing (post-processing).
/// \param parts  two or three, as CorrelatedMechanism::release() returns them.
/// \param noise_stddev  noise of the result, from UsesGradientDifferences::combined_noise().
Released combined(UsesGradientDifferences& aggregator, std::uint64_t step,
                  std::span<const Released> parts, double noise_stddev);

}  // namespace privgrad::core
