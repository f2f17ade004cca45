#include "privgrad/trust/fused_sum.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "fake_program.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "support.hpp"

using namespace privgrad;
using core::fused_sum;

namespace {

/// Two groups of one parameter; the gradients are the two features of an example. Remembers what it
/// was asked for. The target says what is wrong: 1 the second norm is infinite, 2 NaN, 3 no norm is
/// written.
class FakeFused final : public FusedClipping {
 public:
  class FakePass final : public Pass {
   public:
    Batch batch;
  };

  std::size_t groups() const override { return 2; }
  std::size_t chunk_rows() const override { return 4; }
  std::size_t pass_rows() const override { return 8; }
  std::unique_ptr<Pass> make_pass(std::size_t most_rows) const override {
    passes.push_back(most_rows);
    return std::make_unique<FakePass>();
  }
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    batches.push_back(batch.rows());
    dynamic_cast<FakePass&>(pass).batch = batch;
    for (std::size_t i = 0; i < batch.rows(); ++i) {
      if (batch.targets[i] == 3.0f) continue;
      for (std::size_t g = 0; g < 2; ++g) {
        const double x = static_cast<double>(batch.features[2 * i + g]);
        squared_norms[2 * i + g] = x * x;
      }
      if (batch.targets[i] == 1.0f) {
        squared_norms[2 * i + 1] = std::numeric_limits<double>::infinity();
      }
      if (batch.targets[i] == 2.0f) {
        squared_norms[2 * i + 1] = std::numeric_limits<double>::quiet_NaN();
      }
    }
  }
  void add_scaled(Pass& pass, std::span<const float> given, std::span<float> sum) const override {
    const Batch& batch = dynamic_cast<FakePass&>(pass).batch;
    factors.insert(factors.end(), given.begin(), given.end());
    for (std::size_t i = 0; i < 2 * batch.rows(); ++i) sum[i % 2] += given[i] * batch.features[i];
  }

  mutable std::vector<std::size_t> passes, batches;
  mutable std::vector<float> factors;
};

Dataset make_data(std::vector<float> features, std::vector<float> targets) {
  return Dataset(ExampleShape{{2}, 0}, std::move(features), std::move(targets));
}

std::vector<std::uint32_t> all_rows(const Dataset& data) {
  std::vector<std::uint32_t> rows(data.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

void ones(std::span<const double>, std::span<double> factors) {
  std::fill(factors.begin(), factors.end(), 1.0);
}

}  // namespace

TEST_CASE("fused sum: passes are whole chunks, within the memory that is allowed", "[clip]") {
  struct Case {
    std::size_t most_rows;
    std::vector<std::size_t> batches;
  };
  const Dataset data = make_data(std::vector<float>(42, 1.0f), std::vector<float>(21, 0.0f));
  for (const Case& one : {Case{0, {8, 8, 5}}, Case{1, {4, 4, 4, 4, 4, 1}},
                          Case{7, {4, 4, 4, 4, 4, 1}}, Case{15, {12, 9}}, Case{1000, {21}}}) {
    SerialExecutor serial;
    const FakeFused program;
    core::SumMemory memory;
    const auto sum =
        fused_sum(program, 2, data, all_rows(data), ones, serial, one.most_rows, memory);
    CHECK(program.batches == one.batches);
    CHECK(program.passes == std::vector<std::size_t>{one.batches.front()});
    CHECK(sum == std::vector<float>{21.0f, 21.0f});
    // The next step has the memory already, and begins at zero.
    const auto again =
        fused_sum(program, 2, data, all_rows(data), ones, serial, one.most_rows, memory);
    CHECK(again == sum);
    CHECK(program.passes.size() == 1);
  }
}

TEST_CASE("fused sum: an example with any norm that is not finite, or none, is left out",
          "[clip][privacy]") {
  SerialExecutor serial;
  const FakeFused program;
  const Dataset data = make_data({1, 2, 10, 10, 20, 20, 40, 40, 3, 4}, {0, 1, 2, 3, 0});
  core::SumMemory memory;
  std::size_t asked = 0;
  const auto rule = [&](std::span<const double> norms, std::span<double> factors) {
    ++asked;
    CHECK((norms[0] == 1.0 || norms[0] == 9.0));
    ones(norms, factors);
  };
  // Twice, so that norms of the first step lie where the second forgets to write.
  for (int step = 0; step < 2; ++step) {
    CHECK(fused_sum(program, 2, data, all_rows(data), rule, serial, 0, memory) ==
          std::vector<float>{4.0f, 6.0f});
  }
  CHECK(asked == 4);
}

TEST_CASE("fused sum: factors are rounded down, and finite", "[clip][privacy]") {
  SerialExecutor serial;
  const Dataset data = make_data({1, 1}, {0});
  for (const double factor : {0.1, 1.0 / 3.0, 1.0, 0.7, 1e-50, 1e-40, 1e300, 3.5e38}) {
    const FakeFused program;
    core::SumMemory memory;
    fused_sum(
        program, 2, data, all_rows(data),
        [&](std::span<const double>, std::span<double> factors) {
          std::fill(factors.begin(), factors.end(), factor);
        },
        serial, 0, memory);
    REQUIRE(program.factors.size() == 2);
    const float given = program.factors[0];
    CHECK(static_cast<double>(given) <= factor);
    CHECK(std::isfinite(given));
    if (factor < 3e38) {
      CHECK(static_cast<double>(std::nextafter(given, 2 * given + 1)) > factor);
    }
  }
}
