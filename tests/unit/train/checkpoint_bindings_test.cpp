#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/train/checkpoints.hpp"

using namespace privgrad;
using core::Arithmetic;
using core::Plan;

namespace {

/// Everything on which the keys of a run's steps depend.
struct BoundRun {
  core::Manifest manifest = counted();
  core::Setting setting;
  Plan plan;
  std::string lock = "a lock";
  core::DataCommitment data{.value = "rows", .why_not = {}, .test_rows = "test"};
  core::FederatedPlan federated;

  BoundRun() {
    plan.noise_multiplier = {1.0, 1.0};
    plan.clip_norm = {4.0, 4.0};
    plan.learning_rate = {0.5, 0.25};
    plan.batch_size = {20.0, 20.0};
    plan.planned_steps = plan.affordable_steps = 2;
    plan.dataset_size = 20;
    plan.event = Event::gaussian(1.0);
    plan.beside = {beside_steps(0, 2.0, "count")};
  }

  std::string text() {
    plan.manifest = &manifest;
    plan.setting = std::make_shared<core::Setting>(std::move(setting));
    return core::Checkpoints::bound_to(plan, lock, data);
  }
};

std::string bound_after(const std::function<void(BoundRun&)>& change) {
  BoundRun run;
  change(run);
  return run.text();
}

std::shared_ptr<core::FederatedPlan> two_clients(double noise, std::vector<std::uint32_t> first) {
  auto federated = std::make_shared<core::FederatedPlan>();
  for (const double of_client : {1.0, noise}) {
    auto plan = std::make_shared<Plan>();
    plan->event = Event::gaussian(of_client);
    federated->clients.push_back({.plan = plan, .rows = first, .labels = {}});
    first = {7};
  }
  return federated;
}

}  // namespace

TEST_CASE("the keys of steps depend on everything that decides a release", "[resume][privacy]") {
  // A copy of a run's state that continues with any of these changed must not draw the same noise.
  const std::vector<std::function<void(BoundRun&)>> changes{
      [](BoundRun&) {},
      [](BoundRun& run) { run.manifest.resolved.set("name", "another"); },
      [](BoundRun& run) { run.lock = "another lock"; },
      [](BoundRun& run) { run.setting.weights.emplace().sha256 = "weights"; },
      [](BoundRun& run) { run.plan.noise_multiplier[1] = 1.5; },
      [](BoundRun& run) { run.plan.clip_norm[1] = 3.0; },
      [](BoundRun& run) { run.plan.learning_rate[1] = 0.125; },
      [](BoundRun& run) { run.plan.batch_size[1] = 10.0; },
      [](BoundRun& run) {
        run.plan.sampler_batch_size = {20.0, 20.0};
      },
      [](BoundRun& run) {
        run.plan.count_noise = {2.0, 2.0};
      },
      [](BoundRun& run) {
        run.plan.count_share = {0.5, 0.5};
      },
      [](BoundRun& run) { run.plan.optimized = {1.0}; },
      [](BoundRun& run) { run.plan.planned_steps = 3; },
      [](BoundRun& run) { run.plan.affordable_steps = 1; },
      [](BoundRun& run) { run.plan.dataset_size = 21; },
      [](BoundRun& run) { run.plan.event = Event::gaussian(2.0); },
      [](BoundRun& run) { run.plan.beside.clear(); },
      [](BoundRun& run) { run.data.value = "other rows"; },
      [](BoundRun& run) { run.data.value.reset(); },
      [](BoundRun& run) { run.data.test_rows = "other test rows"; },
      [](BoundRun& run) {
        run.plan.federated = two_clients(1.0, {0, 1});
      },
      [](BoundRun& run) {
        run.plan.federated = two_clients(2.0, {0, 1});
      },
      [](BoundRun& run) {
        run.plan.federated = two_clients(1.0, {0, 2});
      }};
  std::set<std::string> texts;
  for (const auto& change : changes) texts.insert(bound_after(change));
  CHECK(texts.size() == changes.size());
  CHECK(bound_after(changes.front()) == bound_after(changes.front()));
}

TEST_CASE("numbers that move from one schedule to the next are other numbers",
          "[resume][privacy]") {
  const auto with = [](std::vector<double> noise, std::vector<double> clip_norm) {
    return bound_after([&](BoundRun& run) {
      run.plan.noise_multiplier = noise;
      run.plan.clip_norm = clip_norm;
    });
  };
  CHECK(with({1.0, 2.0}, {3.0}) != with({1.0}, {2.0, 3.0}));
}

TEST_CASE("shards are told apart by their rows and by whose they are", "[resume][privacy]") {
  const auto hash = [](const std::vector<std::vector<std::uint32_t>>& rows) {
    core::FederatedPlan federated;
    for (const auto& of_client : rows)
      federated.clients.push_back({.plan = nullptr, .rows = of_client, .labels = {}});
    return core::hash_of_shards(federated);
  };
  const std::set<std::string> all{hash({{0, 1}, {2}}), hash({{0}, {1, 2}}), hash({{2}, {0, 1}}),
                                  hash({{0, 1, 2}}), hash({{0, 1}, {3}})};
  CHECK(all.size() == 5);
}

TEST_CASE("what is shown is told apart by the parameters and by the text beside them",
          "[resume][privacy]") {
  const std::vector<float> model{1.0f, -0.0f}, other{1.0f, 0.0f};
  CHECK(core::hash_of_shown(model, "a") == core::hash_of_shown(model, "a"));
  CHECK(core::hash_of_shown(model, "a") != core::hash_of_shown(other, "a"));
  CHECK(core::hash_of_shown(model, "a") != core::hash_of_shown(model, "b"));
}

TEST_CASE("a step is repeated only where its bits are promised", "[resume][privacy]") {
  core::Manifest manifest = counted();
  const auto repeatable = [&](bool clipping, bool rows, std::size_t parts,
                              Arithmetic arithmetic = Arithmetic::exact) {
    auto setting = std::make_shared<core::Setting>();
    setting->program = {.clipping = clipping, .rows = rows};
    Plan plan;
    plan.manifest = &manifest;
    plan.setting = setting;
    plan.arithmetic = arithmetic;
    if (parts > 0) {
      auto correlated = std::make_shared<core::CorrelatedPlan>();
      for (std::size_t i = 0; i < parts; ++i)
        correlated->parts.push_back({core::CorrelatedRecipes::of(
            [](std::uint64_t step) {
              return ReleaseRecipe{.keep = 0.0, .earlier = {}, .noise = {{step, 1.0}}};
            },
            1)});
      plan.correlated = correlated;
    }
    return core::steps_are_repeatable(plan);
  };
  CHECK(repeatable(true, false, 0));
  CHECK(repeatable(false, true, 0));
  CHECK_FALSE(repeatable(false, false, 0));
  CHECK(repeatable(true, false, 1));
  CHECK_FALSE(repeatable(true, false, 2));  // differences of gradients need the bits of rows
  CHECK(repeatable(false, true, 2));
  CHECK_FALSE(repeatable(true, true, 0, Arithmetic::floating));
  manifest.noise_off = true;
  CHECK(repeatable(false, false, 0));
}

TEST_CASE("rows whose bits a transform does not promise are compared by their hash",
          "[resume][privacy]") {
  const Dataset rows({{1}, 2}, {0.5f, 1.5f}, {0.0f, 1.0f}),
      other({{1}, 2}, {0.5f, 1.25f}, {0.0f, 1.0f});
  const auto hash = [](std::vector<bool> by_row, const Dataset& train) {
    auto setting = std::make_shared<core::Setting>();
    setting->by_row = std::move(by_row);
    Plan plan;
    plan.setting = setting;
    return core::transformed_hash(*plan.setting, train);
  };
  CHECK(hash({}, rows).empty());
  CHECK(hash({true, true}, rows).empty());
  CHECK_FALSE(hash({true, false}, rows).empty());
  CHECK(hash({false}, rows) != hash({false}, other));
}

TEST_CASE("a run without a folder for its state makes no checkpoints", "[resume]") {
  CHECK(core::why_no_checkpoints("/somewhere").empty());
  CHECK_THAT(core::why_no_checkpoints(""), ContainsSubstring("no directory is known"));
}
