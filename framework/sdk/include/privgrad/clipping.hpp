// The interface of clipping rules: by what factor each example's gradient is scaled.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/component_state.hpp"
#include "privgrad/export.hpp"
#include "privgrad/network.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad {

/// Parameters whose gradient has its own norm and gets its own factor: those of one layer, its
/// weights and biases together.
struct ParameterGroup {
  std::string name;        ///< "layers.0".
  std::size_t offset = 0;  ///< First element in the flat parameter vector.
  std::size_t size = 0;    ///< Number of parameters, > 0.
};

/// \returns one group for each layer that has parameters, in their order, without gaps.
PRIVGRAD_API std::vector<ParameterGroup> parameter_groups(const Network& network);

/// Says by how much the gradient of an example is made smaller (or larger) before it is summed.
///
/// An example contributes factor_g times its gradient in each group g. The core sees to it that the
/// contribution has an L2 norm of at most clip_norm, rounding included, whatever the factors are,
/// and that an example whose gradient is not finite contributes nothing. A rule can therefore cost
/// accuracy, never privacy, as long as an example's factors follow from its own norms: that is why
/// it is shown one example at a time.
///
/// Privacy: sees the gradient norms of private examples; what it returns is as private as they are
/// and goes to the core alone. A run makes two instances: one is asked for factors and for nothing
/// else; the other, which is shown no norm, answers what becomes public (the abilities below). So
/// factors follow from start() and their arguments, never from releases.
/// Threads: const functions may run concurrently.
///
/// Example, one factor C / (||g|| + C) for all groups, below C / ||g|| for every gradient g:
///
///     class Damped final : public Clipping {
///      public:
///       explicit Damped(const Params&) {}
///       void start(std::span<const ParameterGroup>) override {}
///       void factors(std::span<const double> squared_norms, double clip_norm,
///                    std::span<double> factors) const override {
///         const double norm =
///             std::sqrt(std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0));
///         std::fill(factors.begin(), factors.end(), clip_norm / (norm + clip_norm));
///       }
///     };
class PRIVGRAD_API Clipping : public Stateful {
 public:
  static constexpr std::string_view kKind = "clipping";
  static constexpr int kInterfaceVersion = 2;
  static constexpr std::string_view kSees = "private norms";

  ~Clipping() override;

  /// Called once, before factors().
  /// \param groups  not empty; valid during the call only.
  /// \throws ConfigError if the parameters do not fit the network's groups.
  virtual void start(std::span<const ParameterGroup> groups) = 0;

  /// The factors of one example.
  /// \param squared_norms  finite, >= 0, [groups]: of the example's gradient in each group.
  /// \param clip_norm      finite, > 0.
  /// \param factors        out: finite, >= 0, [groups], such that the root of
  ///   sum_g (factor_g^2 squared_norm_g) is at most clip_norm up to rounding. What is above that is
  ///   scaled down by the core, all groups alike; a negative or non-finite factor counts as 0.
  virtual void factors(std::span<const double> squared_norms, double clip_norm,
                       std::span<double> factors) const = 0;

 protected:
  Clipping() = default;
};

/// Optional ability: a rule that wants its clip norm to follow the data.
///
/// Each step then releases, beside the sum of the gradients, the noised number of examples whose
/// gradient was within the clip norm. The core counts, adds the noise, and charges for both
/// releases as one Gaussian mechanism; the rule sees the noised number only, so that every clip
/// norm follows from released values.
///
/// Threads: const functions may run concurrently.
class PRIVGRAD_API AdaptiveClipNorm {
 public:
  virtual ~AdaptiveClipNorm();

  /// Standard deviation of the noise of the count, in examples; the less, the more noise is left
  /// for the gradients. A pure function of public values.
  /// \param expected_batch_size  > 0.
  /// \param noise_multiplier     > 0, of both releases together.
  /// \returns a finite number above noise_multiplier / 2: with that much noise the count alone
  ///   would cost what both may cost together.
  virtual double count_noise(double expected_batch_size, double noise_multiplier) const = 0;

  /// \param clip_norm  the clip norm of the step before, finite, > 0.
  /// \param unclipped  the released share of its examples that were within it; the noise may put it
  ///   anywhere on the real line.
  /// \returns the clip norm of the next step, finite and > 0: a pure function of its arguments, with
  ///   the same bits on every processor, so that a run goes on elsewhere as it would have here. The
  ///   C library's `exp` and its like are not that; `privgrad/powers.hpp` is.
  virtual double next_clip_norm(double clip_norm, double unclipped) const = 0;
};

/// Optional ability: a rule that wants each coordinate of the gradients shifted and scaled before
/// an example's norms are taken.
///
/// An example with the gradient g then contributes what follows from
///
///     w_i = (g_i - shift_i) / scale_i
///
/// in place of g: w is what factors() sees the norms of, what the clip norm bounds, what is added up
/// and noised. The core makes w, and of the release r it makes the gradient that the optimizer gets,
/// scale_i r_i + shift_i. An example without a gradient contributes, too, unless the shift is zero.
///
/// Shift and scale are the same for all examples of a step, and follow from what the steps before
/// released: the rule sees releases only. Its state brings back the shift and the scale to the last bit,
/// and its start() forgets everything.
///
/// Threads: const functions may run concurrently; learn() does not run beside anything.
class PRIVGRAD_API CoordinateScaling {
 public:
  virtual ~CoordinateScaling();

  /// Of the next step.
  /// \returns finite numbers, [parameters]: as many as the groups of start() have together. The
  ///   span is valid until learn(), start() or restored().
  virtual std::span<const float> shift() const = 0;

  /// \returns finite numbers > 0, [parameters], as shift().
  virtual std::span<const float> scale() const = 0;

  /// Learns from a step's release. What follows has the same bits on every processor, so that a run
  /// goes on elsewhere as it would have here: add up in a fixed order, and use no function of the C
  /// library but `sqrt`.
  /// \param release  [parameters]: of shifted and scaled gradients, as it was released. A value may
  ///   be anything, also infinite or NaN. Its noise_stddev() is that of each of its coordinates.
  virtual void learn(const Released& release) = 0;
};

}  // namespace privgrad
