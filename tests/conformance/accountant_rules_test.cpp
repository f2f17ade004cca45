#include <cmath>
#include <limits>
#include <numbers>
#include <thread>

#include "broken.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"

namespace accountant_rules_test {

using namespace privgrad;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Gaussians by their exact trade-off (Balle and Wang 2018, Theorem 5): the sum of the squares of
/// sensitivity / sigma says everything.
class Right : public Accountant {
 public:
  explicit Right(const Params&) {}
  void start(Adjacency adjacency) override {
    sensitivity_ = sensitivity_of_unit_bound(adjacency);
    square_ = 0.0;
  }
  std::optional<std::string> refuses(const Event& event) const override {
    return std::isnan(cost(event)) ? std::optional<std::string>("only Gaussians") : std::nullopt;
  }
  void compose(const Event& event, std::uint64_t count) override {
    if (std::isnan(cost(event))) throw PrivacyError("only Gaussians");
    if (count > 0) square_ += static_cast<double>(count) * cost(event);
  }
  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) throw ConfigError("delta is outside (0, 1)");
    return answer(smallest_epsilon(delta));
  }
  PrivacyAnswer delta(double epsilon) const override {
    if (!(epsilon >= 0.0)) throw ConfigError("epsilon is negative");
    return answer(delta_of(epsilon));
  }

 protected:
  /// The square of sensitivity / sigma that the event adds; NaN if it is not understood.
  virtual double cost(const Event& event) const {
    if (const auto* gaussian = std::get_if<GaussianEvent>(&event.kind())) {
      const double ratio = sensitivity_ / gaussian->noise_multiplier;
      return ratio * ratio;
    }
    if (std::holds_alternative<NonPrivateEvent>(event.kind())) return kInfinity;
    if (const auto* repeated = std::get_if<SelfComposedEvent>(&event.kind())) {
      return static_cast<double>(repeated->count) * cost(*repeated->of);
    }
    if (const auto* composed = std::get_if<ComposedEvent>(&event.kind())) {
      double sum = 0.0;
      for (const Event& part : composed->of) sum += cost(part);
      return sum;
    }
    return std::nan("");
  }
  static PrivacyAnswer answer(double value, BoundKind bound = BoundKind::exact) {
    return {.value = value, .bound = bound, .lower = value, .note = {}};
  }
  static double tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }
  double delta_of(double epsilon) const {
    if (square_ == 0.0) return 0.0;
    if (std::isinf(square_)) return 1.0;
    const double mu = std::sqrt(square_);
    const double second = tail(epsilon / mu + mu / 2.0);
    return std::max(
        0.0, tail(epsilon / mu - mu / 2.0) - (second == 0.0 ? 0.0 : std::exp(epsilon) * second));
  }
  double smallest_epsilon(double delta) const {
    if (std::isinf(square_)) return kInfinity;
    if (delta_of(0.0) <= delta) return 0.0;
    double low = 0.0;
    double high = 1.0;
    while (delta_of(high) > delta) high *= 2.0;
    for (int i = 0; i < 60; ++i)
      (delta_of((low + high) / 2) > delta ? low : high) = (low + high) / 2;
    return high;
  }
  double sensitivity_ = 1.0;
  double square_ = 0.0;
};

struct RefusesAll final : Right {
  using Right::Right;
  double cost(const Event&) const override { return std::nan(""); }
};
struct RefusesOddly final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    if (refuses(event)) throw ConfigError("only Gaussians");
    Right::compose(event, count);
  }
};
struct AddsThenRefuses final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    if (refuses(event)) square_ += 1.0;
    Right::compose(event, count);
  }
};
struct TakesWhatItRefuses final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    if (!refuses(event)) Right::compose(event, count);
  }
};
struct RefusesWhatItTakes final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    if (event == Event::gaussian(4.0)) throw PrivacyError("not that one");
    Right::compose(event, count);
  }
};
struct RefusesSilently final : Right {
  using Right::Right;
  std::optional<std::string> refuses(const Event& event) const override {
    return Right::refuses(event) ? std::optional<std::string>("") : std::nullopt;
  }
};
struct LooksAtTheTopOnly final : Right {
  using Right::Right;
  double cost(const Event& event) const override {
    const double sum = Right::cost(event);
    const bool nested = std::holds_alternative<ComposedEvent>(event.kind());
    return std::isnan(sum) && nested ? 1.0 : sum;
  }
};
struct NonPrivateIsFree final : Right {
  using Right::Right;
  double cost(const Event& event) const override {
    return std::isinf(Right::cost(event)) ? 0.0 : Right::cost(event);
  }
};
struct NoDeltaOfNothing final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return std::isinf(square_) ? answer(0.5) : Right::delta(epsilon);
  }
};
struct ClampsDelta final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    return Right::epsilon(std::isnan(delta) ? 0.5 : std::min(0.999, std::max(1e-300, delta)));
  }
};
struct ClampsEpsilon final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return Right::delta(std::fmax(0.0, epsilon));
  }
};
struct NanOfNothing final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    return answer(Right::epsilon(delta).value * (square_ / square_));
  }
};
struct NegativeEpsilon final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    return answer(Right::epsilon(delta).value - 1e-9);
  }
};
struct DeltaAboveOne final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return answer(1.5 + Right::delta(epsilon).value);
  }
};
struct NoBound final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    return answer(Right::epsilon(delta).value, BoundKind{});
  }
};
struct LowerAboveValue final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    PrivacyAnswer result = Right::epsilon(delta);
    result.lower = result.value + 1.0;
    return result;
  }
};
struct GrowsWithDelta final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override { return Right::epsilon(1.0 - delta); }
};
struct CheaperTogether final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, count > 0 ? 1 : 0);
    square_ /= static_cast<double>(std::max<std::uint64_t>(1, count));
  }
};
struct TwoMinds final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return answer(std::min(1.0, 2.0 * Right::delta(epsilon).value), BoundKind::upper);
  }
};
struct ThreadBound final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    const bool home = std::this_thread::get_id() == home_;
    return answer(Right::epsilon(delta).value + (home ? 0.0 : 1.0), BoundKind::estimate);
  }
  std::thread::id home_ = std::this_thread::get_id();
};
/// A cache that nobody clears.
struct TellsTheFirstAnswer final : Right {
  using Right::Right;
  void start(Adjacency adjacency) override {
    Right::start(adjacency);
    told_.reset();
  }
  PrivacyAnswer epsilon(double delta) const override {
    if (delta == 1e-5 && !told_) told_ = Right::epsilon(delta);
    return delta == 1e-5 ? *told_ : Right::epsilon(delta);
  }
  mutable std::optional<PrivacyAnswer> told_;
};
struct WrapsAt32Bits final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, count & 0xffffffff);
  }
};
struct LowerEpsilonAboveTruth final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    PrivacyAnswer result = answer(2.0 * Right::epsilon(delta).value, BoundKind::upper);
    result.lower = 0.75 * result.value;
    return result;
  }
};
struct CountsTwice final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, count * count);
  }
};
struct OrderCounts final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    square_ *= 1.01;
    Right::compose(event, count);
  }
};
struct ChargesForNothing final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, std::max<std::uint64_t>(1, count));
  }
};
struct NoiseUpsideDown final : Right {
  using Right::Right;
  double cost(const Event& event) const override { return 1.0 / Right::cost(event); }
};
struct Remembering final : Right {
  using Right::Right;
  void start(Adjacency adjacency) override { sensitivity_ = sensitivity_of_unit_bound(adjacency); }
};
struct Shared final : Right {
  using Right::Right;
  void start(Adjacency adjacency) override {
    Right::start(adjacency);
    all_ = 0.0;
  }
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, count);
    all_ = square_;
  }
  PrivacyAnswer epsilon(double delta) const override {
    Right copy{Params()};
    copy.start(Adjacency::zero_out);
    if (all_ > 0.0) copy.compose(Event::gaussian(1.0 / std::sqrt(all_)), 1);
    return copy.epsilon(delta);
  }
  inline static double all_ = 0.0;
};
struct IgnoresAdjacency final : Right {
  using Right::Right;
  void start(Adjacency) override { Right::start(Adjacency::zero_out); }
};
struct EpsilonTooSmall final : Right {
  using Right::Right;
  PrivacyAnswer epsilon(double delta) const override {
    return answer(0.999 * Right::epsilon(delta).value, BoundKind::upper);
  }
};
struct BoundCalledExact final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return answer(std::min(1.0, 1.001 * Right::delta(epsilon).value));
  }
};
struct LowerAboveTruth final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return answer(std::min(1.0, 1.001 * Right::delta(epsilon).value), BoundKind::upper);
  }
};

template <class Impl>
Findings findings() {
  return findings_on<Accountant, Impl>();
}

}  // namespace

TEST_CASE("each rule of accountants can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"supports_an_event", "it refuses gaussian", findings<RefusesAll>()},
       {"refuses_agrees_with_compose", "not ConfigError", findings<RefusesOddly>()},
       {"refuses_agrees_with_compose", "but changed what was spent", findings<AddsThenRefuses>()},
       {"refuses_agrees_with_compose", "must throw PrivacyError, not nothing",
        findings<TakesWhatItRefuses>()},
       {"refuses_agrees_with_compose", "PrivacyError was thrown: not that one",
        findings<RefusesWhatItTakes>()},
       {"refuses_agrees_with_compose", "no reason", findings<RefusesSilently>()},
       {"refuses_what_nothing_is_proved_about", "inside composed", findings<LooksAtTheTopOnly>()},
       {"gives_no_finite_epsilon_without_noise", "not infinity", findings<NonPrivateIsFree>()},
       {"gives_no_finite_epsilon_without_noise", "is 0.5, not 1", findings<NoDeltaOfNothing>()},
       {"refuses_impossible_questions", "epsilon(0) must throw", findings<ClampsDelta>()},
       {"refuses_impossible_questions", "delta(-1e-09) must throw", findings<ClampsEpsilon>()},
       {"answers_are_well_formed", "before anything was spent is NaN", findings<NanOfNothing>()},
       {"answers_are_well_formed", "below 0", findings<NegativeEpsilon>()},
       {"answers_are_well_formed", "above 1", findings<DeltaAboveOne>()},
       {"answers_are_well_formed", "kind of bound", findings<NoBound>()},
       {"answers_are_well_formed", "above its value", findings<LowerAboveValue>()},
       {"answers_fall_as_the_other_number_grows", "grows with delta", findings<GrowsWithDelta>()},
       {"more_releases_cost_no_less", "cost less than fewer", findings<CheaperTogether>()},
       {"epsilon_and_delta_agree", "but delta() of that", findings<TwoMinds>()},
       {"asking_changes_nothing", "asked between", findings<TellsTheFirstAnswer>()},
       {"answers_are_the_same_on_every_thread", "differ", findings<ThreadBound>()},
       {"counting_is_repeating", "one after the other", findings<CountsTwice>()},
       {"order_does_not_matter", "in the other order", findings<OrderCounts>()},
       {"nothing_costs_nothing", "zero times", findings<ChargesForNothing>()},
       {"more_noise_costs_no_more", "costs more than", findings<NoiseUpsideDown>()},
       {"start_forgets", "still knows", findings<Remembering>()},
       {"instances_are_independent", "another instance", findings<Shared>()},
       {"never_below_the_true_value", "under replace_one", findings<IgnoresAdjacency>()},
       {"never_below_the_true_value", "epsilon(1e-06) of 1 x", findings<EpsilonTooSmall>()},
       {"never_below_the_true_value", "is exact, but", findings<BoundCalledExact>()},
       {"never_below_the_true_value", "4294967297 x", findings<WrapsAt32Bits>()},
       {"never_below_the_true_value", "the lower bound of epsilon",
        findings<LowerEpsilonAboveTruth>()},
       {"never_below_the_true_value", "the lower bound of delta", findings<LowerAboveTruth>()}});
}

}  // namespace accountant_rules_test
