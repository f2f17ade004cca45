// The interface of samplers: which examples each step uses, and how that choice is charged.
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

/// The facts that are available to a sampler when the run is planned: only public values.
struct SamplingPlan {
  std::uint64_t dataset_size = 0;  ///< The public number of training examples, > 0.
  std::uint64_t steps = 0;         ///< > 0.
  Adjacency adjacency = Adjacency::add_or_remove_one;
  /// schedules.batch_size: the expected batch size of every step, each in (0, dataset_size]. Empty
  /// if the sampler's own parameters determine the batch size. Valid only during start().
  std::span<const double> batch_sizes = {};
};

/// Chooses the examples of each step, and states how that choice is charged.
///
/// Both answers come from one object, so that the sampler that is charged is the sampler that the
/// run uses. Threads: calls on one instance never overlap.
///
/// Example: each row is drawn by its own fair coin, and every step is charged in full. Without a
/// claim of amplification this is an upper bound, because the coins do not depend on the data.
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

  /// Called first, and again with other batch sizes while they are being calibrated.
  /// \throws ConfigError if the parameters do not fit the plan.
  virtual void start(const SamplingPlan& plan) = 0;

  /// The divisor of the step's noisy sum, > 0: a constant of the plan, never the actual batch size.
  /// If the plan has batch_sizes, the divisor is the step's size, exact or rounded down. A sampler
  /// that sets its own size at every step may ignore batch_sizes: the core notices this from the
  /// return value.
  virtual double expected_batch_size(std::uint64_t step) const = 0;

  /// Turns the releases (the event of each step's noise on its own batch) into the cost of each
  /// step for the whole data set.
  ///
  /// A "poisson_sampled" event followed by c - 1 free steps pays for a cycle of c steps: row i may
  /// be drawn only in step i mod c of the cycle, counted from 0, by a coin with that probability.
  /// All cycles of a run are alike, and the last one may be cut short; under add_or_remove_one,
  /// where rows change their numbers, there are no such cycles. The core checks that the batches
  /// follow this rule.
  /// \returns as many events as `releases`; composed in order, any first k of them bound the cost
  ///   of the first k steps. Event::nothing() if an earlier charge covers the step.
  /// \throws PrivacyError if nothing is proved for this sampler under the plan's adjacency.
  virtual std::vector<Event> charges(std::span<const Event> releases) const = 0;

  /// Draws the batch of a step. Steps come in order, but a resumed run may begin at any step.
  /// \param rows  the actual number of training examples.
  /// \param random  streams of this sampler; use indices that follow from `step`. The streams stay
  ///   the same within an epoch that is charged as "random_allocation", and may otherwise change at
  ///   each step.
  /// \param batch  out: row numbers below `rows`; may be empty.
  /// \throws ConfigError if the proof does not hold for `rows` examples and the sizes of start().
  virtual void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
                      std::vector<std::uint32_t>& batch) = 0;

 protected:
  Sampler() = default;
};

/// Optional ability of a sampler: the steps in which each row takes part can be fixed in advance,
/// as the accounting of releases with correlated noise requires.
///
/// Such a sampler promises that its batches follow only from row numbers and random streams, and
/// that under the plan's adjacency neighbouring data sets have the same rows in the same order,
/// except for the one row in which they differ. Then it is enough to prove the guarantee of the run
/// for the order that was drawn: a mixture over orders, with the same weights for both neighbours,
/// has no larger hockey-stick or Renyi divergence than the worst of these orders (joint
/// quasi-convexity: van Erven and Harremoes 2014, Theorem 13), and here every order meets the
/// target. The order need not be secret.
class PRIVGRAD_API PublicOrder {
 public:
  virtual ~PublicOrder();

  /// Rows that are in the same batches in all steps of the plan form a group.
  /// \returns the number of groups, in [1, 2^32); the number of rows if each row forms its own
  ///   group.
  /// \throws PrivacyError if nothing is proved under the plan's adjacency.
  virtual std::uint64_t groups() const = 0;

  /// \returns the group of a row, below groups().
  virtual std::uint32_t group_of(std::uint32_t row) const = 0;

  /// Finds the groups whose rows sample() draws in this step from the same random source.
  /// \param members  out: distinct numbers below groups().
  virtual void groups_in(std::uint64_t step, const RandomSource& random,
                         std::vector<std::uint32_t>& members) = 0;
};

}  // namespace privgrad
