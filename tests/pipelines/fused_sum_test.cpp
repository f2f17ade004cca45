// The core's clipped sum of networks on the cpu backend: with one backward pass, and with rows.
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "house_plugins.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/mechanism.hpp"

using namespace privgrad;

namespace {

using Rows = std::vector<std::uint32_t>;

/// Hides what a program can do beside rows.
class RowsOnly final : public Program {
 public:
  explicit RowsOnly(const Program& program) : program_(program) {}
  std::size_t parameter_count() const override { return program_.parameter_count(); }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    program_.gradient_rows(batch, rows);
  }
  Evaluation evaluate(const Batch& batch) const override { return program_.evaluate(batch); }

 private:
  const Program& program_;
};

std::vector<float> values_of(Bounded sum) {
  const auto aggregator = independent_noise(1.0);
  const auto executor = core::make_executor(1);
  core::Mechanism mechanism(aggregator, core::RandomKey::from_seed(0), *executor);
  const Released released = mechanism.release_without_noise(std::move(sum), 1.0);
  return {released.values().begin(), released.values().end()};
}

Network network_of(Shape features, std::vector<Layer> layers) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = 4;
  network.layers = std::move(layers);
  return network;
}

std::vector<Network> networks() {
  const Pool pool{.kind = PoolKind::max, .window = 2, .stride = 2};
  const Activation relu{};
  return {network_of({30}, {Dense{50}, relu, Dense{4}}),
          network_of({12, 12}, {Conv2d{.channels = 6, .kernel = 5}, relu, pool,
                                Conv2d{.channels = 20, .kernel = 3}, GroupNorm{.groups = 5}, relu,
                                Flatten{}, Dense{4}}),
          network_of({5}, {Embedding{.vocabulary = 11, .width = 6}, LayerNorm{}, Dense{4}})};
}

Dataset make_data(const Network& network, std::size_t rows) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const bool tokens = std::holds_alternative<Embedding>(network.layers.front());
  std::vector<float> features(rows * element_count(network.input.features));
  for (float& x : features) x = tokens ? static_cast<float>(random() % 11) : normal(random);
  std::vector<float> targets(rows);
  for (float& target : targets) target = static_cast<float>(random() % 4);
  return Dataset(network.input, std::move(features), std::move(targets));
}

std::unique_ptr<Program> compile(const Network& network, Executor& executor) {
  auto program = house().create<Backend>("cpu", Value::Object{})->compile(network, executor);
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0.0f, 0.4f);
  std::vector<float> parameters(program->parameter_count());
  for (float& parameter : parameters) parameter = normal(random);
  program->load_parameters(parameters);
  return program;
}

Rows some_rows(std::size_t of, std::size_t count) {
  Rows rows(of);
  std::iota(rows.begin(), rows.end(), 0u);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(6));
  rows.resize(count);
  return rows;
}

long double norm(std::span<const float> values) {
  long double squares = 0;
  for (const float x : values) squares += static_cast<long double>(x) * x;
  return std::sqrt(squares);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

}  // namespace

TEST_CASE("fused sum: what the rows give", "[clip]") {
  const auto executor = core::make_executor(2);
  for (const Network& network : networks()) {
    const auto program = compile(network, *executor);
    REQUIRE(dynamic_cast<const FusedClipping*>(program.get()) != nullptr);
    const Dataset data = make_data(network, 300);
    for (const std::size_t count : {0u, 1u, 9u, 300u}) {
      for (const double clip_norm : {0.05, 3.0, 1e6}) {  // all, some and none are clipped
        const Rows rows = some_rows(300, count);
        const auto fused = values_of(clipped_sum(*program, data, rows, clip_norm, *executor));
        const auto exact =
            values_of(clipped_sum(RowsOnly(*program), data, rows, clip_norm, *executor));
        REQUIRE(fused.size() == exact.size());
        // Factors differ by what norms by places leave for rounding, 1e-4 of each contribution.
        const long double allowed =
            1e-4L * static_cast<long double>(count) * std::min(clip_norm, 30.0);
        for (std::size_t i = 0; i < fused.size(); ++i) {
          REQUIRE(std::abs(fused[i] - exact[i]) <= static_cast<double>(allowed));
        }
      }
    }
  }
}

TEST_CASE("fused sum: an example moves it by no more than the bound", "[clip][privacy]") {
  const auto executor = core::make_executor(1);
  for (const Network& network : networks()) {
    const auto program = compile(network, *executor);
    const Dataset data = make_data(network, 12);
    for (std::uint32_t row = 0; row < 12; ++row) {
      const Rows alone{row};
      const auto whole = values_of(clipped_sum(*program, data, alone, 1e9, *executor));
      // Its own norm up to the last bits, where rounding decides, and bounds far below.
      const auto own = static_cast<double>(norm(whole));
      for (const double bound :
           {own, std::nextafter(own, 0.0), own * 0.999999, 0.37 * own, 1e-3, 1e-12, 1e-20}) {
        const auto sum = values_of(clipped_sum(*program, data, alone, bound, *executor));
        REQUIRE(norm(sum) <= static_cast<long double>(bound));
        // And not needlessly small.
        if (bound >= 1e-12) REQUIRE(norm(sum) >= static_cast<long double>(bound) * 0.999L);
      }
    }
  }
}

TEST_CASE("fused sum: bitwise the same for any number of threads and any memory", "[clip]") {
  for (const Network& network : networks()) {
    const Dataset data = make_data(network, 700);
    const Rows rows = some_rows(700, 650);
    std::vector<float> expected;
    for (const int threads : {1, 2, 5}) {
      const auto executor = core::make_executor(threads);
      const auto program = compile(network, *executor);
      core::SumMemory memory;
      for (const std::size_t most_rows : {1u, 300u, 0u, 100000u}) {
        const auto sum =
            values_of(clipped_sum(*program, data, rows, 0.5, *executor, most_rows, &memory));
        if (expected.empty()) expected = sum;
        REQUIRE(same_bits(sum, expected));
      }
    }
  }
}

TEST_CASE("fused sum: examples whose gradient overflows count as zero", "[clip][privacy]") {
  const auto executor = core::make_executor(2);
  const Network network = networks().front();
  const auto program = compile(network, *executor);
  const std::size_t size = element_count(network.input.features);
  std::vector<float> features(40 * size, 0.3f);
  std::vector<float> targets(40, 1.0f);
  for (std::size_t k = 0; k < size; ++k) {
    features[7 * size + k] = k % 2 == 0 ? 3e38f : -3e38f;
    features[33 * size + k] = 3e38f;
  }
  const Dataset data(network.input, std::move(features), std::move(targets));
  Rows all = some_rows(40, 40);
  std::sort(all.begin(), all.end());
  const auto with = values_of(clipped_sum(*program, data, all, 1.0, *executor));
  for (const float value : with) REQUIRE(std::isfinite(value));
  // Their places are kept by examples that exist twice: the same sum without them.
  Rows others = all;
  std::erase_if(others, [](std::uint32_t row) { return row == 7 || row == 33; });
  const auto without = values_of(clipped_sum(*program, data, others, 1.0, *executor));
  for (std::size_t i = 0; i < with.size(); ++i) {
    CHECK_THAT(with[i], WithinRel(without[i], 1e-4f) || WithinAbs(without[i], 1e-4f));
  }
}

TEST_CASE("fused sum: a sampler that repeats or invents rows is caught", "[clip][privacy]") {
  const auto executor = core::make_executor(1);
  const Network network = networks().front();
  const auto program = compile(network, *executor);
  const Dataset data = make_data(network, 5);
  CHECK_THROWS_AS(clipped_sum(*program, data, Rows{0, 1, 0}, 1.0, *executor), PluginError);
  CHECK_THROWS_AS(clipped_sum(*program, data, Rows{5}, 1.0, *executor), PluginError);
}
