// The interface of schedules: the value of a hyper-parameter at each step.
#pragma once

#include <cstdint>
#include <optional>
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
  /// Whether the schedule's values assume that steps cost 1/sigma^2, so that the plan should divide
  /// the budget by its accountant's own costs if steps cost something else. False: the values are
  /// meant whatever steps cost.
  bool suits_any_cost = false;
};

/// The value of one hyper-parameter at each step of training.
///
/// A schedule is either absolute (its values are used as they are) or a shape: the core then
/// multiplies all values by a common scale, chosen so that the gating accountant meets the privacy
/// target. Only the slot noise_multiplier accepts shapes.
///
/// Privacy: a pure function of the plan. It receives no data, so choosing it costs nothing.
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
  static constexpr int kInterfaceVersion = 3;
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

  /// True if only the ratios of the values matter; every value is then positive.
  virtual bool is_shape() const = 0;

  /// \returns nothing if the schedule was not computed from an influence.
  virtual std::optional<NoiseInfluence> influence() const { return std::nullopt; }

 protected:
  Schedule() = default;
};

}  // namespace privgrad
