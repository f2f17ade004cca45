#include "privgrad/data/apply_transform.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "counted_manifest.hpp"
#include "fake_program.hpp"

using namespace privgrad;
using core::FittedTransform;
using core::RunData;

namespace {

/// How a test's transform behaves; each test begins with a correct one that doubles features.
struct Behaviour {
  std::function<void(Dataset&)> fit = [](Dataset&) {};
  std::function<void(Dataset&)> apply = [](Dataset& data) {
    for (float& x : data.features()) x *= 2.0f;
  };
  std::function<void(std::span<const float>, std::span<float>)> apply_row =
      [](std::span<const float> in, std::span<float> out) { out[0] = 2.0f * in[0]; };
  /// If empty, rows are transformed by apply_row.
  std::function<void(std::span<const float>, std::span<float>)> apply_rows;
  Statistic statistic = Statistic::none;
  std::optional<Statistic> planned;  ///< If empty, the transform's answer in the run.
  bool is_by_row = false;
  std::vector<FittedTensor> fitted;
  std::size_t output_size = 1;
};

Behaviour behaviour;

class Behaving final : public Transform {
 public:
  explicit Behaving(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override {
    return {{behaviour.output_size}, input.classes};
  }
  void fit(Dataset& train) override { behaviour.fit(train); }
  Statistic statistic() const override { return behaviour.statistic; }
  void apply(Dataset& data) const override { behaviour.apply(data); }
  bool is_by_row() const override { return behaviour.is_by_row; }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    behaviour.apply_row(features, out);
  }
  void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    if (!behaviour.apply_rows) return Transform::apply_rows(shape, rows, features, out);
    behaviour.apply_rows(features, out);
  }
  bool is_restorable() const override { return true; }
  std::vector<FittedTensor> fitted_values() const override { return behaviour.fitted; }
};

Dataset rows_of(std::vector<float> features) {
  std::vector<float> targets;
  for (std::size_t i = 0; i < features.size(); ++i) targets.push_back(static_cast<float>(i % 2));
  return {{{1}, 2}, std::move(features), std::move(targets)};
}

std::vector<float> features_in(Dataset& data) {
  const auto features = data.features();
  return {features.begin(), features.end()};
}

struct Applied {
  RunData data{.train = rows_of({1.0f, 2.0f, 3.0f}), .test = rows_of({10.0f, 20.0f})};

  FittedTransform apply(core::Teacher* teacher = nullptr) {
    return core::apply_transform(
        in_manifest<Transform, Behaving>("behaving", "data.transforms.0"),
        {0, behaviour.planned.value_or(behaviour.statistic), behaviour.is_by_row}, data, serial,
        nullptr, teacher);
  }
};

struct TeachesNothing final : core::Teacher {
  void teach(std::size_t, Transform&, const Dataset&) override {}
};

/// Returns the error of a transform that is changed in this way; "" if it is accepted.
std::string error_after(const std::function<void(Behaviour&)>& change) {
  behaviour = {};
  change(behaviour);
  try {
    Applied().apply();
    return "";
  } catch (const PluginError& error) {
    return error.what();
  }
}

void add_row(Dataset& data) {
  std::vector<float> features = features_in(data);
  features.push_back(7.0f);
  data = rows_of(std::move(features));
}

}  // namespace

TEST_CASE("a transform changes the features of both splits, and nothing else", "[transform]") {
  for (const bool is_by_row : {false, true}) {
    behaviour = {};
    behaviour.is_by_row = is_by_row;
    Applied applied;
    applied.apply();
    CHECK(features_in(applied.data.train) == std::vector<float>{2.0f, 4.0f, 6.0f});
    CHECK(features_in(applied.data.test) == std::vector<float>{20.0f, 40.0f});
    CHECK(applied.data.train.targets()[1] == 1.0f);
  }
}

TEST_CASE("test rows are transformed before a training row is seen", "[transform][privacy]") {
  behaviour = {};
  std::vector<float> first;
  behaviour.apply = [&](Dataset& data) {
    first.push_back(data.features()[0]);
    for (float& x : data.features()) x *= 2.0f;
  };
  Applied().apply();
  CHECK(first.front() == 10.0f);
}

TEST_CASE("a transform that adds, drops, exchanges or relabels examples is refused",
          "[transform][privacy]") {
  CHECK(error_after([](Behaviour&) {}).empty());
  CHECK_THAT(error_after([](Behaviour& one) { one.apply = add_row; }),
             ContainsSubstring("returned 3 test examples for 2"));
  CHECK_THAT(error_after([](Behaviour& one) {
               one.apply = [](Dataset& data) {
                 std::vector<float> features = features_in(data);
                 std::vector<float> targets(features.size(), 1.0f);
                 data = Dataset(data.shape(), std::move(features), std::move(targets));
               };
             }),
             ContainsSubstring("changed targets"));
  // The targets stay, but two examples exchange their features.
  CHECK_THAT(error_after([](Behaviour& one) {
               one.apply = [](Dataset& data) {
                 const auto features = data.features();
                 std::swap(features.front(), features.back());
               };
             }),
             ContainsSubstring("by itself than among the other examples"));
  CHECK_THAT(error_after([](Behaviour& one) { one.output_size = 2; }),
             ContainsSubstring("returned examples of"));
}

TEST_CASE("a transform may look at the training rows, and not change them, while it is fitted",
          "[transform][privacy]") {
  const auto fitted = [](const std::function<void(Dataset&)>& fit) {
    return error_after([&](Behaviour& one) {
      one.statistic = Statistic::unaccounted;
      one.fit = fit;
    });
  };
  CHECK(fitted([](Dataset&) {}).empty());
  CHECK_THAT(fitted([](Dataset& data) { data.features()[0] = 9.0f; }),
             ContainsSubstring("changed the training examples while it was fitted"));
  CHECK_THAT(fitted(add_row), ContainsSubstring("returned 4 training examples for 3"));
}

TEST_CASE("a transform that says it needs no rows is shown a row of zeros",
          "[transform][privacy]") {
  const auto shown = [](Statistic statistic) {
    std::vector<float> seen;
    CHECK(error_after([&](Behaviour& one) {
            one.statistic = statistic;
            one.fit = [&](Dataset& data) { seen = features_in(data); };
          }).empty());
    return seen;
  };
  CHECK(shown(Statistic::none) == std::vector<float>{0.0f});
  CHECK(shown(Statistic::is_public) == std::vector<float>{0.0f});
  CHECK(shown(Statistic::unaccounted) == std::vector<float>{1.0f, 2.0f, 3.0f});
  CHECK(shown(Statistic::declared_public) == std::vector<float>{1.0f, 2.0f, 3.0f});
  // A released statistic needs an owner that has paid for it.
  behaviour = {};
  behaviour.statistic = Statistic::released;
  CHECK_THROWS_WITH(Applied().apply(), ContainsSubstring("a noised sum over the private rows"));
}

// Charges and the list of unaccounted facts follow from the plan.
TEST_CASE("a transform that was planned to need no rows is shown none in the run",
          "[transform][privacy]") {
  for (const Statistic said : {Statistic::unaccounted, Statistic::declared_public}) {
    bool was_fitted = false;
    CHECK_THAT(error_after([&](Behaviour& one) {
                 one.planned = Statistic::is_public;
                 one.statistic = said;
                 one.fit = [&](Dataset&) { was_fitted = true; };
               }),
               ContainsSubstring("declares another origin of its numbers"));
    CHECK_FALSE(was_fitted);
  }
}

// The second process compares the learnt numbers; without numbers it would compare nothing.
TEST_CASE("a transform that learns from a release shows what it has learnt",
          "[transform][privacy]") {
  behaviour = {};
  behaviour.statistic = Statistic::released;
  TeachesNothing teacher;
  CHECK_THROWS_WITH(Applied().apply(&teacher),
                    ContainsSubstring("about its numbers contradicts the 0 tensor(s)"));
  behaviour.fitted = {{"mean", {1}, {1.0}}};
  CHECK(Applied().apply(&teacher).values.size() == 1);
}

TEST_CASE("an example has the same bits alone as among others", "[transform][privacy]") {
  CHECK_THAT(error_after([](Behaviour& one) {
               one.is_by_row = true;
               one.apply_rows = [](std::span<const float> in, std::span<float> out) {
                 for (std::size_t i = 0; i < in.size(); ++i)
                   out[i] = 2.0f * in[i] + (i == 1 ? 1e-6f : 0.0f);
               };
             }),
             ContainsSubstring("depend on the examples beside it"));
}

TEST_CASE("an example that overflows becomes NaN in its place", "[transform][privacy]") {
  behaviour = {};
  behaviour.is_by_row = true;
  behaviour.apply_row = [](std::span<const float> in, std::span<float> out) {
    out[0] = in[0] == 2.0f ? std::numeric_limits<float>::infinity() : in[0];
  };
  Applied applied;
  applied.apply();
  const std::vector<float> made = features_in(applied.data.train);
  CHECK(made[0] == 1.0f);
  CHECK(std::isnan(made[1]));
  CHECK(made[2] == 3.0f);
}

TEST_CASE("what a transform has learnt has names, shapes and finite numbers",
          "[transform][privacy]") {
  const auto learnt = [](std::vector<FittedTensor> fitted,
                         Statistic statistic = Statistic::unaccounted) {
    return error_after([&](Behaviour& one) {
      one.statistic = statistic;
      one.fitted = std::move(fitted);
    });
  };
  CHECK(learnt({{"mean_1", {2}, {1.0, 2.0}}}).empty());
  for (const FittedTensor& wrong : std::vector<FittedTensor>{{"", {1}, {1.0}},
                                                             {"a b", {1}, {1.0}},
                                                             {std::string(65, 'a'), {1}, {1.0}},
                                                             {"a", {2}, {1.0}},
                                                             {"a", {1}, {0.0 / 0.0}},
                                                             {"a", {1}, {1.0 / 0.0}}})
    CHECK_THAT(learnt({wrong}), ContainsSubstring("has learnt a tensor that has no valid name"));
  CHECK_THAT(learnt({{"mean", {1}, {1.0}}}, Statistic::none),
             ContainsSubstring("contradicts the 1 tensor(s) that it has learnt"));
}
