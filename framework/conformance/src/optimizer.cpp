#include "privgrad/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "inputs.hpp"
#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr std::size_t kSize = 17;  // not a multiple of a vector register's size
constexpr std::uint64_t kSteps = 8;

/// A training run with invented releases.
class Training {
 public:
  Training(const Checker& checker, Optimizer& optimizer, std::uint64_t seed = 1)
      : checker_(checker), optimizer_(optimizer), seed_(seed), parameters_(initial(seed)) {}

  void run(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t step = first; step < last; ++step) {
      give(normal_values(100 * seed_ + step, kSize), step);
    }
  }

  /// Makes a step. \returns whether the optimizer left the release unchanged.
  bool give(const std::vector<float>& gradient, std::uint64_t step) {
    const Released released = checker_.setup().make_released(gradient, 0.5);
    optimizer_.step(parameters_, released, {.step = step, .learning_rate = 0.1});
    return same_bits({released.values().begin(), released.values().end()}, gradient);
  }

  std::vector<float>& parameters() { return parameters_; }
  static std::vector<float> initial(std::uint64_t seed) { return normal_values(seed, kSize); }

 private:
  const Checker& checker_;
  Optimizer& optimizer_;
  std::uint64_t seed_;
  std::vector<float> parameters_;
};

std::vector<float> trained(const Checker& checker, Optimizer& optimizer, std::uint64_t seed = 1) {
  Training training(checker, optimizer, seed);
  training.run(0, kSteps);
  return training.parameters();
}

void require_finite(const std::vector<float>& values, const std::string& when) {
  for (const float value : values) {
    require(std::isfinite(value), "a parameter is " + format_number(value) + " " + when);
  }
}

void check_refusal(Checker& checker, float bad, std::size_t place) {
  const auto optimizer = checker.make<Optimizer>();
  optimizer->start(kSize);
  Training training(checker, *optimizer);
  training.run(0, 3);
  const std::vector<float> before = training.parameters();
  std::vector<float> gradient = normal_values(7, kSize);
  gradient[place] = bad;
  require_throws(Thrown::numeric,
                 "step() with " + format_number(bad) + " at place " + std::to_string(place),
                 [&] { training.give(gradient, 3); });
  require(same_bits(before, training.parameters()), "step() refused " + format_number(bad) +
                                                        " at place " + std::to_string(place) +
                                                        " but changed the parameters");
}

void check_state(Checker& checker) {
  checker.rule("state_is_one_list", [&] {
    const auto optimizer = checker.make<Optimizer>();
    optimizer->start(kSize);
    Training training(checker, *optimizer);
    training.run(0, 3);
    require_state_list(*optimizer);
  });
  checker.rule("resumes_as_if_uninterrupted", [&] {
    for (std::uint64_t stop = 0; stop <= 3; ++stop) {
      const auto first = checker.make<Optimizer>();
      first->start(kSize);
      Training uninterrupted(checker, *first);
      uninterrupted.run(0, stop);
      const auto second = checker.make<Optimizer>();
      second->start(kSize);
      copy_state(*first, *second);
      Training resumed(checker, *second);
      resumed.parameters() = uninterrupted.parameters();
      uninterrupted.run(stop, kSteps);
      resumed.run(stop, kSteps);
      require(
          same_bits(uninterrupted.parameters(), resumed.parameters()),
          "with the state of another one after " + std::to_string(stop) +
              " step(s), it continues differently: state() does not list all that it remembers");
    }
  });
}

/// Requires that the concatenated states of the parts equal the state of the whole.
void require_state_of_parts(Optimizer& whole, std::span<const ComponentPtr<Optimizer>> parts,
                            const std::string& where) {
  const std::vector<StateMember> members = whole.state();
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::vector<float> together;
    bool is_same = true;
    for (const auto& part : parts) {
      const StateMember own = part->state().at(i);
      if (const auto* numbers = std::get_if<std::vector<float>*>(&own.value)) {
        together.insert(together.end(), (*numbers)->begin(), (*numbers)->end());
      } else {
        is_same = is_same && *std::get<std::uint64_t*>(own.value) ==
                                 *std::get<std::uint64_t*>(members[i].value);
      }
    }
    if (const auto* numbers = std::get_if<std::vector<float>*>(&members[i].value))
      is_same = (*numbers)->size() == kSize && same_bits(together, **numbers);
    require(is_same, "the states of " + where + " put together are not the state of one (" +
                         std::string(members[i].name) + ")");
  }
}

/// Requires that optimizers for parts of the parameters move these as a single optimizer would.
void check_parts(Checker& checker, const std::vector<std::size_t>& sizes) {
  const auto one = checker.make<Optimizer>();
  one->start(kSize);
  Training whole(checker, *one);
  std::vector<ComponentPtr<Optimizer>> parts;
  for (const std::size_t size : sizes) {
    parts.push_back(checker.make<Optimizer>());
    parts.back()->start(size);
  }
  std::vector<float> parameters = whole.parameters();
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<float> gradient = normal_values(100 + step, kSize);
    whole.give(gradient, step);
    std::size_t begin = 0;
    for (std::size_t part = 0; part < sizes.size(); begin += sizes[part++]) {
      const auto from = gradient.begin() + static_cast<std::ptrdiff_t>(begin);
      const Released released = checker.setup().make_released(
          std::vector<float>(from, from + static_cast<std::ptrdiff_t>(sizes[part])), 0.5);
      parts[part]->step(std::span(parameters).subspan(begin, sizes[part]), released,
                        {.step = step, .learning_rate = 0.1});
    }
  }
  const std::string where = std::to_string(sizes.size()) + " parts, the first of " +
                            std::to_string(sizes.front()) + " parameter(s),";
  require(same_bits(parameters, whole.parameters()),
          "the parameters of " + where + " move differently than as one part");
  require_state_of_parts(*one, parts, where);
}

void check_coordinatewise(Checker& checker) {
  checker.rule("parts_move_as_the_whole_does", [&] {
    for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{
             {kSize}, {1, kSize - 1}, {kSize - 1, 1}, {5, 8, 4}, {8, 9}})
      check_parts(checker, sizes);
  });
}

std::vector<std::vector<float>*> vectors_of(Optimizer& optimizer) {
  std::vector<std::vector<float>*> vectors;
  for (const StateMember& member : optimizer.state()) {
    if (const auto* numbers = std::get_if<std::vector<float>*>(&member.value))
      vectors.push_back(*numbers);
  }
  return vectors;
}

void check_rule(Checker& checker) {
  checker.rule("steps_are_the_rule", [&] {
    const auto stepped = checker.make<Optimizer>(), told = checker.make<Optimizer>();
    stepped->start(kSize);
    told->start(kSize);
    const StepRule::Kind kind = told->rule().value();
    require(told->is_coordinatewise(), "its steps are a rule, and it is not coordinatewise");
    const auto own = vectors_of(*told);
    require(own.size() == state_vectors(kind),
            "its state has other vectors than a rule of its kind");
    for (const auto* vector : own)
      require(vector->size() == kSize, "its state has vectors of another length than parameters");
    std::vector<std::vector<float>> ahead(own.size(), std::vector<float>(kSize, 0.0f));
    const auto vector = [&](std::size_t i) {
      return i < ahead.size() ? std::span(ahead[i]) : std::span<float>();
    };
    Training training(checker, *stepped);
    std::vector<float> parameters = training.parameters();
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<float> gradient = normal_values(70 + step, kSize);
      training.give(gradient, step);
      const StepRule rule = told->next_rule({.step = step, .learning_rate = 0.1});
      require(rule.kind == kind, "next_rule() gives a rule of another kind than rule()");
      apply(rule, parameters, vector(0), vector(1), gradient);
      require(same_bits(parameters, training.parameters()),
              "step " + std::to_string(step) + " does not move parameters as its rule does");
      // The vectors are the responsibility of the caller that makes the steps; all other state is
      // the optimizer's.
      for (std::size_t i = 0; i < own.size(); ++i) *own[i] = ahead[i];
      require(same_bits(state_of(*stepped), state_of(*told)),
              "after step " + std::to_string(step) +
                  " the state is another by its rule than by step()");
    }
  });
}

void check_anchors(Checker& checker) {
  // The anchors exist as long as the rules run: an optimizer that keeps a reference to an anchor
  // must break its rule instead of reading freed memory.
  const std::vector<float> anchors[] = {normal_values(501, kSize), normal_values(502, kSize)};
  const auto begin_round = [&](Optimizer& optimizer, std::uint64_t seed) {
    optimizer.start(kSize);
    optimizer.anchor(anchors[seed - 1]);
  };
  const auto round = [&](std::uint64_t seed) {
    const auto optimizer = checker.make<Optimizer>();
    begin_round(*optimizer, seed);
    return trained(checker, *optimizer);
  };
  checker.rule("anchor_is_copied", [&] {
    const auto optimizer = checker.make<Optimizer>();
    std::vector<float> anchor = anchors[0];
    optimizer->start(kSize);
    optimizer->anchor(anchor);
    std::ranges::fill(anchor, std::numeric_limits<float>::quiet_NaN());
    require(same_bits(trained(checker, *optimizer), round(1)),
            "the argument of anchor() is read after the call");
  });
  checker.rule("a_new_round_forgets_the_last_one", [&] {
    const auto optimizer = checker.make<Optimizer>();
    begin_round(*optimizer, 2);
    trained(checker, *optimizer, 2);
    begin_round(*optimizer, 1);
    require(same_bits(trained(checker, *optimizer), round(1)),
            "after start() and anchor(), it still knows an earlier round");
  });
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): it is one list
void check_optimizer(Checker& checker) {
  if (!checker.setup().make_released) {
    checker.skip("takes_steps", "released values cannot be made here");
    return;
  }
  const auto fresh = [&](std::uint64_t seed = 1) {
    const auto optimizer = checker.make<Optimizer>();
    optimizer->start(kSize);
    return trained(checker, *optimizer, seed);
  };
  if (!checker.rule("takes_steps", [&] {
        const std::vector<float> after = fresh();
        require(!same_bits(after, Training::initial(1)),
                "eight steps with learning rate 0.1 changed no parameter");
        require_finite(after, "after eight ordinary steps");
      })) {
    return;
  }
  checker.rule("leaves_the_release_as_it_is", [&] {
    const auto optimizer = checker.make<Optimizer>();
    optimizer->start(kSize);
    Training training(checker, *optimizer);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      require(training.give(normal_values(60 + step, kSize), step),
              "step() wrote into the release, which others read after it");
    }
  });
  checker.rule("stays_finite_on_zero_gradients", [&] {
    const auto optimizer = checker.make<Optimizer>();
    optimizer->start(kSize);
    Training training(checker, *optimizer);
    for (std::uint64_t step = 0; step < 3; ++step) {
      training.give(std::vector<float>(kSize, 0.0f), step);
      require_finite(training.parameters(), "after a gradient of zeros");
    }
  });
  checker.rule("is_deterministic", [&] {
    require(same_bits(fresh(), fresh()), "two runs with the same releases differ");
  });
  checker.rule("start_forgets", [&] {
    const auto optimizer = checker.make<Optimizer>();
    optimizer->start(kSize + 3);
    optimizer->start(kSize);
    trained(checker, *optimizer, 2);
    optimizer->start(kSize);
    require(same_bits(trained(checker, *optimizer), fresh()),
            "after start(), it still knows an earlier run");
  });
  checker.rule("instances_are_independent", [&] {
    const auto one = checker.make<Optimizer>();
    const auto two = checker.make<Optimizer>();
    one->start(kSize);
    two->start(kSize);
    Training first(checker, *one, 1);
    Training second(checker, *two, 2);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      first.run(step, step + 1);
      second.run(step, step + 1);
    }
    require(same_bits(first.parameters(), fresh(1)) && same_bits(second.parameters(), fresh(2)),
            "two instances used in turns give other results than alone");
  });
  checker.rule("instances_run_side_by_side", [&] {
    const std::vector<float> alone = fresh();
    for (const std::vector<float>& result : on_two_threads([&] { return fresh(); })) {
      require(same_bits(alone, result),
              "two instances on two threads give other results than alone");
    }
  });
  checker.rule("refuses_non_finite_gradients", [&] {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      for (const std::size_t place : {std::size_t{0}, kSize / 2, kSize - 1}) {
        check_refusal(checker, bad, place);
      }
    }
  });
  check_state(checker);
  const auto made = checker.make<Optimizer>();
  if (made->is_coordinatewise()) check_coordinatewise(checker);
  if (made->rule()) check_rule(checker);
  check_anchors(checker);
  check_abilities(checker, *made);
  check_range_ends(checker, [&](const Params& params) {
    const auto optimizer = checker.make<Optimizer>(params);
    optimizer->start(kSize);
    trained(checker, *optimizer);
  });
}

}  // namespace privgrad::testing
