// The interface of schedules: the value of a hyper-parameter at each step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// The public facts of the plan that are available to a schedule.
struct Horizon {
  std::uint64_t steps = 0;  ///< Number of steps in the plan, > 0.
  std::string slot;         ///< "noise_multiplier", "clip_norm", "learning_rate", ...
};

/// The influence behind a noise schedule, so that a plan can state how good the schedule is.
struct NoiseInfluence {
  /// How much each step's noise affects the result (influence.hpp): one value > 0 for each step of
  /// the horizon; empty before start().
  std::vector<double> values = {};
  bool is_unaccounted = false;  ///< Measured on private rows without a charge; plans then list it.
  /// True: the schedule's values assume that a step costs 1/sigma^2, so if steps cost something
  /// else, the plan should divide the budget according to its accountant's own costs. False: the
  /// values are right whatever steps cost.
  bool suits_any_cost = false;
};

/// The quantity on which an adaptive schedule depends.
enum class Measured {
  /// The change of the mean training loss since the last measurement, in the unit of the loss;
  /// negative if the loss fell. Each example's loss is first clamped to [0, loss_bound], and
  /// Gaussian noise is added to the sum of the examples' changes. Every measurement is charged.
  loss_change = 1,
  validation_loss,      ///< Mean loss of the test examples, without noise; they must be public.
  validation_accuracy,  ///< Share of these examples that are classified correctly, in [0, 1].
};

PRIVGRAD_API std::string_view to_text(Measured measured);

/// The measurement for which an adaptive schedule asks the core.
struct Measurement {
  Measured what = Measured::loss_change;
  std::uint64_t every = 1;  ///< Steps between two measurements, > 0.
  /// For loss_change: the bound to which each loss is clamped, finite, > 0, in the unit of the
  /// loss. A loss that is not finite counts as this bound, a negative loss as 0.
  double loss_bound = 0.0;
  /// For loss_change: the standard deviation of the noise in the sum, in units of loss_bound,
  /// finite, > 0. One example changes the sum by at most loss_bound, so each measurement is a
  /// Gaussian release with this noise multiplier.
  double noise_multiplier = 0.0;

  bool operator==(const Measurement&) const = default;
};

/// The value of one hyper-parameter at each step of training.
///
/// A schedule is either absolute (its values are used as they are) or a shape: the core then
/// multiplies all values by a common scale, chosen so that the accountant that guards the budget
/// proves the target. noise_multiplier, noise_std, clip_norm and batch_size accept shapes.
///
/// Privacy: a pure function of the plan, or of released values (next()). It receives no data, so
/// choosing it costs nothing.
/// Threads: const functions may run concurrently.
///
/// Example: a straight line (plugin.hpp says how to register it):
///
///     class Line final : public Schedule {
///      public:
///       explicit Line(const Params& params)
///           : from_(params.real("from")), to_(params.real("to")) {}
///       void start(const Horizon& horizon) override { steps_ = horizon.steps; }
///       double value(std::uint64_t step) const override {
///         return from_ + (to_ - from_) * static_cast<double>(step) / static_cast<double>(steps_);
///       }
///       bool is_shape() const override { return false; }
///
///      private:
///       double from_, to_;
///       std::uint64_t steps_ = 1;
///     };
class PRIVGRAD_API Schedule {
 public:
  static constexpr std::string_view kKind = "schedule";
  static constexpr int kInterfaceVersion = 4;
  static constexpr std::string_view kSees = "public values";

  virtual ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Called once, before value().
  /// \throws ConfigError if the parameters do not fit the horizon (e.g. a list that is too short).
  virtual void start(const Horizon& horizon) = 0;

  /// \param step  0-based, below the horizon's steps.
  /// \returns a finite value >= 0; always the same for the same step, on every call and thread.
  virtual double value(std::uint64_t step) const = 0;

  /// Whether only the ratios of the values matter. If so, every value is positive.
  virtual bool is_shape() const = 0;

  /// \returns nothing if the schedule was not computed from an influence.
  virtual std::optional<NoiseInfluence> influence() const { return std::nullopt; }

  /// For a schedule that adapts the noise: its next() lowers (or raises) the noise multiplier
  /// during the run. It belongs in the slot `noise_multiplier`, and declares the trait
  /// `adaptive_noise`; value() is the initial noise, the same for every step, and may be a shape.
  /// \returns the measurement that it asks of the core, the same on every call, also before
  ///   start(); nothing if the schedule adapts no noise.
  virtual std::optional<Measurement> measurement() const { return std::nullopt; }

  /// Called only if there is a measurement(), after start().
  ///
  /// Privacy: receives only public and released values. The core makes the measurements, adds noise
  /// to them and charges for them. It charges each step according to the noise that was chosen for
  /// that step. Only a privacy filter covers noise that depends on earlier releases: the run
  /// guarantees its budget, whatever the schedule decides (Accountant::is_filter()).
  /// \param current  the noise multiplier of the last step (of the first step, if none has been
  ///   made), finite, > 0.
  /// \param measured  all measurements so far, in order; the last one is the newest; not empty. The
  ///   first loss_change is measured after `every` steps; the other quantities are also measured
  ///   before the first step. Noise may make a loss_change any real number; a validation_loss may
  ///   be infinite or NaN.
  /// \returns the noise multiplier of the steps until the next measurement, finite and > 0: a pure
  ///   function of the arguments.
  virtual double next(double current, std::span<const double> measured) const;

 protected:
  Schedule() = default;
};

}  // namespace privgrad
