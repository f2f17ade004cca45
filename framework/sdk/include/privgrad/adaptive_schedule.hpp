// For schedules that change the noise during the run, based on measurements that the core makes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The quantity on which an adaptive schedule depends.
enum class Measured {
  /// The change of the mean training loss since the last measurement, in the unit of the loss;
  /// negative if the loss fell. Each example's loss is first clamped to [0, loss_bound]; Gaussian
  /// noise is added to the sum of the changes. Every measurement is charged.
  loss_change = 1,
  validation_loss,      ///< Mean loss of the test examples, without noise: only if they are public.
  validation_accuracy,  ///< Share of correctly classified test examples, in [0, 1]; likewise.
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

/// Optional ability of a schedule: it lowers (or raises) the noise multiplier during the run. Such
/// a schedule belongs in the slot `noise_multiplier`; value() is the initial noise, the same for
/// every step, and may be a shape.
///
/// Privacy: receives only public and released values, and its decision is a pure function of them.
/// The core makes the measurements, adds noise to them and charges for it; it charges each step for
/// the noise that was chosen for that step. Only a privacy filter covers noise that depends on
/// earlier releases: the run guarantees its budget, whatever the schedule decides
/// (Accountant::is_filter()). Threads: const functions may run concurrently.
class PRIVGRAD_API AdaptiveSchedule {
 public:
  virtual ~AdaptiveSchedule();

  /// Called after start().
  /// \returns the same value on every call.
  virtual Measurement measurement() const = 0;

  /// \param current  the noise multiplier of the last step (of the first step, if none has been
  ///   made), finite, > 0.
  /// \param measured  all measurements so far, in order; the last one is the newest; not empty. The
  ///   first loss_change is measured after `every` steps; the other quantities are also measured
  ///   before the first step. Noise may make a loss_change any real number; a validation_loss may
  ///   be infinite or NaN.
  /// \returns the noise multiplier of the steps until the next measurement, finite and > 0: a pure
  ///   function of the arguments.
  virtual double next(double current, std::span<const double> measured) const = 0;
};

}  // namespace privgrad
