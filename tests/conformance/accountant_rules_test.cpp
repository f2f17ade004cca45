// Accountants with one defect each, and the rule of the conformance suite that notices it.
#include <algorithm>
#include <cmath>

#include "broken.hpp"
#include "right_accountant.hpp"

namespace accountant_rules_test {

using namespace privgrad;

namespace {

using Right = RightAccountant;

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
struct CheaperTogether final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, count > 0 ? 1 : 0);
    square_ /= static_cast<double>(std::max<std::uint64_t>(1, count));
  }
};
struct ChargesForNothing final : Right {
  using Right::Right;
  void compose(const Event& event, std::uint64_t count) override {
    Right::compose(event, std::max<std::uint64_t>(1, count));
  }
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
struct BoundCalledExact final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    return exactly(std::min(1.0, 1.001 * Right::delta(epsilon).value));
  }
};
struct LowerAboveTruth final : Right {
  using Right::Right;
  PrivacyAnswer delta(double epsilon) const override {
    PrivacyAnswer result = answer(std::min(1.0, 1.001 * Right::delta(epsilon).value));
    result.lower = result.value;
    return result;
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
       {"refuses_what_nothing_is_proved_about", "inside composed",
        findings_on("accountant/nested_is_free")},
       {"gives_no_finite_epsilon_without_noise", "not infinity",
        findings_on("accountant/non_private_is_free")},
       {"gives_no_finite_epsilon_without_noise", "is 0.5, not 1", findings<NoDeltaOfNothing>()},
       {"refuses_impossible_questions", "epsilon(0) must throw", findings<ClampsDelta>()},
       {"refuses_impossible_questions", "delta(-1e-09) must throw", findings<ClampsEpsilon>()},
       {"answers_are_well_formed", "before anything was spent is NaN",
        findings_on("accountant/epsilon_nan")},
       {"answers_are_well_formed", "below 0", findings_on("accountant/epsilon_negative")},
       {"answers_are_well_formed", "above 1", findings_on("accountant/delta_above_one")},
       {"answers_are_well_formed", "kind of bound", findings_on("accountant/no_kind_of_bound")},
       {"answers_are_well_formed", "above its value", findings_on("accountant/lower_above_value")},
       {"answers_fall_as_the_other_number_grows", "grows with delta",
        findings_on("accountant/grows_with_delta")},
       {"more_releases_cost_no_less", "cost less than fewer", findings<CheaperTogether>()},
       {"epsilon_and_delta_agree", "but delta() of that", findings_on("accountant/epsilon_half")},
       {"asking_changes_nothing", "asked between",
        findings_on("accountant/tells_the_first_answer")},
       {"answers_are_the_same_on_every_thread", "differ", findings_on("accountant/thread_decides")},
       {"counting_is_repeating", "one after the other", findings_on("accountant/root_of_count")},
       {"order_does_not_matter", "in the other order", findings_on("accountant/order_counts")},
       {"nothing_costs_nothing", "zero times", findings<ChargesForNothing>()},
       {"more_noise_costs_no_more", "costs more than", findings_on("accountant/noise_upside_down")},
       {"start_forgets", "still remembers", findings_on("accountant/start_forgets_nothing")},
       {"instances_are_independent", "another instance", findings<Shared>()},
       {"never_below_the_true_value", "under replace_one",
        findings_on("accountant/replace_one_as_zero_out")},
       {"never_below_the_true_value", "epsilon(1e-06) of 1 x",
        findings_on("accountant/epsilon_a_thousandth_less")},
       {"never_below_the_true_value", "is exact, but", findings<BoundCalledExact>()},
       {"never_below_the_true_value", "4294967297 x", findings_on("accountant/count_in_32_bits")},
       {"never_below_the_true_value", "the lower bound of epsilon",
        findings_on("accountant/lower_above_truth")},
       {"never_below_the_true_value", "the lower bound of delta", findings<LowerAboveTruth>()}});
}

}  // namespace accountant_rules_test
