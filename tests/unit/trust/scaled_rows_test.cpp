#include "privgrad/trust/scaled_rows.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "exact_echo.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/program_around.hpp"
#include "privgrad/trust/testing.hpp"
#include "support.hpp"
#include "trust_support.hpp"

using namespace privgrad;

namespace scaled_rows_test {
namespace {

constexpr std::size_t kWidth = 6;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
__extension__ using Wide = unsigned __int128;

/// Shifts and scales of all sizes in float32.
struct Both {
  explicit Both(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < kWidth; ++i) {
      const auto size = [&] { return std::pow(10.0f, static_cast<float>(random() % 60) - 30.0f); };
      shift.push_back(size() * normal(random));
      scale.push_back(size() * (0.1f + std::fabs(normal(random))));
    }
  }
  core::Scaling scaling() const { return {shift, scale}; }
  std::vector<float> shift, scale;
};

/// Numbers of all sizes; every seventh row is not finite.
Dataset numbers(std::size_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> features, targets;
  for (std::size_t row = 0; row < count; ++row) {
    const float size = std::pow(10.0f, static_cast<float>(random() % 60) - 30.0f);
    for (std::size_t i = 0; i < kWidth; ++i) features.push_back(size * normal(random));
    targets.push_back(row % 7 == 6 ? static_cast<float>(1 + row % 3) : 0.0f);
  }
  return make_data(kWidth, std::move(features), std::move(targets));
}

std::vector<std::int64_t> cells(const Program& program, const Dataset& data,
                                std::span<const std::uint32_t> batch, double clip_norm) {
  return core::cells_for_testing(exact_sum(program, data, batch, clip_norm, serial));
}

std::string refusal(const std::vector<float>& shift, const std::vector<float>& scale) {
  try {
    core::check_scaling({shift, scale}, 2);
  } catch (const PluginError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("scaled rows are (g - shift) / scale, and what is not finite stays so") {
  const EchoProgram echo(3);
  const std::vector<float> shift{1.0f, -2.0f, 0.0f}, scale{2.0f, 0.5f, 1e-30f};
  const auto scaled = core::scaled_rows(echo, {shift, scale});
  std::vector<float> features{5, 1, 0, 1, -2, 1e20f, 1, -2, -1e20f, kInfinity, 0, 1}, targets(4);
  targets[3] = 1.0f;  // NaN in the last coordinate
  std::vector<float> rows(features.size());
  scaled->gradient_rows({features, targets}, rows);
  constexpr float kMost = std::numeric_limits<float>::max();
  CHECK(std::vector<float>(rows.begin(), rows.begin() + 9) ==
        std::vector<float>{2, 6, 0, 0, 0, kMost, 0, 0, -kMost});
  CHECK(rows[9] == kInfinity);
  CHECK(std::isnan(rows[11]));
  // A program that knows only the norms of gradients cannot be used for scaled gradients.
  const ExactEcho exact(2);
  const std::vector<float> zeros(4, 0.0f), ones(4, 1.0f);
  const auto of_exact = core::scaled_rows(exact, {zeros, ones});
  CHECK(dynamic_cast<const ExactClipping*>(of_exact.get()) == nullptr);
  CHECK(core::ability_of<ReproducibleRows>(*of_exact) == nullptr);
  struct Promises final : Program, ReproducibleRows {
    std::size_t parameter_count() const override { return 4; }
    void load_parameters(std::span<const float>) override {}
    void gradient_rows(const Batch&, std::span<float>) const override {}
    Evaluation evaluate(const Batch&) const override { return {}; }
  };
  const Promises promises;
  const auto of_rows = core::scaled_rows(promises, {zeros, ones});
  CHECK(core::ability_of<ReproducibleRows>(*of_rows) != nullptr);
}

TEST_CASE(
    "whatever coordinates are scaled by, an example moves the sum by its own cells, which are "
    "within the clip norm",
    "[exact][privacy]") {
  const EchoProgram echo(kWidth);
  const Dataset data = numbers(150);  // three chunks of rows
  const std::vector<std::uint32_t> all = all_rows(data);
  constexpr Wide kWhole = Wide{core::kExactLevels} * core::kExactLevels;
  std::size_t contributing = 0;
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const Both both(seed);
    const auto scaled = core::scaled_rows(echo, both.scaling());
    const auto whole = cells(*scaled, data, all, 0.7);
    for (std::uint32_t row = 0; row < data.rows(); row += 11) {
      std::vector<std::uint32_t> others = all;
      others.erase(others.begin() + row);
      const auto without = cells(*scaled, data, others, 0.7);
      const auto own = cells(*scaled, data, std::vector<std::uint32_t>{row}, 0.7);
      Wide square = 0;
      for (std::size_t i = 0; i < kWidth; ++i) {
        REQUIRE(whole[i] - without[i] == own[i]);
        square += static_cast<Wide>(std::abs(own[i])) * static_cast<Wide>(std::abs(own[i]));
      }
      REQUIRE(square <= kWhole);
      if (row % 7 == 6) REQUIRE(square == 0);
      contributing += square > kWhole / 2 ? 1 : 0;
    }
  }
  CHECK(contributing > 20);  // rows with the full clip norm were tried
}

TEST_CASE("an example without a gradient adds the shift's cells, not nothing") {
  const EchoProgram echo(2);
  const Dataset data = make_data(2, {0, 0}, {0});
  const std::vector<float> shift{0.25f, 0.0f}, ones(2, 1.0f);
  const auto scaled = core::scaled_rows(echo, {shift, ones});
  const auto quarter = static_cast<std::int64_t>(core::kExactLevels / 4);
  CHECK(cells(*scaled, data, all_rows(data), 1.0) == std::vector<std::int64_t>{-quarter, 0});
}

TEST_CASE("a release of scaled rows stands for scale * release + shift") {
  const std::vector<float> shift{1.0f, -2.0f, 0.0f}, scale{3.0f, 4.0f, 3e38f};
  const Released made =
      core::unscaled(core::released_for_testing({2, 0.5f, 10}, 0.5), {shift, scale});
  CHECK(values(made) == std::vector<float>{7, 0, std::numeric_limits<float>::max()});
  CHECK(made.is_finite());
  const std::vector<float> small{3.0f, 4.0f, 5.0f};
  // Expected: the square root of (9 + 16 + 25) / 3.
  CHECK_THAT(
      core::unscaled(core::released_for_testing({0, 0, 0}, 0.5), {shift, small}).noise_stddev(),
      WithinRel(0.5 * std::sqrt(50.0 / 3.0), 1e-14));
  CHECK_FALSE(
      core::unscaled(core::released_for_testing({kNan, 0, 0}, 0.5), {shift, small}).is_finite());
}

TEST_CASE("scalings that are none are refused") {
  CHECK(refusal({0, 0}, {1, 1}) == "");
  CHECK_THAT(refusal({0}, {1, 1}), ContainsSubstring("1 and 2 coordinates"));
  CHECK_THAT(refusal({0, 0}, {1, 1, 1}), ContainsSubstring("2 and 3 coordinates"));
  CHECK_THAT(refusal({0, kNan}, {1, 1}), ContainsSubstring("shifts a coordinate"));
  for (const float bad : {0.0f, -1.0f, kInfinity, kNan})
    CHECK_THAT(refusal({0, 0}, {1, bad}), ContainsSubstring("scales a coordinate"));
}

}  // namespace scaled_rows_test
