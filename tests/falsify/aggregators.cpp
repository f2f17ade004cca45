// Aggregators whose recipes are not what was planned, or prove nothing.
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "fault.hpp"
#include "privgrad/aggregator.hpp"

using namespace privgrad;

namespace aggregators {

std::atomic<std::uint64_t> made = 0;  // instances

class Base : public Aggregator {
 public:
  void start(const AggregationPlan& plan) override {
    multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
    ++starts_;
  }
  double multiplier(std::uint64_t step) const { return multipliers_.at(step); }
  static ReleaseRecipe of(std::uint64_t node, double multiplier) {
    return {.keep = 0.0, .earlier = {}, .noise = {{.node = node, .multiplier = multiplier}}};
  }
  ReleaseRecipe right(std::uint64_t step) const { return of(step, multiplier(step)); }

  std::vector<double> multipliers_;
  int starts_ = 0;
  mutable std::uint64_t calls_ = 0;
  const std::uint64_t number_ = ++made;  ///< Of the instance: no address, which comes again.
};

struct Row {
  Told told;
  ReleaseRecipe (*recipe)(const Base&, std::uint64_t) = nullptr;
};

#define RECIPE [](const Base& self, std::uint64_t step) -> ReleaseRecipe
#define CHANGED(change)                      \
  RECIPE {                                   \
    ReleaseRecipe recipe = self.right(step); \
    change;                                  \
    return recipe;                           \
  }

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}, .recipe = RECIPE { return self.right(step);
}  // namespace aggregators
}
,
    // Noise that comes back.
    {.told = {"one_noise_for_all", "the noise of the first step in every step"},
     .recipe = RECIPE{return self.of(0, self.multiplier(step));
}
}
, {.told = {"noise_of_the_step_before", "two steps share their noise: their difference has none"},
   .recipe = RECIPE{return self.of(step / 2, self.multiplier(step));
}
}
, {.told = {"noise_comes_back_late", "the first noise again, from step 8 on"},
   .recipe = RECIPE{return self.of(step % 8, self.multiplier(step));
}
}
, {.told = {"reused_in_the_run", "other noise nodes in the run than in the plan"},
   .recipe = RECIPE{return self.of(++self.calls_ > 60 ? 0 : step, self.multiplier(step));
}
}
,
    {.told = {"one_node_twice", "a node twice in a recipe, counted as independent"},
     .recipe = CHANGED(recipe.noise.push_back(recipe.noise.front()))},
    {.told = {"cancels_itself", "a node with both signs: no noise at all"},
     .recipe = CHANGED(recipe.noise.push_back({step, -recipe.noise[0].multiplier}))},
{
  .told = {"takes_back", "continues the noise of the step before with the other sign",
           Let::harmless,
           "nothing is kept, so nothing is carried: the recipe is charged as a matrix"},
  .recipe = CHANGED(if (step > 0) recipe.earlier.push_back({step - 1, -1.0}))
}
,
    // Noise that is not what was asked for.
    {.told = {"half_the_noise", "half of the noise that was planned", Let::harmless,
              "charged by the recipe itself: epsilon is that of the noise that is added"},
     .recipe = CHANGED(recipe.noise[0].multiplier *= 0.5)},
    {.told = {"ninety_nine_hundredths", "a hundredth less noise than was planned", Let::harmless,
              "charged by the recipe itself: epsilon is that of the noise that is added"},
     .recipe = CHANGED(recipe.noise[0].multiplier *= 0.99)},
    {.told = {"noise_over_sqrt_of_steps", "noise divided by the root of the number of steps",
              Let::harmless,
              "charged by the recipe itself: epsilon is that of the noise that is added"},
     .recipe = CHANGED(recipe.noise[0].multiplier /=
                       std::sqrt(static_cast<double>(self.multipliers_.size())))},
    {.told = {"variance_for_deviation", "the square root of the noise", Let::harmless,
              "charged by the recipe itself: epsilon is that of the noise that is added"},
     .recipe = CHANGED(recipe.noise[0].multiplier = std::sqrt(recipe.noise[0].multiplier))},
    {.told = {"noise_of_the_first_step", "one multiplier for all steps of a schedule",
              Let::harmless,
              "charged by the recipe itself: epsilon is that of the noise that is added"},
     .recipe = CHANGED(recipe.noise[0].multiplier = 0.9 * self.multiplier(0))},
    {.told = {"no_noise", "a multiplier of 0"},
     .recipe = CHANGED(recipe.noise[0].multiplier = 0.0)},
    {.told = {"no_node", "a recipe without noise"}, .recipe = CHANGED(recipe.noise.clear())}, {
  .told = {"silent_second_step", "one step without noise"},
  .recipe = CHANGED(if (step == 1) recipe.noise[0].multiplier = 0.0)
}
, {
  .told = {"silent_after_two_thousand", "no noise from step 2000 on"},
  .recipe = CHANGED(if (step >= 2000) recipe.noise[0].multiplier = 0.0)
}
,
    {.told = {"negative", "a multiplier below 0: as good as its opposite", Let::harmless,
              "noise is symmetric, and charged by its square"},
     .recipe = CHANGED(recipe.noise[0].multiplier *= -1.0)},
    {.told = {"nan", "a multiplier that is no number"},
     .recipe = CHANGED(recipe.noise[0].multiplier = std::nan(""))},
    {.told = {"infinite", "a multiplier beyond all bounds"},
     .recipe = CHANGED(recipe.noise[0].multiplier = HUGE_VAL)},
    {.told = {"subnormal", "noise that float rounds to nothing"},
     .recipe = CHANGED(recipe.noise[0].multiplier = 1e-310)},
    {.told = {"overflows", "squares that overflow"},
     .recipe = CHANGED(recipe.noise[0].multiplier = 1e200)},
{
  .told = {"quieter_in_the_run", "the noise is halved after it was planned (an impure function)"},
  .recipe = CHANGED(if (++self.calls_ > 60) recipe.noise[0].multiplier *= 0.5)
}
,
    {.told = {"quieter_by_call", "another answer for every call"},
     .recipe =
         CHANGED(recipe.noise[0].multiplier /= 1.0 + 0.01 * static_cast<double>(++self.calls_))},
{
  .told = {"quieter_in_the_second_instance", "instances that count each other"},
  .recipe = CHANGED(if (self.number_ % 2 == 0) recipe.noise[0].multiplier *= 0.5)
}
, {
  .told = {"thread_decides", "less noise on another thread"},
  .recipe = CHANGED(static const auto home = std::this_thread::get_id();
                    if (std::this_thread::get_id() != home) recipe.noise[0].multiplier *= 0.5)
}
,
    {.told = {"quieter_at_each_start", "start() makes the noise smaller each time"},
     .recipe = CHANGED(recipe.noise[0].multiplier /= static_cast<double>(self.starts_ + 1))},
    // Data that is released more often.
    {.told = {"keeps_all", "releases prefix sums with independent noise", Let::harmless,
              "charged as one mechanism with the whole matrix"},
     .recipe = CHANGED(recipe.keep = 1.0)},
    {.told = {"keeps_half", "an average over steps with fresh noise", Let::harmless,
              "charged as one mechanism with the whole matrix"},
     .recipe = CHANGED(recipe.keep = 0.5)},
    {.told = {"keeps_nan", "keeps what is no number"},
     .recipe = CHANGED(recipe.keep = std::nan(""))},
    {.told = {"grows", "old data grow from step to step"}, .recipe = CHANGED(recipe.keep = 1.5)},
    {.told = {"scaled", "a release is scaled, noise and all", Let::harmless,
              "the scale is public, and applies to data and noise alike"},
     .recipe = CHANGED(recipe.scale = 10.0)},
    {.told = {"scaled_by_nothing", "a scale of 0"}, .recipe = CHANGED(recipe.scale = 0.0)},
    {.told = {"scaled_by_nan", "a scale that is no number"},
     .recipe = CHANGED(recipe.scale = std::nan(""))},
    {.told = {"continues_the_future", "noise of a step that was not made"},
     .recipe = CHANGED(recipe.earlier.push_back({step + 1, 1.0}))},
    {.told = {"continues_itself", "its own noise"},
     .recipe = CHANGED(recipe.earlier.push_back({step, 1.0}))},
{
  .told = {"continues_a_nan_share", "a share that is no number"},
  .recipe = CHANGED(if (step > 0) recipe.earlier.push_back({step - 1, std::nan("")}))
}
,
    // Grids.
    {.told = {"too_fine", "more cells than sums can hold"},
     .recipe = CHANGED(recipe.grid_levels = kMostGridLevels + 1)},
    {.told = {"changes_its_grid", "another grid in the second step"},
     .recipe = CHANGED(recipe.grid_levels = step == 1 ? 1024 : 4096)},
{
  .told = {"two_discrete_nodes", "a sum of discrete Gaussians, accounted as one"},
  .recipe = CHANGED(recipe.grid_levels = 4096; recipe.noise.push_back({step + 100000, 1.0}))
}
, {
  .told = {"keeps_on_a_grid", "old data again, with discrete noise"},
  .recipe = CHANGED(recipe.grid_levels = 4096; recipe.keep = 1.0)
}
, {
  .told = {"half_the_noise_on_a_grid", "half of the discrete noise that was planned", Let::harmless,
           "charged by the recipe itself: epsilon is that of the noise that is added"},
  .recipe = CHANGED(recipe.grid_levels = 4096; recipe.noise[0].multiplier *= 0.5)
}
,
    {.told = {"one_cell", "a grid of one cell: noise of whole clip norms", Let::harmless,
              "the noise in cells is rounded up, and what is too short for a cell is lost"},
     .recipe = CHANGED(recipe.grid_levels = 1)},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  ReleaseRecipe recipe(std::uint64_t step) const override { return kTable[I].recipe(*this, step); }
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

#undef RECIPE
#undef CHANGED
