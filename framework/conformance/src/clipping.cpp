#include "privgrad/clipping.hpp"

#include <cmath>
#include <limits>

#include "inputs.hpp"
#include "parameters.hpp"
#include "privgrad/clip_rule.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr double kClipNorms[] = {1e-3, 1.0, 7.5, 1e4};

/// Returns the groups of networks of 1, 2, 3 and 7 layers of different sizes.
std::vector<std::vector<ParameterGroup>> sample_layouts() {
  std::vector<std::vector<ParameterGroup>> layouts;
  for (const std::size_t layers : {1, 2, 3, 7}) {
    std::vector<ParameterGroup> groups;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < layers; ++i) {
      groups.push_back({"layers." + std::to_string(2 * i), offset, 10 * (i + 1)});
      offset += groups.back().size;
    }
    layouts.push_back(std::move(groups));
  }
  return layouts;
}

bool starts_with(Clipping& clipping, const std::vector<ParameterGroup>& groups) {
  // The groups are valid only during the call: a clipping that keeps the span reads wrong numbers.
  std::vector<ParameterGroup> lent = groups;
  const bool started = accepted("start() for " + std::to_string(groups.size()) + " group(s)",
                                {Thrown::config}, [&] { clipping.start(lent); });
  for (ParameterGroup& group : lent) group = {"gone", 0, 0};
  return started;
}

struct Example {
  std::vector<double> squared_norms;
  double clip_norm = 1.0;
};

/// Returns norms far below, near and far above each clip norm: in all groups, in one, in none.
std::vector<Example> sample_examples(std::size_t groups) {
  std::vector<Example> examples;
  PublicStream random(11);
  for (const double clip_norm : kClipNorms) {
    const double share = clip_norm / std::sqrt(static_cast<double>(groups));
    for (const double size : {1e-40, 1e-6, 0.5, 1.0 - 1e-15, 1.0, 1.0 + 1e-15, 2.0, 1e6, 1e30}) {
      const double norm = size * share;
      std::vector<double> alike(groups, norm * norm);
      std::vector<double> mixed(groups);
      for (double& x : mixed) x = norm * norm * 4.0 * random.uniform();
      std::vector<double> alone(groups, 0.0);
      alone[groups / 2] = norm * norm;
      for (auto* norms : {&alike, &mixed, &alone}) examples.push_back({*norms, clip_norm});
    }
    examples.push_back({std::vector<double>(groups, 0.0), clip_norm});
    // Adds the largest squared norms that a finite float32 gradient can have.
    examples.push_back({std::vector<double>(groups, 1e85), clip_norm});
  }
  return examples;
}

/// Returns the factors, written between guards to memory that contained `rubbish`.
std::vector<double> factors(const Clipping& clipping, const Example& example, double rubbish) {
  const std::size_t groups = example.squared_norms.size();
  constexpr double kGuard = 42.0;
  std::vector<double> out(groups + 2, rubbish);
  out.front() = out.back() = kGuard;
  clipping.factors(example.squared_norms, example.clip_norm, std::span(out).subspan(1, groups));
  require(out.front() == kGuard && out.back() == kGuard, "factors() wrote outside the factors");
  return {out.begin() + 1, out.end() - 1};
}

std::vector<double> all_factors(const Clipping& clipping, const std::vector<Example>& examples,
                                bool backwards = false) {
  std::vector<std::vector<double>> parts(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::size_t at = backwards ? examples.size() - 1 - i : i;
    parts[at] = factors(clipping, examples[at], 0.0);
  }
  std::vector<double> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string in_words(const Example& example) {
  std::string text = "clip_norm " + format_number(example.clip_norm) + " and squared norms";
  for (const double x : example.squared_norms) text += " " + format_number(x);
  return text;
}

void require_good_factors(const Clipping& clipping, const Example& example) {
  for (const double factor : factors(clipping, example, 0.0)) {
    require(std::isfinite(factor) && factor >= 0.0, "a factor is " + format_number(factor) +
                                                        " for " + in_words(example) +
                                                        "; it must be finite and not negative");
  }
}

/// Requires the bound up to rounding errors; the core itself enforces the bound to the last bit.
void require_clipped(const Clipping& clipping, const Example& example) {
  const std::vector<double> found = factors(clipping, example, 0.0);
  double squares = 0.0;
  for (std::size_t g = 0; g < found.size(); ++g) {
    const double norm = found[g] * std::sqrt(example.squared_norms[g]);
    squares += norm * norm;
  }
  require(std::sqrt(squares) <= example.clip_norm * (1.0 + 1e-9),
          "the contribution has norm " + format_number(std::sqrt(squares)) + " for " +
              in_words(example) + "; the core would have to cut it");
}

/// Returns norms at and next to the bounds of a rule, in a single group and in all groups; and
/// norms at the ends of the range of doubles.
std::vector<Example> examples_at_bounds(const ClipRule& rule, std::size_t groups,
                                        double clip_norm) {
  std::vector<Example> examples;
  const auto add = [&](const std::vector<double>& squared_norms) {
    examples.push_back({squared_norms, clip_norm});
    for (std::size_t g = 0; groups > 1 && g < groups; ++g) {
      std::vector<double> alone(groups, 0.0);
      alone[g] = squared_norms[g];
      examples.push_back({alone, clip_norm});
    }
  };
  for (const double squares : {0.0, std::numeric_limits<double>::denorm_min(), 1e-310,
                               std::numeric_limits<double>::min(), 1e-40, 1e76, 1e85, 1e300})
    add(std::vector<double>(groups, squares));
  // A norm is the root of its square, so norms next to the bound differ from it by some ulps.
  const bool is_whole = rule.bounds.size() == 1;
  const double share = is_whole ? std::sqrt(static_cast<double>(groups)) : 1.0;
  std::vector<double> at(groups), above, below;
  for (std::size_t g = 0; g < groups; ++g) {
    const double bound = rule.bounds[is_whole ? 0 : g] / share;
    at[g] = bound * bound;
  }
  add(at);
  above = below = at;
  for (int units = 0; units < 4; ++units) {
    for (double& x : above) x = std::nextafter(x, std::numeric_limits<double>::infinity());
    for (double& x : below) x = std::nextafter(x, 0.0);
    add(above);
    add(below);
  }
  return examples;
}

/// Requires equal bits from the rule and factors(), because steps on a device use only the rule.
void require_rule_of_factors(const Clipping& clipping, const HasClipRule& ruled,
                             std::size_t groups) {
  std::vector<Example> examples = sample_examples(groups);
  for (const double clip_norm : kClipNorms) {
    const ClipRule rule = ruled.clip_rule(clip_norm);
    const auto is_given = [](double x) { return std::isfinite(x) && x >= 0.0; };
    require(rule.bounds.size() == ruled.clip_rule(kClipNorms[0]).bounds.size() &&
                (rule.bounds.size() == 1 || rule.bounds.size() == groups),
            "clip_rule() has " + std::to_string(rule.bounds.size()) +
                " bounds; expected are 1 or " + std::to_string(groups) +
                ", as many for every clip norm");
    require(is_given(rule.gamma) && std::ranges::all_of(rule.bounds, is_given),
            "clip_rule() has a gamma or a bound that is negative or not finite");
    const auto more = examples_at_bounds(rule, groups, clip_norm);
    examples.insert(examples.end(), more.begin(), more.end());
  }
  for (const Example& example : examples) {
    std::vector<double> by_rule(groups);
    rule_factors(ruled.clip_rule(example.clip_norm), example.squared_norms, by_rule);
    require(same_bits(by_rule, factors(clipping, example, 0.0)),
            "clip_rule() gives other factors than factors() for " + in_words(example));
  }
}

void check_adaptive(Checker& checker, const AdaptiveClipNorm& adaptive) {
  constexpr double kShares[] = {-5.0, -0.1, 0.0, 0.3, 0.5, 0.9, 1.0, 1.2, 6.0};
  checker.rule("count_noise_leaves_some_for_the_gradients", [&] {
    for (const double batch : {1.0, 20.0, 256.0, 60000.0}) {
      for (const double multiplier : {0.01, 0.5, 1.0, 30.0}) {
        const double noise = adaptive.count_noise(batch, multiplier);
        require(std::isfinite(noise) && noise > multiplier / 2.0,
                "count_noise(" + format_number(batch) + ", " + format_number(multiplier) + ") is " +
                    format_number(noise) + "; it must be above half the multiplier");
      }
    }
  });
  checker.rule("clip_norms_stay_finite_and_above_0", [&] {
    for (const double clip_norm : kClipNorms) {
      for (const double share : kShares) {
        const double next = adaptive.next_clip_norm(clip_norm, share);
        require(std::isfinite(next) && next > 0.0, "next_clip_norm(" + format_number(clip_norm) +
                                                       ", " + format_number(share) + ") is " +
                                                       format_number(next));
      }
    }
  });
  checker.rule("more_unclipped_examples_never_raise_the_clip_norm", [&] {
    for (const double clip_norm : kClipNorms) {
      double last = std::numeric_limits<double>::infinity();
      for (const double share : kShares) {
        const double next = adaptive.next_clip_norm(clip_norm, share);
        require(next <= last, "from " + format_number(clip_norm) + ", a share of " +
                                  format_number(share) +
                                  " unclipped examples gives a larger clip norm than fewer do");
        last = next;
      }
    }
  });
  checker.rule("clip_norms_are_repeatable", [&] {
    const double first = adaptive.next_clip_norm(1.0, 0.3);
    static_cast<void>(adaptive.next_clip_norm(2.0, 0.9));
    require(same_bits(first, adaptive.next_clip_norm(1.0, 0.3)) &&
                same_bits(adaptive.count_noise(64.0, 1.0), adaptive.count_noise(64.0, 1.0)),
            "asked again, it gives another answer");
  });
}

/// Checks the factors and the rule with parameters at the ends of their ranges.
void check_ends_of_parameters(Checker& checker) {
  check_range_ends(checker, [&](const Params& params) {
    for (const auto& groups : sample_layouts()) {
      const auto clipping = checker.make<Clipping>(params);
      if (!starts_with(*clipping, groups)) continue;
      for (const Example& example : sample_examples(groups.size()))
        require_good_factors(*clipping, example);
      if (const auto* ruled = dynamic_cast<const HasClipRule*>(clipping.get()))
        require_rule_of_factors(*clipping, *ruled, groups.size());
    }
  });
}

}  // namespace

void check_clipping(Checker& checker) {
  std::vector<std::vector<ParameterGroup>> layouts;
  if (!checker.prepare("accepts_a_network", [&] {
        for (const auto& groups : sample_layouts()) {
          if (starts_with(*checker.make<Clipping>(), groups)) layouts.push_back(groups);
        }
        require(!layouts.empty(), "start() refuses networks of 1, 2, 3 and 7 layers");
      })) {
    return;
  }
  const auto started = [&](const std::vector<ParameterGroup>& groups) {
    auto clipping = checker.make<Clipping>();
    starts_with(*clipping, groups);
    return clipping;
  };
  const auto for_each_example = [&](const auto& check) {
    for (const auto& groups : layouts) {
      const auto clipping = started(groups);
      for (const Example& example : sample_examples(groups.size())) check(*clipping, example);
    }
  };
  if (!checker.rule("fills_every_factor", [&] {
        for_each_example([&](const Clipping& clipping, const Example& example) {
          require(same_bits(factors(clipping, example, -1.0), factors(clipping, example, 1e300)),
                  "factors() left a factor as it was, or read it, for " + in_words(example));
        });
      })) {
    return;
  }
  checker.rule("factors_are_finite_and_not_negative",
               [&] { for_each_example(require_good_factors); });
  checker.rule("contributions_keep_the_clip_norm", [&] { for_each_example(require_clipped); });
  checker.rule("an_example_does_not_change_another", [&] {
    for (const auto& groups : layouts) {
      const std::vector<Example> examples = sample_examples(groups.size());
      const auto clipping = started(groups);
      const std::vector<double> first = all_factors(*clipping, examples);
      require(same_bits(first, all_factors(*clipping, examples, true)),
              "asked in another order, the factors differ: an example's factors must follow from "
              "its own norms, or neighbours differ in more than one contribution");
      require(same_bits(first, all_factors(*started(groups), examples)),
              "another instance gives other factors");
    }
  });
  checker.rule("factors_are_the_same_on_every_thread", [&] {
    const auto clipping = started(layouts.back());
    const std::vector<Example> examples = sample_examples(layouts.back().size());
    const std::vector<double> alone = all_factors(*clipping, examples);
    for (const auto& result : on_two_threads([&] { return all_factors(*clipping, examples); })) {
      require(same_bits(alone, result), "on two threads, the factors differ");
    }
  });
  checker.rule("instances_are_independent", [&] {
    const std::vector<Example> examples = sample_examples(layouts.front().size());
    const auto one = started(layouts.front());
    const std::vector<double> before = all_factors(*one, examples);
    const auto two = started(layouts.back());
    all_factors(*two, sample_examples(layouts.back().size()));
    require(same_bits(before, all_factors(*one, examples)),
            "starting another instance changed the factors");
  });
  const auto clipping = started(layouts.front());
  if (const auto* adaptive = dynamic_cast<const AdaptiveClipNorm*>(clipping.get())) {
    check_adaptive(checker, *adaptive);
  }
  if (dynamic_cast<const CoordinateScaling*>(clipping.get()) != nullptr)
    check_coordinate_scaling(checker, layouts);
  if (dynamic_cast<const HasClipRule*>(clipping.get()) != nullptr) {
    checker.rule("clip_rule_gives_the_factors", [&] {
      for (const auto& groups : layouts) {
        const auto one = started(groups);
        require_rule_of_factors(*one, dynamic_cast<const HasClipRule&>(*one), groups.size());
      }
    });
  }
  check_ends_of_parameters(checker);
}

}  // namespace privgrad::testing
