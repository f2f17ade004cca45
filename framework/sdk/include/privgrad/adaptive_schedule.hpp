// For schedules that change the noise during the run, following measurements of the core.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The quantity that an adaptive schedule follows.
enum class Measured {
  /// The change of the mean training loss since the last measurement, in the unit of the loss;
  /// negative if the loss fell. Each example's loss is first clamped to [0, loss_bound]; the sum of
  /// the changes gets Gaussian noise and is charged, each time.
  loss_change = 1,
  validation_loss,      ///< Mean loss of the test examples, exactly: only if they are public.
  validation_accuracy,  ///< Share of the test examples classified correctly, in [0, 1]; likewise.
};

PRIVGRAD_API std::string_view to_text(Measured measured);

/// The measurement that an adaptive schedule asks the core for.
struct Measurement {
  Measured what = Measured::loss_change;
  std::uint64_t every = 1;  ///< Steps between two measurements, > 0.
  /// For loss_change: the bound that each loss is clamped to, finite, > 0, in the unit of the loss.
  /// A loss that is not finite counts as this bound, a negative one as 0.
  double loss_bound = 0.0;
  /// For loss_change: the standard deviation of the noise in the sum, in units of loss_bound,
  /// finite, > 0. One example changes the sum by at most loss_bound, so each measurement is a
  /// Gaussian release with this noise multiplier.
  double noise_multiplier = 0.0;

  bool operator==(const Measurement&) const = default;
};

/// Optional ability of a schedule: it lowers (or raises) the noise multiplier as the run goes. Its
/// place is the slot `noise_multiplier`; value() is the noise that the run begins with, the same
/// for every step, and may be a shape.
///
/// Privacy: sees public and released values only, and decides by a pure function of them. The core
/// makes the measurements, adds the noise and charges for it, and pays for each step by the noise
/// that was chosen for it. Noise that follows earlier releases is covered by a privacy filter
/// alone: what the run guarantees is its budget, whatever the schedule decides
/// (Accountant::is_filter()). Threads: const functions may run concurrently.
class PRIVGRAD_API AdaptiveSchedule {
 public:
  virtual ~AdaptiveSchedule();

  /// Called after start().
  /// \returns the same on every call.
  virtual Measurement measurement() const = 0;

  /// \param current   the noise multiplier of the last step (of the first one, if none was made),
  ///   finite, > 0.
  /// \param measured  all that was measured so far, in order, the newest last; not empty. Of
  ///   loss_change the first is made after `every` steps; of the others one is made before the
  ///   first step as well. Noise may put a loss_change anywhere on the real line; a validation_loss
  ///   may be infinite or NaN.
  /// \returns the noise multiplier of the steps until the next measurement, finite and > 0: a pure
  ///   function of its arguments.
  virtual double next(double current, std::span<const double> measured) const = 0;
};

}  // namespace privgrad
