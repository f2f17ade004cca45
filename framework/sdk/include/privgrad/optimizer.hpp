// The interface of optimizers, which turn released gradients into new parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "privgrad/component_state.hpp"
#include "privgrad/export.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/run_facts.hpp"
#include "privgrad/step_rule.hpp"

namespace privgrad {

/// The facts about the current step that are available to an optimizer: only public values.
struct StepContext {
  std::uint64_t step = 0;      ///< 0-based index of this update.
  double learning_rate = 0.0;  ///< Already scheduled; >= 0.
};

/// Turns a released gradient into a parameter update.
///
/// Privacy: receives only Released and public values, so its work costs nothing (post-processing).
/// Lifetime: one instance per training run.
/// Threads: calls on one instance never overlap; two instances may run at the same time, so keep
/// no mutable statics.
///
/// Example: plain gradient descent:
///
///     class Descent final : public Optimizer {
///      public:
///       explicit Descent(const Params&) {}
///       void start(std::size_t) override {}
///       void step(std::span<float> parameters, const Released& gradient,
///                 const StepContext& context) override {
///         if (!gradient.is_finite()) throw NumericError("descent: the gradient is not finite");
///         const auto rate = static_cast<float>(context.learning_rate);
///         const std::span<const float> g = gradient.values();
///         for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * g[i];
///       }
///     };
class PRIVGRAD_API Optimizer : public Stateful {
 public:
  static constexpr std::string_view kKind = "optimizer";
  static constexpr int kInterfaceVersion = 2;
  static constexpr std::string_view kSees = "released values";

  ~Optimizer() override;

  /// Called before the first step. Calling it again makes the optimizer forget everything.
  /// \param parameters  length of every later `parameters` span, > 0.
  virtual void start(std::size_t parameters) = 0;

  /// Updates `parameters` in place.
  /// \param parameters  float32, shape [parameters], contiguous; the model's weights.
  /// \param gradient    same shape.
  /// \throws NumericError if `gradient` has a non-finite value; `parameters` is then unchanged.
  virtual void step(std::span<float> parameters, const Released& gradient,
                    const StepContext& context) = 0;

  // ---- Optional functions; the defaults suit most optimizers.

  /// Whether step() updates each parameter only from its own coordinate of the gradients, and every
  /// vector of the state has one number per parameter. If so, an object that was started for some
  /// of the parameters updates them bit for bit as an object for all parameters would, so each
  /// process of a cluster can hold one part. An optimizer that uses a norm of the gradient is not
  /// coordinatewise.
  virtual bool is_coordinatewise() const { return false; }

  /// The rule that each step() follows, so that other code can carry it out where the parameters
  /// are (ResidentSteps). Such an optimizer is coordinatewise, and its state has state_vectors()
  /// vectors, in the rule's order. The conformance suite compares step() with the rule.
  /// \returns the same value on every call; if absent: steps follow no StepRule.
  virtual std::optional<StepRule::Kind> rule() const { return std::nullopt; }

  /// Returns the rule of the next step, and counts that step as made, because the caller carries it
  /// out. Then the state's vectors are out of date, but its other members are not.
  /// \pre rule() is not absent.
  /// \throws NumericError if the learning rate is not finite as a float32.
  virtual StepRule next_rule(const StepContext& context);

  /// Called at the beginning of each round of a federated run, after start(), for steps that refer
  /// to the model at the beginning of the round. Privacy: that model is released.
  /// \param parameters  float32, [parameters]; copy it if it is needed later.
  virtual void anchor(std::span<const float> /*parameters*/) {}

  /// Whether the `gradient` that step() expects is the sum of all gradients so far. The core
  /// refuses aggregators that release something else.
  virtual bool takes_prefix_sums() const { return false; }

  /// The learning rate for all steps (`schedules.learning_rate: auto`), if a theorem gives one.
  /// \returns a finite number > 0; nothing if there is no such theorem.
  /// \throws ConfigError if the theorem does not cover these facts.
  virtual std::optional<AutoValue> auto_learning_rate(const RunFacts& /*facts*/) const {
    return std::nullopt;
  }

 protected:
  Optimizer() = default;
};

}  // namespace privgrad
