// The interface of samplers: which examples each step takes, and how that choice is charged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "privgrad/event.hpp"
#include "privgrad/export.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/random.hpp"

namespace privgrad {

/// The facts that a sampler may use when the run is planned: public values only.
struct SamplingPlan {
  std::uint64_t dataset_size = 0;  ///< The public number of training examples, > 0.
  std::uint64_t steps = 0;         ///< > 0.
  Adjacency adjacency = Adjacency::add_or_remove_one;
  /// schedules.batch_size: the expected batch size of every step, each in (0, dataset_size]; empty
  /// if the sampler's own parameters decide. Valid during start() only.
  std::span<const double> batch_sizes = {};
};

/// Chooses the examples of each step, and states how that choice is charged.
///
/// Both answers come from one object, so the sampler that ran is the sampler that was accounted.
/// Threads: calls on one instance never overlap.
///
/// Example, each row by its own fair coin, with every step charged in full. Without a claim of
/// amplification that is an upper bound, because the coins do not depend on the data.
///
///     void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
///     double expected_batch_size(std::uint64_t) const override {
///       return 0.5 * static_cast<double>(size_);
///     }
///     std::vector<Event> charges(std::span<const Event> releases) const override {
///       return {releases.begin(), releases.end()};
///     }
///     void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
///                 std::vector<std::uint32_t>& batch) override {
///       const auto stream = random.stream(step);
///       batch.clear();
///       for (std::uint32_t row = 0; row < rows; ++row)
///         if (stream->uniform() < 0.5) batch.push_back(row);
///     }
class PRIVGRAD_API Sampler {
 public:
  static constexpr std::string_view kKind = "sampler";
  static constexpr int kInterfaceVersion = 1;
  static constexpr std::string_view kSees = "row numbers";

  virtual ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Called first; again with other batch sizes while they are being calibrated.
  /// \throws ConfigError if the parameters do not fit the plan.
  virtual void start(const SamplingPlan& plan) = 0;

  /// The divisor of the step's noisy sum: a constant of the plan, never the realised batch size.
  /// > 0; with batch_sizes that of the step, or the whole number below it. A sampler that has its
  /// own size at every step need not look at batch_sizes: the core sees here that it does not
  /// follow.
  virtual double expected_batch_size(std::uint64_t step) const = 0;

  /// Turns the releases (the event of each step's noise on its own batch) into what each step costs
  /// the whole data set.
  ///
  /// A "poisson_sampled" whose next c - 1 steps cost nothing pays for a cycle of c steps: row i may
  /// be drawn in the step i mod c of the cycle, counted from 0, by a coin of that probability, and in
  /// no other. All cycles of a run are alike, the last one may be cut off, and under add_or_remove_one,
  /// where rows change their numbers, there is none. The core holds the batches to that.
  /// \returns as many events as `releases`; composed in order, every prefix of them is a bound on
  ///   what the same prefix of steps has spent. Event::nothing() where an earlier charge covers the
  ///   step.
  /// \throws PrivacyError if nothing is proved for this sampler under the plan's adjacency.
  virtual std::vector<Event> charges(std::span<const Event> releases) const = 0;

  /// Draws the batch of a step. Steps come in order, but a resumed run may begin anywhere.
  /// \param rows    the number of training examples that are really there.
  /// \param random  streams of this sampler; use indices that follow from `step`. The streams are
  ///   the same in all steps of an epoch that was charged as "random_allocation", and may change
  ///   with any other step.
  /// \param batch   out: row numbers below `rows`; may be empty, which is a step like any other.
  /// \throws ConfigError if `rows` breaks what start() was told and the proof needs (fixed sizes).
  virtual void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
                      std::vector<std::uint32_t>& batch) = 0;

 protected:
  Sampler() = default;
};

/// Optional ability of a sampler: which rows take part in which step can be fixed in advance.
/// Releases with correlated noise are accounted by it.
///
/// Such a sampler promises: its batches follow from row numbers and random streams alone, and
/// under the plan's adjacency neighbouring data sets have the same rows, apart from the one in
/// which they differ, in the same order. Then the guarantee of the run may be proved for the order
/// that was drawn: a mixture over orders, with the same weights for both neighbours, has no larger
/// hockey-stick or Renyi divergence than the worst of them (joint quasi-convexity: van Erven and
/// Harremoes 2014, Theorem 13), and here each of them meets the target. The order need not be
/// secret.
class PRIVGRAD_API PublicOrder {
 public:
  virtual ~PublicOrder();

  /// Rows that are in the same batches, in all steps of the plan, make up a group.
  /// \returns their number, in [1, 2^32); a sampler that knows no better has a group per row.
  /// \throws PrivacyError if nothing is proved under the plan's adjacency.
  virtual std::uint64_t groups() const = 0;

  /// \returns the group of a row, below groups().
  virtual std::uint32_t group_of(std::uint32_t row) const = 0;

  /// The groups whose rows sample() takes in this step, given the same random source.
  /// \param members  out: distinct numbers below groups().
  virtual void groups_in(std::uint64_t step, const RandomSource& random,
                         std::vector<std::uint32_t>& members) = 0;
};

}  // namespace privgrad
