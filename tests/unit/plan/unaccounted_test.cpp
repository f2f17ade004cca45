#include "unaccounted.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/plan/remarks.hpp"

using namespace privgrad;
using core::Arithmetic;
using core::Manifest;
using core::Plan;
using core::Setting;
using core::Unaccounted;

namespace {

/// A plan of exact sums about a public number of rows, without transforms.
struct Listed {
  Manifest manifest = counted({"data.transforms=[]"});  // adjacency: zero_out
  Setting setting;
  Plan plan;
};

std::vector<Unaccounted> items_after(const std::function<void(Listed&)>& change) {
  Listed listed;
  listed.plan.dataset_size = 20;
  change(listed);
  listed.plan.manifest = &listed.manifest;
  listed.plan.setting = std::make_shared<const Setting>(std::move(listed.setting));
  return core::list_unaccounted(listed.plan);
}

/// Returns the listed names in research mode, without the training metrics.
std::vector<std::string> listed_after(const std::function<void(Listed&)>& change) {
  std::vector<std::string> names;
  for (const Unaccounted& item : items_after(change))
    if (item.reach == core::Reach::model) names.push_back(item.what);
  return names;
}

using Names = std::vector<std::string>;

/// A transform that claims that nothing about it must be listed.
struct Harmless final : Transform {
  explicit Harmless(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }
};

/// A plan only checks whether there is a model.
struct Silent final : Model {
  explicit Silent(const Params&) {}
  Network network(const ExampleShape&) const override { return {}; }
  void initialise(const Network&, RandomStream&, std::span<float>) const override {}
};

void count_is_private(Listed& listed) {
  listed.manifest.adjacency = Adjacency::add_or_remove_one;
  listed.manifest.dataset_size = 20;
}

}  // namespace

TEST_CASE("nothing is listed where everything is charged or public", "[unaccounted][privacy]") {
  CHECK(listed_after([](Listed&) {}).empty());
  // Research mode shows metrics of private rows, but these do not reach the model.
  const auto items = items_after([](Listed& one) { one.setting.info.has_test_split = true; });
  REQUIRE(items.size() == 2);
  CHECK(items[0].what == "training metrics");
  CHECK(items[1].what == "test metrics");
  CHECK(items[1].reach == core::Reach::shown_values);
  CHECK(items_after([](Listed& one) {
          one.setting.info.has_test_split = true;
          one.manifest.test_is_public = true;
        }).size() == 1);
}

TEST_CASE("a number of rows that is counted is listed only where it is private",
          "[unaccounted][privacy]") {
  const auto adjacent = [](Adjacency adjacency) {
    return listed_after([&](Listed& one) { one.manifest.adjacency = adjacency; });
  };
  CHECK(adjacent(Adjacency::add_or_remove_one) == Names{"number of training examples"});
  CHECK(adjacent(Adjacency::replace_one).empty());
  CHECK(adjacent(Adjacency::zero_out).empty());
  CHECK(listed_after(count_is_private).empty());  // declared
}

TEST_CASE("a choice of rows is listed under the adjacency in which one row moves others",
          "[unaccounted][privacy]") {
  const auto first_rows = [](Listed& one) { one.setting.info.first_rows_only = true; };
  const auto sampled = [](Listed& one) {
    one.manifest.sample = core::DataSample{.rows = 5, .seed = {}};
  };
  const auto by_value = [](Listed& one) { one.setting.info.rows_chosen_by_value = true; };
  const auto under = [](Adjacency adjacency, const std::function<void(Listed&)>& choice) {
    return listed_after([&](Listed& one) {
      count_is_private(one);
      one.manifest.adjacency = adjacency;
      choice(one);
    });
  };
  CHECK(under(Adjacency::add_or_remove_one, first_rows) == Names{"choice of the first examples"});
  CHECK(under(Adjacency::replace_one, first_rows).empty());
  CHECK(under(Adjacency::zero_out, first_rows).empty());
  CHECK(under(Adjacency::add_or_remove_one, sampled) == Names{"choice of the sampled examples"});
  CHECK(under(Adjacency::replace_one, sampled).empty());
  CHECK(under(Adjacency::replace_one, by_value) ==
        Names{"number of examples that are chosen by what they hold"});
  CHECK(under(Adjacency::add_or_remove_one, by_value).empty());
}

// The run holds a transform to this answer, so another instance cannot change it.
TEST_CASE("a transform is listed by what it said when the setting was planned",
          "[unaccounted][privacy]") {
  const auto planned = [](std::vector<Statistic> statistics, std::vector<bool> by_row) {
    return listed_after([&](Listed& one) {
      one.manifest.transforms = {in_manifest<Transform, Harmless>("harmless", "data.transforms.0")};
      one.setting.statistics = std::move(statistics);
      one.setting.by_row = std::move(by_row);
    });
  };
  CHECK(planned({}, {}).empty());
  CHECK(planned({Statistic::none}, {true}).empty());
  CHECK(planned({Statistic::none}, {false}) == Names{"floating_point"});
  CHECK(planned({Statistic::unaccounted}, {true}) == Names{"harmless"});
  CHECK(planned({Statistic::declared_public}, {true}) == Names{"harmless (declared public)"});
}

TEST_CASE("facts that were read off rows, and noise that is off or floating, are listed",
          "[unaccounted][privacy]") {
  CHECK(listed_after([](Listed& one) {
          one.setting.info.unaccounted = {"number of classes (classes)"};
          one.manifest.read_off_rows = {"the mean age"};
        }) == Names{"number of classes (classes)", "the mean age"});
  CHECK(listed_after([](Listed& one) { one.manifest.arithmetic = Arithmetic::floating; }) ==
        Names{"floating_point"});
  // Without noise there is no proof about bits.
  CHECK(listed_after([](Listed& one) {
          one.manifest.arithmetic = Arithmetic::floating;
          one.manifest.noise_off = true;
        }) == Names{"everything: noise is off"});
  CHECK(listed_after([](Listed& one) { one.plan.influence_is_unaccounted = true; }) ==
        Names{"influence of steps, behind the noise schedule"});
}

TEST_CASE("weights of unknown origin are listed unless they are declared public",
          "[unaccounted][privacy]") {
  const auto weights = [](bool is_public, std::optional<core::WeightsOrigin> origin) {
    return listed_after([&](Listed& one) {
      one.manifest.weights =
          core::WeightsUse{.file = "w.safetensors", .is_public = is_public, .names = {}};
      one.setting.weights = core::WeightsFacts{};
      one.setting.weights->origin = origin;
    });
  };
  CHECK(weights(false, std::nullopt) == Names{"initial_weights"});
  CHECK(weights(true, std::nullopt).empty());
  // A model made by PrivGrad carries the cost of its rows, which no declaration removes.
  const core::WeightsOrigin ours{.name = "base",
                                 .mode = "release",
                                 .epsilon = "3",
                                 .delta = "1e-05",
                                 .unit = "example",
                                 .adjacency = "zero_out",
                                 .unaccounted = {},
                                 .account = {}};
  CHECK(weights(false, ours) == Names{"initial_weights"});
  CHECK(weights(true, ours) == Names{"initial_weights"});
}

TEST_CASE("a program is listed unless it promises the bits that its sums need",
          "[unaccounted][privacy]") {
  const auto fresh_noise = [](std::uint64_t step) {
    ReleaseRecipe recipe;
    recipe.noise.push_back({.node = step, .multiplier = 1.0});
    return recipe;
  };
  const auto program = [&](bool clipping, bool rows, std::size_t parts) {
    return listed_after([&](Listed& one) {
      one.setting.model = in_manifest<Model, Silent>("silent", "model").make<Model>();
      one.setting.program = {.clipping = clipping, .rows = rows};
      auto correlated = std::make_shared<core::CorrelatedPlan>();
      correlated->parts.assign(parts, {core::CorrelatedRecipes::of(fresh_noise, 1)});
      one.plan.correlated = correlated;
    });
  };
  CHECK(program(false, false, 1) == Names{"floating_point"});
  CHECK(program(true, false, 1).empty());
  CHECK(program(false, true, 1).empty());
  // Differences of gradients are clipped separately, so an exactly clipped sum is not enough.
  CHECK(program(true, false, 3) == Names{"floating_point"});
  CHECK(program(true, true, 3).empty());
}

TEST_CASE("release mode refuses each listed use, with its remedy", "[unaccounted][privacy]") {
  const auto release = [](const std::function<void(Listed&)>& change) {
    return items_after([&](Listed& one) {
      one.manifest.mode = core::Mode::release;
      one.manifest.target_delta = 1e-5;
      change(one);
    });
  };
  CHECK(release([](Listed& one) { one.setting.info.has_test_split = true; }).empty());
  CHECK_THROWS_AS(release([](Listed& one) { one.manifest.noise_off = true; }), PrivacyError);
  CHECK_THROWS_WITH(
      release([](Listed& one) { one.setting.info.unaccounted = {"number of classes (classes)"}; }),
      ContainsSubstring("release mode refuses 'number of classes (classes)'") &&
          ContainsSubstring("say data.classes, or use mode: research"));
  CHECK_THROWS_WITH(release([](Listed& one) { one.manifest.arithmetic = Arithmetic::floating; }),
                    ContainsSubstring("use aggregator.arithmetic: exact, or use mode: research"));
}

TEST_CASE("release mode refuses a delta of one over the number of rows, unless it is allowed",
          "[unaccounted][privacy]") {
  const auto with_delta = [](double delta, bool is_allowed = false) {
    return items_after([&](Listed& one) {
      one.manifest.mode = core::Mode::release;
      one.manifest.target_delta = delta;
      one.manifest.allow_large_delta = is_allowed;
    });
  };
  CHECK_NOTHROW(with_delta(0.049));  // for 20 rows
  CHECK_THROWS_WITH(with_delta(0.05), ContainsSubstring("privacy.target_delta: release mode"));
  CHECK_NOTHROW(with_delta(0.05, true));
}

TEST_CASE("remarks are made on a guarantee that promises little", "[unaccounted]") {
  Listed one;
  one.manifest.target_delta = 1e-5;
  one.plan.manifest = &one.manifest;
  one.plan.dataset_size = 1000;
  const auto remarked = [&](double epsilon) { return core::remarks(one.plan, epsilon).size(); };
  CHECK(remarked(20.0) == 0);
  CHECK(remarked(20.1) == 1);
  CHECK(remarked(1.0 / 0.0) == 0);
  one.manifest.target_delta = 1e-3;
  CHECK(remarked(1.0) == 1);
  CHECK(remarked(20.1) == 2);
  one.manifest.noise_off = true;
  CHECK(remarked(20.1) == 0);
}
