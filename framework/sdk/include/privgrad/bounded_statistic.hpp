// For transforms that learn from a noised sum over private rows, charged by the core.
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
  /// Share of the budget, in (0, 1): if z is the noise multiplier of a single Gaussian release that
  /// uses the whole budget, the statistic gets z / sqrt(share). Shares of Gaussian releases add up,
  /// because 1 / z^2 does.
  double share = 0.0;
};

/// A transform's request to the core to release a statistic of the training examples.
struct StatisticRequest {
  std::string what;       ///< A few words: "means of the features".
  std::size_t size = 0;   ///< How many numbers a contribution has, > 0.
  double l2_bound = 0.0;  ///< Each contribution is clipped to this L2 norm; finite, > 0.
  StatisticNoise noise;
};

/// One example's contribution to a statistic, computed piece by piece
/// (BoundedStatistic::contribution_in_pieces()).
///
/// Threads: may be used by one thread at a time.
class PRIVGRAD_API Contribution {
 public:
  virtual ~Contribution();

  /// \param begin  index of the first number to write, within the contribution.
  /// \param out  float32, [numbers to write]; the piece lies within the contribution.
  virtual void piece(std::size_t begin, std::span<float> out) const = 0;
};

/// Optional ability of a transform: everything it learns about the training examples follows from
/// one sum of bounded contributions, one per example. The core computes this sum like the sums of
/// gradients: it clips every contribution to the bound, rounds it to whole cells, certifies their
/// length in integer arithmetic, and adds one exact Gaussian to the sum. It charges the run's
/// budget for the release before it reads any row, and trains with the rest of the budget.
///
/// The transforms of a run learn in their order, each from the examples as the earlier transforms
/// left them. What the earlier transforms learnt is already released, so an example's contribution
/// is a function of that example and of released values.
///
/// For a transform with this ability, is_by_row() and is_restorable() are true. It declares the
/// parameters private_statistic_params(); if they ask for a release, its Statistic is `released`.
///
/// Privacy: contribution() receives one private row at a time. learn() receives the released value
/// in another instance: an instance that has computed a contribution is never asked for anything
/// that becomes public. The sensitivity rests on the promise that a contribution depends only on
/// its row and has the same bits whatever the other rows are; the conformance suite tests this, and
/// every run tests it on one example. Threads: contribution() may run concurrently.
class PRIVGRAD_API BoundedStatistic {
 public:
  virtual ~BoundedStatistic();

  /// \param input  the shape of the examples, the same as for Transform::output_shape().
  /// \returns the statistic to release; nothing unless Transform::statistic() is `released`.
  /// \throws ConfigError if the transform cannot learn from such examples.
  virtual std::optional<StatisticRequest> request(const ExampleShape& input) const = 0;

  /// \param shape  shape of the features; e.g. {28, 28}.
  /// \param features  float32, of one example, element_count(shape). May be NaN, after an overflow.
  /// \param out  float32, [request().size]; must not overlap `features`. A contribution that is not
  ///   finite counts as zeros.
  virtual void contribution(const Shape& shape, std::span<const float> features,
                            std::span<float> out) const = 0;

  /// Returns the same contribution in a form whose pieces can be computed separately. Contributions
  /// with many numbers are then added up piece by piece, each piece for many examples, in the
  /// processor's caches; each number is computed twice, the first time for the length.
  ///
  /// Privacy: the pieces of an example have the bits of its contribution(), at any time and in any
  /// order. The sensitivity rests on this promise too, because a contribution's length and its
  /// cells come from two calls: cells longer than the bound end the run. The conformance suite
  /// tests the promise, and every run tests it on one example. Threads: calls may run concurrently.
  /// \param shape, features  as in contribution(); valid only during the call.
  /// \returns null, for every example, if contributions do not come in pieces.
  virtual std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape& shape, std::span<const float> features) const;

  /// Replaces Transform::fit().
  /// \param input  shape of the examples.
  /// \param mean  the noised sum divided by the public number of examples; any finite numbers.
  /// \throws nothing for released values: the noise may produce any values.
  virtual void learn(const ExampleShape& input, const Released& mean) = 0;
};

/// Returns the parameters that a component with the ability BoundedStatistic declares: `statistic:
/// unaccounted | public | private`, `share`, `noise_multiplier`.
/// \param own  the component's own parameters, which are appended.
PRIVGRAD_API std::vector<ParamSpec> private_statistic_params(std::vector<ParamSpec> own = {});

/// \returns the noise that these parameters ask for; nothing unless `statistic` is private.
/// \param who  the component's name, for errors.
/// \throws ConfigError unless a private statistic comes with exactly one of `share` and
///   `noise_multiplier`, and any other statistic with neither.
PRIVGRAD_API std::optional<StatisticNoise> statistic_noise_from(const Params& params,
                                                                std::string_view who);

}  // namespace privgrad
