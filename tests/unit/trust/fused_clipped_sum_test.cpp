#include <cmath>
#include <random>
#include <vector>

#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

/// A program whose per-example gradient is the example, by rows and by norms and scaled sums, in
/// groups of two parameters.
class FusedEcho final : public Program, public FusedClipping {
 public:
  explicit FusedEcho(std::size_t groups) : groups_(groups), rows_(2 * groups) {}
  std::size_t parameter_count() const override { return 2 * groups_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    rows_.gradient_rows(batch, rows);
  }
  Evaluation evaluate(const Batch& batch) const override { return rows_.evaluate(batch); }

  std::size_t groups() const override { return groups_; }
  std::size_t chunk_rows() const override { return 4; }
  std::size_t pass_rows() const override { return 8; }
  std::unique_ptr<Pass> make_pass(std::size_t) const override { return std::make_unique<Rows>(); }
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    auto& rows = static_cast<Rows&>(pass).rows;
    rows.resize(batch.rows() * 2 * groups_);
    gradient_rows(batch, rows);
    for (std::size_t i = 0; i < squared_norms.size(); ++i) {
      // Contributions are rounded to float32: two products and their bound.
      squared_norms[i] =
          core::squared_norm_at_most(std::span<const float>(rows).subspan(2 * i, 2)) *
          (1 + 0x1p-21);
    }
  }
  void add_scaled(Pass& pass, std::span<const float> factors, std::span<float> sum) const override {
    const auto& rows = static_cast<Rows&>(pass).rows;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (factors[i] == 0.0f) continue;
      const std::size_t at = 2 * (i % groups_);
      sum[at] += factors[i] * rows[2 * i];
      sum[at + 1] += factors[i] * rows[2 * i + 1];
    }
  }

 private:
  struct Rows final : Pass {
    std::vector<float> rows;
  };
  std::size_t groups_;
  EchoProgram rows_;
};

std::vector<ParameterGroup> pairs(std::size_t count) {
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < count; ++i)
    groups.push_back({"layers." + std::to_string(i), 2 * i, 2});
  return groups;
}

std::vector<float> values_of(Bounded sum) {
  const auto aggregator = independent_noise(1.0);
  const auto executor = core::make_executor(1);
  core::Mechanism mechanism(aggregator, core::RandomKey::from_seed(0), *executor);
  const Released released = mechanism.release_without_noise(std::move(sum), 1.0);
  return {released.values().begin(), released.values().end()};
}

/// 30 rows of all sizes; some are not finite.
Dataset rows_of_all_sizes(std::size_t groups) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> features, targets;
  for (int row = 0; row < 30; ++row) {
    const float size = std::pow(10.0f, static_cast<float>(random() % 7) - 3.0f);
    for (std::size_t i = 0; i < 2 * groups; ++i) features.push_back(size * normal(random));
    targets.push_back(row % 7 == 6 ? 1.0f : 0.0f);
  }
  return Dataset(ExampleShape{{2 * groups}, 0}, std::move(features), std::move(targets));
}

}  // namespace

TEST_CASE("norms and scaled sums give what rows give, under any rule", "[clip][fused]") {
  constexpr std::size_t kGroups = 3;
  SerialExecutor serial;
  const Dataset data = rows_of_all_sizes(kGroups);
  const auto groups = pairs(kGroups);
  std::vector<std::uint32_t> batch(data.rows());
  for (std::uint32_t i = 0; i < batch.size(); ++i) batch[i] = i;
  const ScriptedClipping apart([](auto squares, double clip_norm, auto factors) {
    for (std::size_t g = 0; g < factors.size(); ++g) {  // too long, by the root of three
      factors[g] = clip_norm / std::sqrt(squares[g]);
    }
  });
  const ScriptedClipping broken([](auto, double, auto factors) {
    factors[0] = -1.0;
    factors[2] = 1e30;
  });
  for (const Clipping* rule :
       {static_cast<const Clipping*>(&flat_clipping()), static_cast<const Clipping*>(&apart),
        static_cast<const Clipping*>(&broken)}) {
    for (const double share : {0.0, 0.3}) {
      const core::Clip clip{
          .rule = *rule, .groups = groups, .clip_norm = 0.5, .count_share = share};
      const auto fused = values_of(clipped_sum(FusedEcho(kGroups), data, batch, clip, serial));
      const auto rows = values_of(clipped_sum(EchoProgram(2 * kGroups), data, batch, clip, serial));
      REQUIRE(fused.size() == 2 * kGroups + (share > 0.0 ? 1 : 0));
      REQUIRE(rows.size() == fused.size());
      for (std::size_t i = 0; i < rows.size(); ++i) CHECK_THAT(fused[i], WithinAbs(rows[i], 2e-5));
      if (share > 0.0) CHECK(fused.back() == rows.back());
    }
  }
}

TEST_CASE("by norms, too, no example is longer than the bound", "[clip][fused][privacy]") {
  constexpr std::size_t kGroups = 3;
  SerialExecutor serial;
  const Dataset data = rows_of_all_sizes(kGroups);
  const auto groups = pairs(kGroups);
  const ScriptedClipping huge(
      [](auto, double, auto factors) { std::fill(factors.begin(), factors.end(), 1e20); });
  for (std::uint32_t row = 0; row < data.rows(); ++row) {
    const core::Clip clip{.rule = huge, .groups = groups, .clip_norm = 0.5};
    const auto alone =
        values_of(clipped_sum(FusedEcho(kGroups), data, std::vector{row}, clip, serial));
    long double squares = 0.0L;
    for (const float x : alone) squares += static_cast<long double>(x) * x;
    CHECK(squares <= 0.25L);
    if (row % 7 != 6) CHECK(squares >= 0.249L);  // not finite: nothing
  }
}

TEST_CASE("groups that are not the program's are refused", "[clip]") {
  SerialExecutor serial;
  const Dataset data = rows_of_all_sizes(3);
  const auto refused = [&](const Program& program, std::vector<ParameterGroup> groups) {
    CHECK_THROWS_AS(
        core::clipped_sum(program, data, {},
                          {.rule = flat_clipping(), .groups = groups, .clip_norm = 1.0}, serial),
        PluginError);
  };
  refused(FusedEcho(3), pairs(2));
  refused(FusedEcho(3), {{"layers.0", 0, 6}});
  refused(EchoProgram(6), pairs(2));
  refused(EchoProgram(5), {{"layers.0", 0, 2}, {"layers.1", 3, 3}});  // 5 parameters, but a gap
}
