// Aggregators with one defect each, and the rule of the conformance suite that notices it.
#include <cmath>

#include "broken.hpp"
#include "right_aggregator.hpp"

namespace aggregator_rules_test {

using namespace privgrad;

namespace {

using Right = RightAggregator;

/// Correct correlated noise: s_t accumulates, and half of the previous noise is carried over.
struct Correlated final : Right {
  using Right::Right;
  ReleaseRecipe recipe(std::uint64_t step) const override {
    ReleaseRecipe recipe = of(step, multipliers_[step]);
    recipe.keep = 1.0;
    if (step > 0) recipe.earlier = {{.step = step - 1, .share = 0.5}};
    return recipe;
  }
};
struct Infinite final : Right {
  using Right::Right;
  ReleaseRecipe recipe(std::uint64_t step) const override {
    return of(step, step == 36 ? HUGE_VAL : multipliers_[step]);
  }
};
struct Shared final : Right {
  using Right::Right;
  void start(const AggregationPlan& plan) override {
    Right::start(plan);
    first_ = multipliers_.front();
  }
  ReleaseRecipe recipe(std::uint64_t step) const override { return of(step, first_); }
  inline static double first_ = 0.0;
};
/// Subtracts in the second step the noise that it added in the first.
struct Cancelling final : Right {
  using Right::Right;
  ReleaseRecipe recipe(std::uint64_t step) const override {
    ReleaseRecipe recipe = of(0, step == 0 ? 1.0 : -1.0);
    recipe.keep = 1.0;
    if (step > 0) recipe.earlier = {{.step = step - 1, .share = 1.0}};
    return recipe;
  }
};
struct OwnNoise final : Right {
  using Right::Right;
  ReleaseRecipe recipe(std::uint64_t step) const override { return of(step, 1.0); }
};

/// Subtracts half of the last step's noise, correctly with a window of one step.
struct TakesBack final : Right {
  using Right::Right;
  ReleaseRecipe recipe(std::uint64_t step) const override {
    ReleaseRecipe recipe = Right::recipe(step);
    if (step > 0)
      recipe.noise.push_back({.node = step - 1, .multiplier = -0.5 * multipliers_[step - 1]});
    return recipe;
  }
  std::uint64_t window() const override { return 1; }
};

/// Optimises a number by the absolute noise of the first step, not by ratios.
struct OptimisesForScale final : Right {
  using Right::Right;
  std::vector<double> optimized(const AggregationPlan& plan) const override {
    return {plan.noise_multipliers.front()};
  }
  void use(std::span<const double>) override {}
};

/// Correct differences of gradients, in epochs of four steps.
struct Differing : Right, UsesGradientDifferences {
  using Right::Right;
  std::uint64_t epoch_steps() const override { return 4; }
  double difference_bound(GradientDifference, std::uint64_t) const override { return 0.5; }
  ReleaseRecipe difference_recipe(GradientDifference, std::uint64_t step) const override {
    return of(step, 0.5);
  }
  void combine(std::uint64_t, std::span<const float> at_anchor, std::span<const float> since_anchor,
               std::span<const float>, std::span<float> out) override {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = at_anchor[i] + since_anchor[i];
  }
  std::vector<double> combined_noise() const override {
    return std::vector<double>(multipliers_.size(), 1.0);
  }
};
struct NoEpoch final : Differing {
  using Differing::Differing;
  std::uint64_t epoch_steps() const override { return 0; }
};
struct TooLong final : Differing {
  using Differing::Differing;
  double difference_bound(GradientDifference kind, std::uint64_t step) const override {
    return kind == GradientDifference::between_anchors && step == 5 ? 2.5 : 0.5;
  }
};
struct NoiselessDifference final : Differing {
  using Differing::Differing;
  ReleaseRecipe difference_recipe(GradientDifference, std::uint64_t) const override {
    return {.keep = 0.0, .earlier = {}, .noise = {}};
  }
};
struct UntoldNoise final : Differing {
  using Differing::Differing;
  std::vector<double> combined_noise() const override { return {1.0}; }
};

template <class Impl>
Findings findings(std::vector<std::string> traits = {}) {
  return findings_on<Aggregator, Impl>({.name = "fixture",
                                        .summary = "A component made for a test.",
                                        .reference = "none: a definition",
                                        .params = {},
                                        .traits = std::move(traits)});
}

}  // namespace

TEST_CASE("each rule of aggregators can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"recipes_are_finite", "a multiplier is inf at step 36", findings<Infinite>()},
       {"recipes_are_finite", "keep is nan", findings_on("aggregator/keeps_nan")},
       {"recipes_are_finite", "continues step 0 at step 0",
        findings_on("aggregator/continues_itself")},
       {"recipes_are_repeatable", "in another order", findings_on("aggregator/quieter_by_call")},
       {"recipes_are_the_same_on_every_thread", "differ", findings_on("aggregator/thread_decides")},
       {"start_forgets", "as calibration does", findings_on("aggregator/quieter_at_each_start")},
       {"instances_are_independent", "changed the recipes", findings<Shared>()},
       {"every_release_is_noised", "step 1 of 2 has no noise",
        findings_on("aggregator/silent_second_step")},
       {"every_release_is_noised", "step 1 of 2 has no noise", findings<Cancelling>()},
       {"nodes_come_back_within_the_window", "names node 0 again",
        findings_on("aggregator/one_node_twice")},
       {"nodes_come_back_within_the_window", "names node 0, which no step of its window began with",
        findings_on("aggregator/takes_older_back")},
       {"nodes_come_back_within_the_window", "names node 0 twice",
        findings_on("aggregator/takes_back_twice")},
       {"nodes_come_back_within_the_window", "names node 0 again",
        findings_on("aggregator/old_nodes_go_round")},
       {"nodes_come_back_within_the_window", "its window is 100 steps, allowed are at most 15",
        findings_on("aggregator/window_of_a_hundred")},
       {"optimized_numbers_follow_the_plan", "differs with twice the noise",
        findings<OptimisesForScale>()},
       {"differences_can_be_run", "have no steps", findings<NoEpoch>()},
       {"differences_can_be_run", "bound is 2.5 at step 5", findings<TooLong>()},
       {"differences_can_be_run", "cannot be run at step 0", findings<NoiselessDifference>()},
       {"differences_can_be_run", "the noise of 1 steps", findings<UntoldNoise>()},
       {"traits_are_declared", "does not declare the trait 'correlated'", findings<Correlated>()},
       {"traits_are_declared", "does not declare the trait 'correlated'", findings<TakesBack>()},
       {"noise_follows_the_plan", "no more noise at step 0", findings<OwnNoise>()}});
}

TEST_CASE("an aggregator with correlated noise conforms") {
  CHECK(findings_text(findings<Correlated>({"correlated"}), privgrad::testing::Verdict::failed) ==
        "");
}

TEST_CASE("an aggregator that takes noise back conforms") {
  CHECK(findings_text(findings<TakesBack>({"correlated"}), privgrad::testing::Verdict::failed) ==
        "");
}

TEST_CASE("an aggregator of differences of gradients conforms") {
  CHECK(findings_text(findings<Differing>(), privgrad::testing::Verdict::failed) == "");
}

}  // namespace aggregator_rules_test
