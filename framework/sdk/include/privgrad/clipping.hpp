// The interface of clipping rules: the factor by which each example's gradient is scaled.
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

/// The weights and biases of one layer, whose part of the gradient has its own norm and its own
/// factor.
struct ParameterGroup {
  std::string name;        ///< "layers.0".
  std::size_t offset = 0;  ///< First element in the flat parameter vector.
  std::size_t size = 0;    ///< Number of parameters, > 0.
};

/// \returns one group for each layer that has parameters, in the order of the layers, without gaps.
PRIVGRAD_API std::vector<ParameterGroup> parameter_groups(const Network& network);

/// Chooses the factors by which an example's gradient is scaled before it is summed.
///
/// An example contributes factor_g times its gradient in each group g. The core ensures that the
/// contribution has an L2 norm of at most clip_norm, rounding included, whatever the factors are,
/// and that an example whose gradient is not finite contributes nothing. A bad rule can therefore
/// cost accuracy but never privacy, as long as an example's factors depend only on that example's
/// norms. To ensure this, the rule receives the norms of only one example at a time.
///
/// Privacy: receives the gradient norms of private examples; its results are as private as these
/// norms and go only to the core. A run makes two instances: one only computes factors; the other
/// never receives a norm, and gives the answers that become public (the abilities below). Factors
/// therefore depend on start() and their arguments, never on releases. If a rule also states a
/// formula (HasClipRule), it must give the same factors: steps on a device use only the formula.
/// Threads: const functions may run concurrently.
///
/// Example: one factor C / (||g|| + C) for all groups; it is below C / ||g|| for every g:
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
  /// \param groups  not empty; valid only during the call.
  /// \throws ConfigError if the parameters do not fit the network's groups.
  virtual void start(std::span<const ParameterGroup> groups) = 0;

  /// Computes the factors of one example.
  /// \param squared_norms  finite, >= 0, [groups]: of the example's gradient in each group.
  /// \param clip_norm  finite, > 0.
  /// \param factors  out: finite, >= 0, [groups], such that the square root of
  ///   sum_g (factor_g^2 squared_norm_g) is at most clip_norm up to rounding. If it is larger, the
  ///   core scales all groups down alike; a negative or non-finite factor counts as 0.
  virtual void factors(std::span<const double> squared_norms, double clip_norm,
                       std::span<double> factors) const = 0;

 protected:
  Clipping() = default;
};

/// Optional ability: a rule whose clip norm adapts to the data.
///
/// In addition to the sum of the gradients, each step then releases the noised number of examples
/// whose gradient was within the clip norm. The core counts, adds the noise, and charges for both
/// releases as one Gaussian mechanism; the rule receives only the noised number, so every clip norm
/// follows from released values.
///
/// Threads: const functions may run concurrently.
class PRIVGRAD_API AdaptiveClipNorm {
 public:
  virtual ~AdaptiveClipNorm();

  /// Returns the standard deviation of the count's noise, in examples. The less noise the count
  /// gets, the more noise the gradients get. A pure function of public values.
  /// \param expected_batch_size  > 0.
  /// \param noise_multiplier  > 0, of both releases together.
  /// \returns a finite number above noise_multiplier / 2. At noise_multiplier / 2, the count alone
  ///   would already cost as much as both releases together may.
  virtual double count_noise(double expected_batch_size, double noise_multiplier) const = 0;

  /// \param clip_norm  the clip norm of the previous step, finite, > 0.
  /// \param unclipped  released share of that step's examples within clip_norm; any real number.
  /// \returns the clip norm of the next step, finite and > 0: a pure function of the arguments with
  ///   the same bits on every processor, so that a run can be resumed on another machine with the
  ///   same result. The C library's `exp` and similar functions do not have this property;
  ///   `privgrad/powers.hpp` does.
  virtual double next_clip_norm(double clip_norm, double unclipped) const = 0;
};

/// Optional ability: a rule that shifts and scales each coordinate of the gradients before an
/// example's norms are computed.
///
/// For an example with the gradient g, the core then uses
///
///     w_i = (g_i - shift_i) / scale_i
///
/// instead of g: factors() receives the norms of w, the clip norm bounds w, and w is summed and
/// noised. The core computes w, and turns the release r into the gradient scale_i r_i + shift_i for
/// the optimizer. An example without a gradient contributes too, unless the shift is zero.
///
/// Shift and scale are the same for all examples of a step, and follow from what earlier steps
/// released: the rule receives only releases. Its state restores the shift and the scale to the
/// last bit, and its start() forgets everything.
///
/// Threads: const functions may run concurrently; learn() does not overlap with any call.
class PRIVGRAD_API CoordinateScaling {
 public:
  virtual ~CoordinateScaling();

  /// The shift of the next step.
  /// \returns finite numbers, [parameters]: as many as all groups of start() have together. The
  ///   span is valid until learn(), start() or restored().
  virtual std::span<const float> shift() const = 0;

  /// The scale of the next step. \returns finite numbers > 0, [parameters], valid like shift().
  virtual std::span<const float> scale() const = 0;

  /// Learns from a step's release. The resulting shift and scale must have the same bits on every
  /// processor, so that a run can be resumed on another machine with the same result: sum in a
  /// fixed order, and use no function of the C library except `sqrt`.
  /// \param release  [parameters]: the released sum of shifted and scaled gradients. A value may be
  ///   anything, including infinite or NaN. noise_stddev() is for each coordinate.
  virtual void learn(const Released& release) = 0;
};

}  // namespace privgrad
