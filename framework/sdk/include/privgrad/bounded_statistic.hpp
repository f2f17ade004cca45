// For transforms that learn from private rows by a noised sum that the core releases and charges.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"
#include "privgrad/params.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad {

/// The noise of a statistic, given in one of two ways; the other member is 0.
struct StatisticNoise {
  double multiplier = 0.0;  ///< Standard deviation over the L2 bound of a contribution, > 0.
  /// Share of the budget, in (0, 1): if z is the multiplier of one Gaussian release that takes the
  /// whole budget, the statistic gets z / sqrt(share). Shares of Gaussian releases add up, since
  /// 1 / z^2 does.
  double share = 0.0;
};

/// A transform's request to the core: the statistic of the training examples to release.
struct StatisticRequest {
  std::string what;       ///< A few words: "means of the features".
  std::size_t size = 0;   ///< Numbers of a contribution, > 0.
  double l2_bound = 0.0;  ///< Each contribution is clipped to this L2 norm; finite, > 0.
  StatisticNoise noise;
};

/// Optional ability of a transform: what it learns of the training examples follows from one sum of
/// bounded contributions, one of each example. The core makes that sum as it makes those of
/// gradients: every contribution clipped to the bound, in whole cells whose length is certified in
/// integers, and one exact Gaussian added; it pays for the release from the run's budget before it
/// looks at a row, and trains with noise for what is left.
///
/// Transforms of one run learn in their order, each from the examples as those before it leave them:
/// what they have learnt is released, so that an example's contribution is a function of it and of
/// released values.
///
/// A component that has it is a RowTransform and FittedValues, too. It has the parameters
/// private_statistic_params(); whether they ask for a release, its Statistic says: `released`.
///
/// Privacy: contribution() sees one private row at a time. learn() sees what was released, in
/// another instance: one that was asked for a contribution is asked for nothing that becomes
/// public. That a contribution depends on nothing but its row, and has the same bits beside any
/// others, is the promise that the sensitivity rests on; the conformance suite tests it, and so
/// does every run with one example. Threads: contribution() may run concurrently.
class PRIVGRAD_API BoundedStatistic {
 public:
  virtual ~BoundedStatistic();

  /// \param input  the shape of examples, as given to Transform::output_shape().
  /// \returns the statistic to release; nothing unless Transform::statistic() is `released`.
  /// \throws ConfigError if it cannot learn from such examples.
  virtual std::optional<StatisticRequest> request(const ExampleShape& input) const = 0;

  /// \param shape  shape of the features; e.g. {28, 28}.
  /// \param features  float32, of one example, element_count(shape). They may be NaN, where a transform
  ///   before this one overflowed.
  /// \param out  float32, [request().size]; not `features`. One that is not finite counts as zeros.
  virtual void contribution(const Shape& shape, std::span<const float> features,
                            std::span<float> out) const = 0;

  /// Takes the place of Transform::fit().
  /// \param input  shape of the examples.
  /// \param mean  the noised sum divided by the public number of examples; any finite numbers.
  /// \throws nothing for released values: it must accept whatever the noise makes of them.
  virtual void learn(const ExampleShape& input, const Released& mean) = 0;
};

/// One example's contribution to a statistic, as ContributionsInPieces makes it.
///
/// Threads: belongs to one thread at a time.
class PRIVGRAD_API Contribution {
 public:
  virtual ~Contribution();

  /// \param begin  index in the contribution of the first number to write.
  /// \param out  float32, [numbers to write], within the contribution.
  virtual void piece(std::size_t begin, std::span<float> out) const = 0;
};

/// Optional ability of a BoundedStatistic: any piece of a contribution by itself. Contributions of
/// many numbers are then made and added up piece by piece, each piece for many examples after
/// another, in the processor's caches; each number is asked for twice, once for the length.
///
/// Privacy: the pieces of an example have the bits of its contribution(), at any time and in any order.
/// The length of a contribution and its cells come from two calls, so the sensitivity rests on
/// this, too: cells that are longer than the bound end the run. The conformance suite tests it, and
/// so does every run with one example. Threads: contribution_in_pieces() may run concurrently.
class PRIVGRAD_API ContributionsInPieces {
 public:
  virtual ~ContributionsInPieces();

  /// \param shape, features  as for BoundedStatistic::contribution(); not used after the call.
  virtual std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape& shape, std::span<const float> features) const = 0;
};

/// The parameters that a component with the ability BoundedStatistic declares: `statistic: unaccounted | public |
/// private`, `share`, `noise_multiplier`.
/// \param own  the component's own parameters, which follow these.
PRIVGRAD_API std::vector<ParamSpec> private_statistic_params(std::vector<ParamSpec> own = {});

/// \returns the noise that the parameters above ask for; nothing unless `statistic` is private.
/// \param who  the component's name, for errors.
/// \throws ConfigError unless exactly one of `share` and `noise_multiplier` goes with a private
///   statistic, and none of them with another one.
PRIVGRAD_API std::optional<StatisticNoise> statistic_noise_from(const Params& params,
                                                                std::string_view who);

}  // namespace privgrad
