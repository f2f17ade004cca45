#include "privgrad/row_evaluations.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "fake_program.hpp"
#include "privgrad/trust/row_sum.hpp"
#include "support.hpp"

// Evaluations of single examples, many at a time.

using namespace privgrad;

namespace {

/// An example's loss is its only feature, and the prediction is correct if that is above 50.
class Feature : public Program {
 public:
  std::size_t parameter_count() const override { return 1; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch&, std::span<float>) const override {}
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum;
    for (const float x : batch.features) {
      sum.loss += static_cast<double>(x);
      sum.correct += x > 50.0f ? 1 : 0;
    }
    return sum;
  }
};

class FeatureOfEach final : public Feature, public RowEvaluations {
 public:
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    ++calls;
    for (std::size_t row = 0; row < batch.rows(); ++row)
      each[row] = evaluate({batch.features.subspan(row, 1), batch.targets.subspan(row, 1)});
    for (std::size_t row = 0; row < batch.rows(); ++row)
      if (lies != nullptr && lies(row))
        each[row].loss = std::nextafter(each[row].loss, std::numeric_limits<double>::infinity());
  }
  mutable int calls = 0;
  bool (*lies)(std::size_t place) = nullptr;
};

Dataset numbers(std::size_t count) {
  std::vector<float> features(count), targets(count);
  for (std::size_t i = 0; i < count; ++i) features[i] = static_cast<float>(i);
  return Dataset(ExampleShape{{1}, 0}, std::move(features), std::move(targets));
}

}  // namespace

TEST_CASE("examples are evaluated each by itself, with the ability and without") {
  const Dataset data = numbers(200);
  SerialExecutor executor;
  const auto rows = core::all_rows(200);
  const FeatureOfEach many;
  const auto fast = core::example_evaluations(many, data, rows, executor);
  const auto slow = core::example_evaluations(Feature(), data, rows, executor);
  CHECK(many.calls == 4);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(fast[i].loss == static_cast<double>(i));
    CHECK(fast[i].correct == (i > 50 ? 1 : 0));
    CHECK(fast[i].loss == slow[i].loss);
  }
  CHECK(core::example_losses(many, data, std::vector<std::uint32_t>{7, 3}, executor) ==
        std::vector<double>{7.0, 3.0});
  CHECK(core::example_evaluations(many, data, {}, executor).empty());
}

TEST_CASE("a program whose evaluation of an example depends on its neighbours is found out") {
  // Each group of 64 examples is checked at a different place: an error at one place of 64 goes
  // unnoticed with a probability of (63/64)^2000 = 2e-14 here.
  constexpr std::size_t kRows = 64 * 2000;
  const Dataset data = numbers(kRows);
  SerialExecutor executor;
  FeatureOfEach liar;
  for (const auto lies : {+[](std::size_t place) { return place == 63; },
                          +[](std::size_t place) { return place == 0; },
                          +[](std::size_t place) { return place == 31; },
                          +[](std::size_t place) { return place != 63; }}) {
    liar.lies = lies;
    CHECK_THROWS_AS(core::example_evaluations(liar, data, core::all_rows(kRows), executor),
                    PluginError);
  }
}

TEST_CASE("an example that is not a number is not a broken promise") {
  class NaN final : public Feature, public RowEvaluations {
   public:
    Evaluation evaluate(const Batch&) const override {
      return {.loss = -std::numeric_limits<double>::quiet_NaN(), .correct = 0};
    }
    void evaluate_rows(const Batch&, std::span<Evaluation> each) const override {
      for (Evaluation& one : each) one = {.loss = std::nan("7"), .correct = 0};
    }
  };
  SerialExecutor executor;
  const auto all = core::example_evaluations(NaN(), numbers(3), core::all_rows(3), executor);
  CHECK(std::isnan(all.front().loss));
}
