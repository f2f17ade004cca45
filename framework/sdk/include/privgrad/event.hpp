// The vocabulary in which releases are described to accountants: Gaussian, sampled, composed, ...
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

class Event;

/// How an event's batches are drawn. For every kind of draw, the event's cost assumes that the draw
/// is secret.
struct Sampling {
  enum class Draw {
    coins = 1,  ///< Each example is drawn by its own coin.
    subset,     ///< A uniformly random set of `size` out of `rows` examples.
    epoch,      ///< Each example is in one of `steps` steps, drawn independently.
  };
  Draw draw = Draw::coins;
  double rate = 1.0;  ///< The probability that a given example is in a given batch.
  std::uint64_t rows = 0, size = 0;
  std::uint64_t steps = 1;
  std::shared_ptr<const Event> of;  ///< The event that runs on each batch.
};

// Each kind of event has a name, kKind. Its function members() takes one or several events of this
// kind, and calls use(name, member...) for each member, passing that member of every event. Code
// that writes, reads or compares events therefore works for all kinds. An event whose batches are
// drawn describes the draw in sampling(). If an event's cost differs from the cost of its parts,
// and many accountants do not support the event, its kUnproved may name the theorem that those
// accountants lack (first_refusal()).

/// Gaussian noise of standard deviation `noise_multiplier` times the L2 bound of one unit's
/// contribution. The accountant turns the bound into a sensitivity under its adjacency (replace_one
/// doubles it).
struct GaussianEvent {
  double noise_multiplier = 0.0;  ///< > 0.

  static constexpr std::string_view kKind = "gaussian";
  static void members(const auto& use, auto&... self) {
    use("noise_multiplier", self.noise_multiplier...);
  }
};
/// Laplace noise of scale `noise_multiplier` times the L1 bound.
struct LaplaceEvent {
  double noise_multiplier = 0.0;  ///< > 0.

  static constexpr std::string_view kKind = "laplace";
  static void members(const auto& use, auto&... self) {
    use("noise_multiplier", self.noise_multiplier...);
  }
};
/// Discrete Gaussian noise on the integers (Canonne, Kamath, Steinke 2020).
struct DiscreteGaussianEvent {
  double sigma = 0.0;            ///< > 0, in grid units.
  std::int64_t sensitivity = 1;  ///< >= 0, in grid units.

  static constexpr std::string_view kKind = "discrete_gaussian";
  static void members(const auto& use, auto&... self) {
    use("sigma", self.sigma...);
    use("sensitivity", self.sensitivity...);
  }
};
/// Any mechanism known to be rho-zCDP under the accountant's adjacency.
struct ZcdpEvent {
  double rho = 0.0;  ///< >= 0.

  static constexpr std::string_view kKind = "zcdp";
  static void members(const auto& use, auto&... self) { use("rho", self.rho...); }
};
/// `of`, run on a batch that contains every example independently with this probability.
struct PoissonSampledEvent {
  double sampling_probability = 0.0;  ///< In [0, 1].
  std::shared_ptr<const Event> of;

  static constexpr std::string_view kKind = "poisson_sampled";
  static void members(const auto& use, auto&... self) {
    use("sampling_probability", self.sampling_probability...);
    use("of", self.of...);
  }
  Sampling sampling() const {
    return {.draw = Sampling::Draw::coins, .rate = sampling_probability, .of = of};
  }
};
/// `of`, run on a uniformly random subset of fixed size.
struct SampledWithoutReplacementEvent {
  std::int64_t source_dataset_size = 0;
  std::int64_t sample_size = 0;
  std::shared_ptr<const Event> of;

  static constexpr std::string_view kKind = "sampled_without_replacement";
  static void members(const auto& use, auto&... self) {
    use("source_dataset_size", self.source_dataset_size...);
    use("sample_size", self.sample_size...);
    use("of", self.of...);
  }
  Sampling sampling() const {
    return {.draw = Sampling::Draw::subset,
            .rate = static_cast<double>(sample_size) / static_cast<double>(source_dataset_size),
            .rows = static_cast<std::uint64_t>(source_dataset_size),
            .size = static_cast<std::uint64_t>(sample_size),
            .of = of};
  }
};
/// An epoch of `steps` steps, each of which runs `of` on its own batch: before the epoch, every
/// example draws one of the steps uniformly, independently of all other examples and of the data,
/// and belongs to the batch of that step only.
struct RandomAllocationEvent {
  std::int64_t steps = 0;  ///< >= 1.
  std::shared_ptr<const Event> of;

  static constexpr std::string_view kKind = "random_allocation";
  static void members(const auto& use, auto&... self) {
    use("steps", self.steps...);
    use("of", self.of...);
  }
  static constexpr std::string_view kUnproved =
      "no theorem here bounds an epoch in which each example draws its step";
  Sampling sampling() const {
    return {.draw = Sampling::Draw::epoch,
            .rate = 1.0 / static_cast<double>(steps),
            .steps = static_cast<std::uint64_t>(steps),
            .of = of};
  }
};
/// K runs, each with fresh randomness and one of `candidates`, drawn uniformly. Releases the output
/// of the run with the best score, of which the score is a part, but neither K, nor the other runs,
/// nor the candidate of any run. K is random, and drawn in advance without looking at the data. If
/// K = 0, only that fact is released.
///
/// K has the truncated negative binomial distribution of Papernot and Steinke 2022, Definition 1,
/// with eta = `shape`, or is Poisson.
struct RepeatAndSelectEvent {
  double mean = 1.0;   ///< E K: > 0 if K is Poisson, otherwise >= 1.
  double shape = 1.0;  ///< > -1; 0: logarithmic, 1: geometric, kPoisson: Poisson, where K may be 0.
  std::vector<Event> candidates;  ///< Not empty.

  static constexpr double kPoisson = std::numeric_limits<double>::infinity();
  bool is_poisson() const noexcept { return shape == kPoisson; }

  static constexpr std::string_view kKind = "repeat_and_select";
  static void members(const auto& use, auto&... self) {
    use("mean", self.mean...);
    use("shape", self.shape...);
    use("candidates", self.candidates...);
  }
  static constexpr std::string_view kUnproved =
      "no theorem here bounds the best of a random number of runs";
};
/// Several events, one after another, on the same data. An empty list: nothing was released.
struct ComposedEvent {
  std::vector<Event> of;

  static constexpr std::string_view kKind = "composed";
  static void members(const auto& use, auto&... self) { use("of", self.of...); }
};
struct SelfComposedEvent {
  std::int64_t count = 0;  ///< >= 0.
  std::shared_ptr<const Event> of;

  static constexpr std::string_view kKind = "self_composed";
  static void members(const auto& use, auto&... self) {
    use("count", self.count...);
    use("of", self.of...);
  }
};
/// A release without noise: no finite epsilon.
struct NonPrivateEvent {
  static constexpr std::string_view kKind = "non_private";
  static void members(const auto&, auto&...) {}
};
/// A mechanism about which nothing is proved, and the reason.
struct UnsupportedEvent {
  std::string reason;

  static constexpr std::string_view kKind = "unsupported";
  static void members(const auto& use, auto&... self) { use("reason", self.reason...); }
};

/// A description of what a mechanism did to the data, in the field's vocabulary; the input of every
/// accountant. Cheap to copy; immutable.
class PRIVGRAD_API Event {
 public:
  using Kind = std::variant<GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, ZcdpEvent,
                            PoissonSampledEvent, SampledWithoutReplacementEvent,
                            RandomAllocationEvent, RepeatAndSelectEvent, ComposedEvent,
                            SelfComposedEvent, NonPrivateEvent, UnsupportedEvent>;

  /// \throws ConfigError if a number is outside the range given at its field.
  explicit Event(Kind kind);

  static Event gaussian(double noise_multiplier);
  static Event laplace(double noise_multiplier);
  static Event discrete_gaussian(double sigma, std::int64_t sensitivity);
  static Event zcdp(double rho);
  static Event poisson_sampled(double sampling_probability, Event of);
  static Event sampled_without_replacement(std::int64_t source_dataset_size,
                                           std::int64_t sample_size, Event of);
  static Event random_allocation(std::int64_t steps, Event of);
  /// \param shape  as in RepeatAndSelectEvent.
  static Event repeat_and_select(double mean, double shape, std::vector<Event> candidates);
  static Event composed(std::vector<Event> of);
  static Event self_composed(std::int64_t count, Event of);
  static Event non_private();
  static Event unsupported(std::string reason);
  static Event nothing() { return composed({}); }

  const Kind& kind() const noexcept { return kind_; }

  /// The name in JSON: "gaussian", "poisson_sampled", ...
  std::string_view name() const noexcept;

  /// Whether this is nothing().
  bool is_nothing() const noexcept;

 private:
  Kind kind_;
};

/// Whether both events describe the same mechanism with equal numbers.
PRIVGRAD_API bool operator==(const Event& a, const Event& b);

/// How the event's batches are drawn; nothing if it does not sample.
PRIVGRAD_API std::optional<Sampling> sampling_of(const Event& event);

/// An event and how often it happens.
struct CountedEvent {
  Event event;
  std::uint64_t count = 0;
};

/// Returns the event as a list of releases that compose one after another, without "composed" and
/// "self_composed" at the top level. Accountants add up this list. Equal neighbours are merged.
/// \throws ConfigError if a count does not fit into 64 bits.
PRIVGRAD_API std::vector<CountedEvent> flatten(const Event& event);

/// The sequence as one event: repeated events become self_composed, and "nothing" is dropped.
PRIVGRAD_API Event compose_runs(const std::vector<Event>& sequence);

/// For std::visit of Event::kind(): one function per kind of event.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // Clang before 17 does not deduce it

}  // namespace privgrad
