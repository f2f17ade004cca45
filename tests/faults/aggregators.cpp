// Aggregators whose recipes differ from the plan, or prove nothing.
#include <atomic>
#include <cmath>
#include <thread>
#include <utility>

#include "fault.hpp"
#include "right_aggregator.hpp"

using namespace privgrad;

namespace aggregators {

std::atomic<std::uint64_t> made = 0;  // instances

class Base : public RightAggregator {
 public:
  using RightAggregator::RightAggregator;
  void start(const AggregationPlan& plan) override {
    RightAggregator::start(plan);
    ++starts_;
  }
  int starts_ = 0;
  mutable std::uint64_t calls_ = 0;
  /// The number of the instance; not its address, which may be reused.
  const std::uint64_t number_ = ++made;
};

/// A correct recipe, which a fault changes.
struct Step {
  const Base& self;
  std::uint64_t step;
  ReleaseRecipe& recipe;

  std::uint64_t& node() const { return recipe.noise[0].node; }
  double& multiplier() const { return recipe.noise[0].multiplier; }
};

struct Row {
  Told told;
  void (*change)(const Step&) = nullptr;
  std::uint64_t window = 0;
};

/// Adds a share of an older step's noise, by the number of that step's node.
void take_back(const Step& at, std::uint64_t age, double share) {
  if (age > at.step) return;
  const std::uint64_t older = at.step - age;
  at.recipe.noise.push_back({older, -share * at.self.multipliers_.at(older)});
}

/// The reason why the fault is harmless.
constexpr const char* kCharged =
    "charged by the recipe itself: epsilon is that of the noise that is added";
constexpr const char* kWhole = "charged as one mechanism with the whole matrix";

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Repeated noise.
    {.told = {"one_noise_for_all", "the noise of the first step in every step"},
     .change = [](const Step& at) { at.node() = 0; }},
    {.told = {"noise_of_the_step_before", "two steps share their noise: their difference has none"},
     .change = [](const Step& at) { at.node() = at.step / 2; }},
    {.told = {"noise_comes_back_late", "the first noise again, from step 8 on"},
     .change = [](const Step& at) { at.node() = at.step % 8; }},
    {.told = {"reused_in_the_run", "other noise nodes in the run than in the plan"},
     .change =
         [](const Step& at) {
           if (++at.self.calls_ > 60) at.node() = 0;
         }},
    {.told = {"one_node_twice", "a node twice in a recipe, counted as independent"},
     .change = [](const Step& at) { at.recipe.noise.push_back(at.recipe.noise.front()); }},
    {.told = {"cancels_itself", "a node with both signs: no noise at all"},
     .change =
         [](const Step& at) {
           at.recipe.noise.push_back({at.step, -at.multiplier()});
         }},
    {.told = {"takes_back", "continues the noise of the step before with the other sign",
              Let::harmless, "keep is 0, so nothing is carried: the recipe is charged as a matrix"},
     .change =
         [](const Step& at) {
           if (at.step > 0) at.recipe.earlier.push_back({at.step - 1, -1.0});
         }},
    // Noise of the last steps, within a window.
    {.told = {"takes_half_back", "half of the noise of the step before is taken back",
              Let::harmless, kWhole},
     .change = [](const Step& at) { take_back(at, 1, 0.5); },
     .window = 1},
    {.told = {"takes_older_back", "noise of a step that the window has left"},
     .change = [](const Step& at) { take_back(at, 2, 0.5); },
     .window = 1},
    {.told = {"takes_back_twice", "the noise of one older step twice in a recipe"},
     .change =
         [](const Step& at) {
           take_back(at, 1, 0.25);
           take_back(at, 1, 0.25);
         },
     .window = 1},
    {.told = {"begins_with_old_noise", "an older step's noise as if it were the step's own"},
     .change =
         [](const Step& at) {
           take_back(at, 1, 0.5);
           std::swap(at.recipe.noise.front(), at.recipe.noise.back());
         },
     .window = 1},
    {.told = {"old_nodes_go_round", "a node of the window is named anew, and means other noise"},
     .change =
         [](const Step& at) {
           at.node() %= 4;
           if (at.step > 0) at.recipe.noise.push_back({(at.step - 1) % 4, -0.5 * at.multiplier()});
         },
     .window = 3},
    {.told = {"takes_back_what_comes", "noise of the step to come"},
     .change =
         [](const Step& at) {
           at.recipe.noise.push_back({at.step + 1, -0.5 * at.multiplier()});
         },
     .window = 1},
    {.told = {"two_new_nodes", "two nodes of its own, of which a window has one"},
     .change =
         [](const Step& at) {
           at.recipe.noise.push_back({at.step + 100000, at.multiplier()});
         },
     .window = 1},
    {.told = {"takes_more_back_in_the_run", "takes more noise back than was planned"},
     .change = [](const Step& at) { take_back(at, 1, ++at.self.calls_ > 60 ? 0.9 : 0.5); },
     .window = 1},
    {.told = {"window_of_a_hundred", "more steps in the window than are kept"},
     .change = [](const Step& at) { take_back(at, 1, 0.5); },
     .window = 100},
    // Noise of the wrong size.
    {.told = {"half_the_noise", "half of the noise that was planned", Let::harmless, kCharged},
     .change = [](const Step& at) { at.multiplier() *= 0.5; }},
    {.told = {"ninety_nine_hundredths", "a hundredth less noise than was planned", Let::harmless,
              kCharged},
     .change = [](const Step& at) { at.multiplier() *= 0.99; }},
    {.told = {"noise_over_sqrt_of_steps", "noise divided by the root of the number of steps",
              Let::harmless, kCharged},
     .change =
         [](const Step& at) {
           at.multiplier() /= std::sqrt(static_cast<double>(at.self.multipliers_.size()));
         }},
    {.told = {"variance_for_deviation", "the square root of the noise", Let::harmless, kCharged},
     .change = [](const Step& at) { at.multiplier() = std::sqrt(at.multiplier()); }},
    {.told = {"noise_of_the_first_step", "one multiplier for all steps of a schedule",
              Let::harmless, kCharged},
     .change = [](const Step& at) { at.multiplier() = 0.9 * at.self.multipliers_.at(0); }},
    {.told = {"no_noise", "a multiplier of 0"},
     .change = [](const Step& at) { at.multiplier() = 0.0; }},
    {.told = {"no_node", "a recipe without noise"},
     .change = [](const Step& at) { at.recipe.noise.clear(); }},
    {.told = {"silent_second_step", "one step without noise"},
     .change =
         [](const Step& at) {
           if (at.step == 1) at.multiplier() = 0.0;
         }},
    {.told = {"silent_after_two_thousand", "no noise from step 2000 on"},
     .change =
         [](const Step& at) {
           if (at.step >= 2000) at.multiplier() = 0.0;
         }},
    {.told = {"negative", "a multiplier below 0: as good as its opposite", Let::harmless,
              "noise is symmetric, and its square is charged"},
     .change = [](const Step& at) { at.multiplier() *= -1.0; }},
    {.told = {"nan", "a multiplier of NaN"},
     .change = [](const Step& at) { at.multiplier() = std::nan(""); }},
    {.told = {"infinite", "a multiplier beyond all bounds"},
     .change = [](const Step& at) { at.multiplier() = HUGE_VAL; }},
    {.told = {"subnormal", "noise that float rounds to nothing"},
     .change = [](const Step& at) { at.multiplier() = 1e-310; }},
    {.told = {"overflows", "squares that overflow"},
     .change = [](const Step& at) { at.multiplier() = 1e200; }},
    {.told = {"quieter_in_the_run",
              "the noise is halved after it was planned (an impure function)"},
     .change =
         [](const Step& at) {
           if (++at.self.calls_ > 60) at.multiplier() *= 0.5;
         }},
    {.told = {"quieter_by_call", "another answer for every call"},
     .change =
         [](const Step& at) {
           at.multiplier() /= 1.0 + 0.01 * static_cast<double>(++at.self.calls_);
         }},
    {.told = {"quieter_in_the_second_instance", "instances that count each other"},
     .change =
         [](const Step& at) {
           if (at.self.number_ % 2 == 0) at.multiplier() *= 0.5;
         }},
    {.told = {"thread_decides", "less noise on another thread"},
     .change =
         [](const Step& at) {
           if (std::this_thread::get_id() != kHome) at.multiplier() *= 0.5;
         }},
    {.told = {"quieter_at_each_start", "start() makes the noise smaller each time"},
     .change = [](const Step& at) { at.multiplier() /= static_cast<double>(at.self.starts_ + 1); }},
    // Data that is released repeatedly.
    {.told = {"keeps_all", "releases prefix sums with independent noise", Let::harmless, kWhole},
     .change = [](const Step& at) { at.recipe.keep = 1.0; }},
    {.told = {"keeps_half", "an average over steps with fresh noise", Let::harmless, kWhole},
     .change = [](const Step& at) { at.recipe.keep = 0.5; }},
    {.told = {"keeps_nan", "keeps NaN"},
     .change = [](const Step& at) { at.recipe.keep = std::nan(""); }},
    {.told = {"grows", "old data grow from step to step"},
     .change = [](const Step& at) { at.recipe.keep = 1.5; }},
    {.told = {"scaled", "a release is scaled, noise and all", Let::harmless,
              "the scale is public, and applies to data and noise alike"},
     .change = [](const Step& at) { at.recipe.scale = 10.0; }},
    {.told = {"scaled_by_nothing", "a scale of 0"},
     .change = [](const Step& at) { at.recipe.scale = 0.0; }},
    {.told = {"scaled_by_nan", "a scale of NaN"},
     .change = [](const Step& at) { at.recipe.scale = std::nan(""); }},
    {.told = {"continues_the_future", "noise of a step that was not made"},
     .change =
         [](const Step& at) {
           at.recipe.earlier.push_back({at.step + 1, 1.0});
         }},
    {.told = {"continues_itself", "its own noise"},
     .change =
         [](const Step& at) {
           at.recipe.earlier.push_back({at.step, 1.0});
         }},
    {.told = {"continues_a_nan_share", "a share of NaN"},
     .change =
         [](const Step& at) {
           if (at.step > 0) at.recipe.earlier.push_back({at.step - 1, std::nan("")});
         }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  using Base::Base;
  ReleaseRecipe recipe(std::uint64_t step) const override {
    ReleaseRecipe recipe = Base::recipe(step);
    if (kTable[I].change != nullptr) kTable[I].change({*this, step, recipe});
    return recipe;
  }
  std::uint64_t window() const override { return kTable[I].window; }
};

}  // namespace aggregators

std::vector<Fault> aggregator_faults() {
  using namespace aggregators;
  return faults_of<Aggregator, Faulty>(kTable, "aggregator", [](const Row& row) {
    const std::string id = row.told.id;
    std::vector<std::string> place{"aggregator={kind: " + id + "}"};
    if (id == "silent_after_two_thousand") place.emplace_back("steps=2001");
    return place;
  });
}
