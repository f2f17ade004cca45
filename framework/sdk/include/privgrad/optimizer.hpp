// The interface of optimizers, from released gradients to new parameters, with its abilities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "privgrad/export.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad {

/// The facts about the current step that an optimizer may use: public values only.
struct StepContext {
  std::uint64_t step = 0;      ///< 0-based index of this update.
  double learning_rate = 0.0;  ///< Already scheduled; >= 0.
};

/// Turns a released gradient into a parameter update.
///
/// Privacy: sees Released and public values only, hence free (post-processing).
/// Lifetime: one instance per training run.
/// Threads: calls on one instance never overlap; two instances may run at the same time, so keep no
///   mutable statics.
///
/// Example, plain gradient descent:
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
class PRIVGRAD_API Optimizer {
 public:
  static constexpr std::string_view kKind = "optimizer";
  static constexpr int kInterfaceVersion = 1;
  static constexpr std::string_view kSees = "released values";

  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Called once before the first step, and again to forget everything.
  /// \param parameters  length of every later `parameters` span, > 0.
  virtual void start(std::size_t parameters) = 0;

  /// Updates `parameters` in place.
  /// \param parameters  float32, shape [parameters], contiguous; the model's weights.
  /// \param gradient    same shape.
  /// \throws NumericError if `gradient` holds a non-finite value; `parameters` is then unchanged.
  virtual void step(std::span<float> parameters, const Released& gradient,
                    const StepContext& context) = 0;

 protected:
  Optimizer() = default;
};

/// Optional ability of optimizers and aggregators, found with dynamic_cast: their state can be
/// saved and restored, so that a run can be resumed.
class PRIVGRAD_API Checkpointable {
 public:
  virtual ~Checkpointable();

  /// \returns the state as float32, shape [state size]; empty before start().
  virtual std::span<const float> state() const = 0;

  /// \throws ConfigError if `state` has the wrong length for this run; nothing is changed then.
  virtual void restore(std::span<const float> state) = 0;
};

/// Optional ability, found with dynamic_cast: each step is a fixed linear rule, so that what the
/// noise of one step does to the model at the end can be computed:
///
///     v <- keep v + take g,   w <- w - learning_rate * rate * v,   v = 0 at the start.
///
/// Plain gradient descent has keep 0, take 1, rate 1.
class PRIVGRAD_API LinearDescent {
 public:
  struct Coefficients {
    double keep = 0.0, take = 1.0, rate = 1.0;
  };

  virtual ~LinearDescent();

  /// \param step  0-based.
  /// \returns finite numbers, the same on every call.
  virtual Coefficients coefficients(std::uint64_t step) const = 0;
};

/// Optional ability, found with dynamic_cast: step() moves each parameter by its own coordinate of
/// the gradients, and by nothing else of them. So an object that is started for a part of the
/// parameters, wherever it begins, does to that part what an object for all of them would, bit for
/// bit, and the processes of a cluster can keep a part each. An optimizer that uses a norm of the
/// gradient does not have this ability.
///
/// The state of a Checkpointable that has it is some numbers that belong to no coordinate, then one
/// vector behind the other with a number for each parameter, then again numbers of no coordinate. So
/// the state of the whole can be cut into the states of parts, and put together from them.
class PRIVGRAD_API Coordinatewise {
 public:
  /// Numbers of the state that belong to no coordinate: the same in all parts.
  struct Shared {
    std::size_t before = 0;  ///< Numbers before the vectors.
    std::size_t after = 0;   ///< Numbers after the vectors.
  };

  virtual ~Coordinatewise();

  /// \returns the same on every call.
  virtual Shared shared_state() const = 0;
};

/// Optional property, found with dynamic_cast: step() takes the sum of all gradients so far for its
/// `gradient`. The core refuses aggregators that release something else.
class PRIVGRAD_API OfPrefixSums {
 public:
  virtual ~OfPrefixSums();
};

}  // namespace privgrad
