// The state of one owner's steps that does not depend on the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/data/breach.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/gradient_differences.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/train/second_look.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/slice.hpp"
#include "receipts.hpp"

namespace privgrad::core {

/// The state of one owner's steps: the components, the mechanism with its noise, and values that
/// follow only from releases, such as the next clip norm.
struct StepState {
  /// \param slice  the part of sums, noise and optimizer in this process; if absent: all.
  StepState(const Plan& plan, const Dataset& data, const RandomKey& key, Executor& executor,
            std::optional<Slice> slice);

  /// Sets the key for noise and augmentation of the next step, in a run whose keys change.
  void use_key_of_step(const RandomKey& key);

  // ---- a step, in this order

  /// The step's clipping, with the clip norm in use.
  Clip clip_of_step(std::uint64_t step);
  /// Copies the scaling of the coordinates. Must be called before the clipping sees norms of the
  /// step's rows, so that the rows cannot affect the scaling.
  void copy_scaling();
  /// Uses the step's receipt.
  /// \throws PrivacyError if there is no receipt, or it is for another release.
  Released release(BoundedOnGrid sum, double divisor);
  Released release(Bounded sum, double divisor);
  Released release_without_noise(Bounded sum, double divisor);
  /// Derives the gradient for the optimizer, and the next clip norm or the next step's scaling,
  /// only from the released value.
  /// \returns nothing if the gradient is the release itself.
  std::optional<Released> gradient_of(const Clip& clip, const Released& released);
  /// The gradient from all releases of the step, if the aggregator uses differences.
  Released combined_gradient(std::uint64_t step, const Clip& clip,
                             std::span<const Released> released);
  /// Adapts the clip norm to the released share of the batch that was not clipped, at no further
  /// cost.
  void adapt_clip_norm(double unclipped);
  void update(std::span<float> parameters, const Released& gradient, std::uint64_t step);

  /// Runs `body`; errors that it throws get the names of the program and the clipping.
  template <class Body>
  void in_program(const Body& body) const {
    in_run_of(program + " or " + clipping, body);
  }

  /// Saves everything except the optimizer, which its engine saves.
  void save(StateWriter& out) const;
  void restore(StateReader& in);

  const Plan& plan;
  const Manifest& manifest;
  const Dataset& data;
  Executor& executor;
  const std::string program, clipping;  // full names, for errors
  Components made;
  Mechanism mechanism;
  RandomKey augmentation_key;
  // used instead of mechanism for correlated noise without a window
  std::optional<CorrelatedMechanism> correlated;
  std::optional<GradientDifferences> differences;  // for an aggregator that uses them
  ContributionChecks contribution_checks;
  Receipts receipts;

  // the clip norm of the last step or, with adaptive clipping, of the next step
  double clip_norm;
  std::optional<double> clipped_fraction;
  double gradient_noise = 0.0;
  std::vector<float> shift, scale;  // the scaling of the coordinates

  // for audits and comparisons
  std::function<void(const StepSeen&)> witness;
  ReleaseWitness* leader = nullptr;
  SecondLook* second_look = nullptr;
  std::optional<std::size_t> client;
};

}  // namespace privgrad::core
