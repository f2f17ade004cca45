// The interface of accountants: from events to epsilon and delta, with proof or as an estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "privgrad/event.hpp"
#include "privgrad/export.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad {

/// How an accountant's number relates to the true value.
enum class BoundKind {
  exact = 1,  ///< Equal to the true value up to float rounding.
  upper,      ///< Never below the true value.
  estimate,   ///< Neither; may be printed, cannot guard a budget.
};

PRIVGRAD_API std::string_view to_text(BoundKind bound);

/// An epsilon or a delta, and what kind of bound it is.
struct PrivacyAnswer {
  double value = 0.0;  ///< >= 0, +infinity if nothing finite can be proved; never NaN.
  BoundKind bound = BoundKind::estimate;
  std::optional<double> lower;  ///< A proven lower bound on the true value, if the method has one.
  std::string note;  ///< E.g. the optimal order, or a warning; "" if there is nothing to say.

  bool operator==(const PrivacyAnswer&) const = default;
};

/// Computes how much privacy a sequence of events has spent.
///
/// Rounding: a BoundKind other than estimate must hold after float rounding too; err upwards.
/// Threads: const functions may run concurrently; the others may not run beside anything.
///
/// Example, the middle of an accountant that adds up the rho of Gaussian releases (upward.hpp):
///
///     std::optional<std::string> refuses(const Event& event) const override {
///       return first_refusal(event, [](const Event& one) -> std::optional<std::string> {
///         if (std::holds_alternative<GaussianEvent>(one.kind())) return std::nullopt;
///         return "rho: nothing is proved for " + std::string(one.name());
///       });
///     }
///     void compose(const Event& event, std::uint64_t count) override {
///       if (const auto reason = refuses(event)) throw PrivacyError(*reason);
///       for (const CountedEvent& part : flatten(event)) {
///         const double z = std::get<GaussianEvent>(part.event.kind()).noise_multiplier;
///         const double rho = round_up(0.5 * (sensitivity_ / z) * (sensitivity_ / z), 5.0);
///         rho_.add(multiply_up(count, multiply_up(part.count, rho)));  // rho_ is an UpwardSum
///       }
///     }
class PRIVGRAD_API Accountant {
 public:
  static constexpr std::string_view kKind = "accountant";
  static constexpr int kInterfaceVersion = 4;
  static constexpr std::string_view kSees = "public values";

  virtual ~Accountant();
  Accountant(const Accountant&) = delete;
  Accountant& operator=(const Accountant&) = delete;

  /// Called once, first. Events composed so far are forgotten.
  virtual void start(Adjacency adjacency) = 0;

  /// \returns nothing if this method has a proof for the event (with everything nested in it) under
  ///   the adjacency of start(); else the reason, with what to do instead where there is something.
  virtual std::optional<std::string> refuses(const Event& event) const = 0;

  /// Adds `count` releases of the event to what was spent.
  /// \throws PrivacyError with the reason of refuses(); nothing is added then.
  virtual void compose(const Event& event, std::uint64_t count) = 0;

  /// \param delta  in (0, 1).
  /// \returns the smallest epsilon that this method can prove for it, in nats.
  /// \throws ConfigError outside the range, NumericError if the computation fails.
  virtual PrivacyAnswer epsilon(double delta) const = 0;

  /// \param epsilon  >= 0, in nats.
  /// \returns the smallest delta that this method can prove for it, at most 1.
  /// \throws ConfigError outside the range, NumericError if the computation fails.
  virtual PrivacyAnswer delta(double epsilon) const = 0;

  /// Whether it is a privacy filter, which may guard a run in which the cost of each release was
  /// chosen from the values of earlier ones.
  ///
  /// The promise: let a run ask epsilon(delta) after composing each event and before making its
  /// release, and make it only if the answer is at most a target that was fixed beforehand. However
  /// the events were chosen from earlier releases, all that is released is then (target, delta)-DP.
  /// No theorem about events that are fixed beforehand implies this. The last answer below the target
  /// is no guarantee of its own: it depends on what was released.
  ///
  /// A filter takes `zcdp` events; its epsilon grows with their rho.
  /// \returns the same on every call.
  virtual bool is_filter() const { return false; }

 protected:
  Accountant() = default;
};

/// The answer of Accountant::refuses() for a method that composes whatever it can account: the
/// first reason among the event's releases, found by walking through "composed" and
/// "self_composed". What happens zero times is not a release, and "unsupported" is refused with the
/// reason that it brings. So are "random_allocation" and "repeat_and_select", whose costs are not
/// those of what they are made of, unless the method says that it knows the event.
/// \param refuses_release  callable as `std::optional<std::string>(const Event&)`; is asked about
///   every other event, in order, up to the first reason. Events inside a sampled one are its own
///   to look at. A method that has a theorem for "random_allocation" makes it callable as
///   `std::optional<std::string>(const RandomAllocationEvent&)`, too, and one that has a theorem for
///   "repeat_and_select" as `std::optional<std::string>(const RepeatAndSelectEvent&)`; the
///   candidates are its own to look at.
template <class RefusesRelease>
std::optional<std::string> first_refusal(const Event& event,
                                         const RefusesRelease& refuses_release) {
  if (const auto* composed = std::get_if<ComposedEvent>(&event.kind())) {
    for (const Event& part : composed->of) {
      if (auto reason = first_refusal(part, refuses_release)) return reason;
    }
    return std::nullopt;
  }
  if (const auto* repeated = std::get_if<SelfComposedEvent>(&event.kind())) {
    return repeated->count == 0 ? std::nullopt : first_refusal(*repeated->of, refuses_release);
  }
  if (const auto* unsupported = std::get_if<UnsupportedEvent>(&event.kind())) {
    return "unsupported: " +
           (unsupported->reason.empty() ? "nothing is proved about it" : unsupported->reason);
  }
  if (const auto* allocated = std::get_if<RandomAllocationEvent>(&event.kind())) {
    if constexpr (std::is_invocable_v<const RefusesRelease&, const RandomAllocationEvent&>) {
      return refuses_release(*allocated);
    } else {
      return "random_allocation: no theorem here bounds an epoch in which each example draws its "
             "step";
    }
  }
  if (const auto* selection = std::get_if<RepeatAndSelectEvent>(&event.kind())) {
    if constexpr (std::is_invocable_v<const RefusesRelease&, const RepeatAndSelectEvent&>) {
      return refuses_release(*selection);
    } else {
      return "repeat_and_select: no theorem here bounds the best of a random number of runs";
    }
  }
  return refuses_release(event);
}

}  // namespace privgrad
