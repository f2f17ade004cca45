#include "privgrad/aggregator.hpp"

#include <cmath>
#include <map>
#include <set>

#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr std::uint64_t kPlans[] = {1, 2, 37};

/// Returns noise multipliers that a schedule might have: positive and decreasing.
std::vector<double> multipliers(std::uint64_t steps, double scale) {
  std::vector<double> values;
  for (std::uint64_t step = 0; step < steps; ++step) {
    values.push_back(scale * (1.0 + 1.0 / static_cast<double>(step + 1)));
  }
  return values;
}

/// A small run, 12 examples in batches of 2, whose facts every theorem covers.
class SmallRun {
 public:
  SmallRun(std::uint64_t steps, double scale)
      : multipliers_(multipliers(steps, scale)),
        clip_norms_(steps, 1.5),
        learning_rates_(steps, 0.01) {}

  AggregationPlan plan() const {
    return {.steps = multipliers_.size(),
            .noise_multipliers = multipliers_,
            .clip_norms = clip_norms_,
            .learning_rates = learning_rates_,
            .facts = {.steps = multipliers_.size(),
                      .dataset_size = 12,
                      .parameters = 10000,
                      .batch_size = 2.0,
                      .target_epsilon = 0.5,
                      .target_delta = 1e-5}};
  }

  /// Overwrites the spans, which are valid only during a call, so that an aggregator that stored a
  /// span reads wrong numbers.
  void spoil() {
    for (std::vector<double>* some : {&multipliers_, &clip_norms_, &learning_rates_}) {
      for (double& value : *some) value = -1e300;
    }
  }

 private:
  std::vector<double> multipliers_, clip_norms_, learning_rates_;
};

void start(Aggregator& aggregator, std::uint64_t steps, double scale) {
  SmallRun run(steps, scale);
  const std::vector<double> numbers = aggregator.optimized(run.plan());
  if (!numbers.empty()) aggregator.use(numbers);
  aggregator.start(run.plan());
  run.spoil();
}

/// Returns all recipes as one row of numbers, for comparisons.
std::vector<double> recipes(const Aggregator& aggregator, std::uint64_t steps,
                            bool backwards = false) {
  std::vector<std::vector<double>> rows(steps);
  for (std::uint64_t i = 0; i < steps; ++i) {
    const std::uint64_t step = backwards ? steps - 1 - i : i;
    const ReleaseRecipe recipe = aggregator.recipe(step);
    std::vector<double>& row = rows[step];
    row = {recipe.keep, recipe.scale};
    for (const EarlierNoise& earlier : recipe.earlier) {
      row.push_back(static_cast<double>(earlier.step));
      row.push_back(earlier.share);
    }
    for (const NoiseTerm& term : recipe.noise) {
      row.push_back(static_cast<double>(term.node));
      row.push_back(term.multiplier);
    }
  }
  std::vector<double> all;
  for (const std::vector<double>& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

/// Returns the standard deviation of the noise in each release, in units of the L2 bound, by
/// applying the rule for z_t to the coefficients of the nodes.
std::vector<double> noise_deviations(const Aggregator& aggregator, std::uint64_t steps) {
  std::vector<std::map<std::uint64_t, double>> releases;  // each node's coefficient in z_t
  std::vector<double> keep;
  std::vector<double> deviations;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const ReleaseRecipe recipe = aggregator.recipe(step);
    keep.push_back(recipe.keep);
    std::map<std::uint64_t, double>& coefficients = releases.emplace_back();
    for (const EarlierNoise& earlier : recipe.earlier) {
      double carried = earlier.share;
      for (std::uint64_t t = earlier.step + 1; t <= step; ++t) carried *= keep[t];
      for (const auto& [node, coefficient] : releases[earlier.step])
        coefficients[node] += carried * coefficient;
    }
    for (const NoiseTerm& term : recipe.noise) coefficients[term.node] += term.multiplier;
    double variance = 0.0;
    for (const auto& [node, coefficient] : coefficients) variance += coefficient * coefficient;
    deviations.push_back(std::fabs(recipe.scale) * std::sqrt(variance));
  }
  return deviations;
}

void require_finite(const Aggregator& aggregator, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps; ++step) {
    const ReleaseRecipe recipe = aggregator.recipe(step);
    const std::string where = " at step " + std::to_string(step) + " of " + std::to_string(steps);
    require(std::isfinite(recipe.keep), "keep is " + format_number(recipe.keep) + where);
    require(std::isfinite(recipe.scale), "scale is " + format_number(recipe.scale) + where);
    for (const EarlierNoise& earlier : recipe.earlier) {
      require(std::isfinite(earlier.share), "a share is " + format_number(earlier.share) + where);
      require(earlier.step < step, "it continues step " + std::to_string(earlier.step) + where);
    }
    for (const NoiseTerm& term : recipe.noise) {
      require(std::isfinite(term.multiplier),
              "a multiplier is " + format_number(term.multiplier) + where);
    }
  }
}

void require_traits(const Checker& checker, const Aggregator& aggregator, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps; ++step) {
    const ReleaseRecipe recipe = aggregator.recipe(step);
    if (recipe.keep != 0.0 || !recipe.earlier.empty())
      require_declared(checker, trait::correlated, "its recipes depend on earlier steps");
    if (aggregator.window() > 0)
      require_declared(checker, trait::correlated, "it names the noise of earlier steps");
  }
}

/// Requires that a recipe repeats a node only within the window, once, and not as its first term.
void require_nodes(const Aggregator& aggregator, std::uint64_t steps) {
  const std::uint64_t window = aggregator.window();
  require(window <= kMostNoiseWindow, "its window is " + std::to_string(window) +
                                          " steps, allowed are at most " +
                                          std::to_string(kMostNoiseWindow));
  // the first node of each step; without a window, every node
  std::map<std::uint64_t, std::uint64_t> named;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const ReleaseRecipe recipe = aggregator.recipe(step);
    const std::string where = " at step " + std::to_string(step) + " of " + std::to_string(steps);
    require(!recipe.noise.empty() || window == 0, "it names no noise of its own" + where);
    std::set<std::uint64_t> here;
    for (std::size_t i = 0; i < recipe.noise.size(); ++i) {
      const std::uint64_t node = recipe.noise[i].node;
      const auto earlier = named.find(node);
      if (window == 0 || i == 0) {
        require(earlier == named.end(), "it names node " + std::to_string(node) + " again" + where);
        named[node] = step;
        continue;
      }
      require(here.insert(node).second, "it names node " + std::to_string(node) + " twice" + where);
      require(earlier != named.end() && earlier->second != step && step - earlier->second <= window,
              "it names node " + std::to_string(node) + ", which no step of its window began with" +
                  where);
    }
  }
}

/// Checks the recipes of differences, and their bounds, by the calls that the core makes.
void require_differences(const Aggregator& aggregator, std::uint64_t steps) {
  const auto* differences = dynamic_cast<const UsesGradientDifferences*>(&aggregator);
  if (differences == nullptr) return;
  const std::uint64_t epoch = differences->epoch_steps();
  require(epoch > 0, "its epochs have no steps");
  const auto noises = differences->combined_noise();
  require(noises.size() == steps, "it tells the noise of " + std::to_string(noises.size()) +
                                      " steps of " + std::to_string(steps));
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::string where = " at step " + std::to_string(step) + " of " + std::to_string(steps);
    require(noises[step] > 0.0 && std::isfinite(noises[step]),
            "the combined noise is " + format_number(noises[step]) + where);
    for (const auto kind :
         {GradientDifference::since_anchor, GradientDifference::between_anchors}) {
      const std::uint64_t first = kind == GradientDifference::since_anchor ? 0 : epoch;
      if (step < first) continue;
      const double bound = differences->difference_bound(kind, step);
      require(bound >= 0.0 && bound <= 2.0,
              "a difference's bound is " + format_number(bound) + where + ", expected [0, 2]");
      const ReleaseRecipe recipe = differences->difference_recipe(kind, step - first);
      require(std::isfinite(recipe.keep) && std::isfinite(recipe.scale) && !recipe.noise.empty(),
              "the recipe of a difference cannot be run" + where);
    }
  }
}

/// Requires that the numbers stay the same if all noise is multiplied by one factor, because a
/// calibration computes the numbers only once for all its trials.
void require_optimized(const Aggregator& aggregator, std::uint64_t steps) {
  const auto found = [&](double scale) {
    return aggregator.optimized(SmallRun(steps, scale).plan());
  };
  const std::vector<double> numbers = found(1.0);
  for (const double number : numbers)
    require(std::isfinite(number), "optimized() found " + format_number(number));
  require(same_bits(numbers, found(1.0)), "optimized() differs when asked again");
  require(same_bits(numbers, found(2.0)), "optimized() differs with twice the noise");
}

/// Requires that each value has a name, a number and a reason, and is the same on a second call.
void require_told(const Aggregator& chooser) {
  const std::vector<AutoValue> told = chooser.auto_values();
  const std::vector<AutoValue> again = chooser.auto_values();
  require(again.size() == told.size(), "auto_values() differs when asked again");
  for (std::size_t i = 0; i < told.size(); ++i) {
    require(!told[i].name.empty(), "auto_values() gave a value without a name");
    require(std::isfinite(told[i].value),
            "auto_values() gave " + format_number(told[i].value) + " for " + told[i].name);
    require(!told[i].reason.empty(), "auto_values() gave no reason for " + told[i].name);
    require(again[i].name == told[i].name && same_bits(again[i].value, told[i].value),
            "auto_values() differs when asked again");
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): it is one list
void check_aggregator(Checker& checker) {
  const auto started = [&](std::uint64_t steps, double scale) {
    auto aggregator = checker.make<Aggregator>();
    start(*aggregator, steps, scale);
    return aggregator;
  };
  if (!checker.rule("recipes_are_finite", [&] {
        for (const std::uint64_t steps : kPlans) require_finite(*started(steps, 1.0), steps);
      })) {
    return;
  }
  checker.rule("recipes_are_repeatable", [&] {
    for (const std::uint64_t steps : kPlans) {
      const auto aggregator = started(steps, 1.0);
      const std::vector<double> first = recipes(*aggregator, steps);
      require(
          same_bits(first, recipes(*aggregator, steps, true)),
          "asked in another order, the recipes differ over " + std::to_string(steps) + " step(s)");
      require(same_bits(first, recipes(*started(steps, 1.0), steps)),
              "another instance gives other recipes for the same plan");
    }
  });
  checker.rule("recipes_are_the_same_on_every_thread", [&] {
    const auto aggregator = started(37, 1.0);
    const std::vector<double> alone = recipes(*aggregator, 37);
    for (const auto& result : on_two_threads([&] { return recipes(*aggregator, 37); })) {
      require(same_bits(alone, result), "on two threads, the recipes differ");
    }
  });
  checker.rule("start_forgets", [&] {
    const auto aggregator = started(37, 3.0);
    start(*aggregator, 2, 0.25);
    start(*aggregator, 37, 1.0);
    require(
        same_bits(recipes(*aggregator, 37), recipes(*started(37, 1.0), 37)),
        "started again with other multipliers, as calibration does, it remembers the earlier ones");
  });
  checker.rule("instances_are_independent", [&] {
    const auto one = started(37, 1.0);
    const std::vector<double> before = recipes(*one, 37);
    const auto two = started(5, 9.0);
    require(same_bits(before, recipes(*one, 37)), "starting another instance changed the recipes");
  });
  checker.rule("every_release_is_noised", [&] {
    for (const std::uint64_t steps : kPlans) {
      const std::vector<double> deviations = noise_deviations(*started(steps, 1.0), steps);
      for (std::uint64_t step = 0; step < steps; ++step) {
        require(deviations[step] > 0.0, "the release of step " + std::to_string(step) + " of " +
                                            std::to_string(steps) + " has no noise");
      }
    }
  });
  checker.rule("nodes_come_back_within_the_window", [&] {
    for (const std::uint64_t steps : kPlans) require_nodes(*started(steps, 1.0), steps);
  });
  checker.rule("traits_are_declared", [&] {
    for (const std::uint64_t steps : kPlans) require_traits(checker, *started(steps, 1.0), steps);
  });
  checker.rule("differences_can_be_run", [&] {
    for (const std::uint64_t steps : kPlans) require_differences(*started(steps, 1.0), steps);
  });
  checker.rule("noise_follows_the_plan", [&] {
    const std::vector<double> less = noise_deviations(*started(37, 1.0), 37);
    const std::vector<double> more = noise_deviations(*started(37, 2.0), 37);
    for (std::size_t step = 0; step < less.size(); ++step) {
      require(more[step] > less[step], "twice the noise multipliers give no more noise at step " +
                                           std::to_string(step) +
                                           ": calibration could not find a scale");
    }
  });
  checker.rule("optimized_numbers_follow_the_plan", [&] {
    for (const std::uint64_t steps : kPlans) require_optimized(*checker.make<Aggregator>(), steps);
  });
  if (!started(37, 1.0)->auto_values().empty()) {
    checker.rule("values_that_it_chose_are_told", [&] {
      for (const std::uint64_t steps : kPlans) require_told(*started(steps, 1.0));
    });
  }
  if (!checker.make<Aggregator>()->state().empty())
    checker.rule("state_is_one_list", [&] { require_state_list(*started(37, 1.0)); });
  check_abilities(checker, *checker.make<Aggregator>());
  check_range_ends(checker, [&](const Params& params) {
    const auto aggregator = checker.make<Aggregator>(params);
    start(*aggregator, 37, 1.0);
    require_finite(*aggregator, 37);
  });
}

}  // namespace privgrad::testing
