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
  upper,      ///< Never smaller than the true value.
  estimate,   ///< Neither of these; may be printed but cannot guard a budget.
};

PRIVGRAD_API std::string_view to_text(BoundKind bound);

/// An epsilon or a delta, and which kind of bound it is.
struct PrivacyAnswer {
  double value = 0.0;  ///< >= 0; +infinity if no finite value can be proved; never NaN.
  BoundKind bound = BoundKind::estimate;
  std::optional<double> lower;  ///< A proven lower bound on the true value, if the method has one.
  std::string note;             ///< For example the optimal order, or a warning; may be "".

  bool operator==(const PrivacyAnswer&) const = default;
};

/// Computes how much privacy a sequence of events has spent.
///
/// Rounding: a BoundKind other than estimate must also hold after float rounding; round upwards.
/// Threads: const functions may run concurrently; no other function may overlap with any call.
///
/// Example: the main part of an accountant that adds up the rho of Gaussian releases (upward.hpp):
///
///     std::optional<std::string> refuses(const Event& event) const override {
///       return first_refusal(event, Accepts<GaussianEvent>{}, "rho accounts Gaussians only");
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

  /// Called before all other functions. A later call forgets all events composed so far.
  virtual void start(Adjacency adjacency) = 0;

  /// \returns nothing if this method has a proof for the event and everything nested in it, under
  ///   the adjacency of start(); otherwise the reason, with advice if possible.
  virtual std::optional<std::string> refuses(const Event& event) const = 0;

  /// Adds the cost of `count` releases of the event to the total.
  /// \throws PrivacyError with the reason of refuses(); the total then stays as it was.
  virtual void compose(const Event& event, std::uint64_t count) = 0;

  /// \param delta  in (0, 1).
  /// \returns the smallest epsilon that this method can prove for this delta, in nats.
  /// \throws ConfigError for another delta, NumericError if the computation fails.
  virtual PrivacyAnswer epsilon(double delta) const = 0;

  /// \param epsilon  >= 0, in nats.
  /// \returns the smallest delta that this method can prove for this epsilon, at most 1.
  /// \throws ConfigError for another epsilon, NumericError if the computation fails.
  virtual PrivacyAnswer delta(double epsilon) const = 0;

  /// Whether the accountant is a privacy filter. Only a filter may guard a run in which the cost of
  /// a release depends on the values of earlier releases.
  ///
  /// The promise: a run composes each event, then asks for epsilon(delta), and makes the release
  /// only if the answer is at most a target that was fixed in advance. Then everything that is
  /// released is (target, delta)-DP, however the events were chosen from earlier releases. A
  /// theorem about events that are fixed in advance does not imply this. The last answer below the
  /// target is no guarantee, because that answer depends on what was released.
  ///
  /// A filter accepts `zcdp` events, and its epsilon grows with their rho.
  /// \returns the same value on every call.
  virtual bool is_filter() const { return false; }

 protected:
  Accountant() = default;
};

/// A callable for first_refusal() that accepts all events of one kind, whatever their numbers.
template <class Kind>
struct AcceptsOne {
  std::optional<std::string> operator()(const Kind&) const { return std::nullopt; }
};
template <class... Kinds>
using Accepts = Overloaded<AcceptsOne<Kinds>...>;

/// Implements Accountant::refuses() for a method that can compose all events that it accounts for:
/// unfolds "composed" and "self_composed", and returns the first reason among the releases inside.
/// An event that happens zero times is not a release. "unsupported" is refused with the reason that
/// it contains.
/// \param refuses_release  callable with each kind of event that the method knows, as
///   `std::optional<std::string>(const GaussianEvent&)`; called in order, until the first reason.
///   Every other kind is refused, including kinds that are added later. The callable must itself
///   examine the events inside sampled events and candidates.
/// \param otherwise  why the other kinds are refused.
template <class RefusesRelease>
std::optional<std::string> first_refusal(const Event& event, const RefusesRelease& refuses_release,
                                         std::string_view otherwise = "no theorem here bounds it") {
  using Reason = std::optional<std::string>;
  return std::visit(
      Overloaded{[&](const ComposedEvent& e) -> Reason {
                   for (const Event& part : e.of)
                     if (auto why = first_refusal(part, refuses_release, otherwise)) return why;
                   return std::nullopt;
                 },
                 [&](const SelfComposedEvent& e) -> Reason {
                   if (e.count == 0) return std::nullopt;
                   return first_refusal(*e.of, refuses_release, otherwise);
                 },
                 [](const UnsupportedEvent& e) -> Reason {
                   return "unsupported: " +
                          (e.reason.empty() ? "nothing is proved about it" : e.reason);
                 },
                 [&](const auto& e) -> Reason {
                   using Kind = std::decay_t<decltype(e)>;
                   std::string_view why = otherwise;
                   if constexpr (std::is_invocable_v<const RefusesRelease&, const Kind&>) {
                     return refuses_release(e);
                   } else if constexpr (requires { Kind::kUnproved; }) {
                     why = Kind::kUnproved;
                   }
                   return std::string(Kind::kKind) + ": " + std::string(why);
                 }},
      event.kind());
}

}  // namespace privgrad
