// The core's exact sums on the cpu backend, from files to whole numbers.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "fake_clipping.hpp"
#include "house_plugins.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/testing.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

using Rows = std::vector<std::uint32_t>;

/// Hides all abilities of a program except rows.
class RowsOnly final : public Program, public ReproducibleRows {
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

using Cells = std::vector<std::int64_t>;

Cells cells_of(const core::BoundedOnGrid& sum) { return core::cells_for_testing(sum); }

Cells minus(Cells a, const Cells& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

long double length(const Cells& cells) {
  long double squares = 0;
  for (const std::int64_t x : cells) squares += static_cast<long double>(x) * x;
  return std::sqrt(squares);
}

constexpr auto kWhole = static_cast<long double>(core::kExactLevels);

Network network_of(const Shape& features, std::vector<Node> nodes) {
  Network network;
  network.input.features = features;
  network.input.classes = 4;
  network.nodes = std::move(nodes);
  return network;
}

std::vector<Network> networks() {
  const Pool pool{.kind = PoolKind::max, .window = 2, .stride = 2};
  const Activation relu{};
  return {network_of({30}, {Dense{50}, relu, Dense{4}}),
          network_of({12, 12}, {Conv2d{.channels = 6, .kernel = 5}, relu, pool,
                                Conv2d{.channels = 20, .kernel = 3}, GroupNorm{.groups = 5}, relu,
                                Flatten{}, Dense{4}}),
          network_of({5}, {Embedding{.vocabulary = 11, .width = 6},
                           Dense{.units = 8, .per_place = true}, LayerNorm{}, Dense{4}})};
}

Dataset make_data(const Network& network, std::size_t rows) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const bool tokens = std::holds_alternative<Embedding>(network.nodes.front().layer);
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

}  // namespace

TEST_CASE("exact sum: what the rows give, to 13 bits", "[exact]") {
  const auto executor = core::make_executor(2);
  for (const Network& network : networks()) {
    const auto program = compile(network, *executor);
    REQUIRE(dynamic_cast<const ExactClipping*>(program.get()) != nullptr);
    REQUIRE(dynamic_cast<const ReproducibleRows*>(program.get()) != nullptr);
    const Dataset data = make_data(network, 300);
    for (const std::size_t count : {0u, 1u, 9u, 300u}) {
      for (const double clip_norm : {0.05, 3.0, 1e6}) {  // all, some and none are clipped
        const Rows rows = some_rows(300, count);
        const Cells cells = cells_of(exact_sum(*program, data, rows, clip_norm, *executor));
        const Cells by_rows =
            cells_of(exact_sum(RowsOnly(*program), data, rows, clip_norm, *executor));
        REQUIRE(cells.size() == by_rows.size());
        // For each example, 2^-10 of its length in cells if all errors add up, plus some cells if
        // the clip norm is so far above the gradients that they have few cells.
        const long double allowed =
            static_cast<long double>(count) *
            (16.0L +
             0x1p-10L * kWhole * std::min(1.0L, 60.0L / static_cast<long double>(clip_norm)));
        long double furthest = 0;
        for (std::size_t i = 0; i < cells.size(); ++i) {
          furthest = std::max(furthest, std::abs(static_cast<long double>(cells[i]) -
                                                 static_cast<long double>(by_rows[i])));
        }
        CHECK(furthest <= allowed);
      }
    }
  }
}

TEST_CASE("exact sum: an example is as long as the bound lets it be, and no longer",
          "[exact][privacy]") {
  const auto executor = core::make_executor(1);
  for (const Network& network : networks()) {
    const auto program = compile(network, *executor);
    const Dataset data = make_data(network, 12);
    for (std::uint32_t row = 0; row < 12; ++row) {
      for (const double bound : {1e-20, 1e-12, 1e-3, 0.1}) {
        const Cells own = cells_of(exact_sum(*program, data, Rows{row}, bound, *executor));
        REQUIRE(length(own) <= kWhole);
        REQUIRE(length(own) >= 0.999L * kWhole);
      }
    }
  }
}

TEST_CASE("exact sum: without an example, it is less by that example's cells alone",
          "[exact][privacy]") {
  const auto executor = core::make_executor(2);
  for (const Network& network : networks()) {
    const auto program = compile(network, *executor);
    for (const std::size_t count : {2u, 17u, 65u, 257u}) {
      const Dataset data = make_data(network, count);
      const Rows all = some_rows(count, count);
      const Cells whole = cells_of(exact_sum(*program, data, all, 0.5, *executor));
      for (std::size_t i = 0; i<count; i += count> 100 ? 29 : 1) {
        Rows others = all;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        const Cells less = cells_of(exact_sum(*program, data, others, 0.5, *executor));
        const Cells own = cells_of(exact_sum(*program, data, Rows{all[i]}, 0.5, *executor));
        REQUIRE(minus(whole, less) == own);
      }
    }
  }
}

TEST_CASE("exact sum: the same whole numbers for any number of threads and any memory", "[exact]") {
  for (const Network& network : networks()) {
    const Dataset data = make_data(network, 700);
    Rows rows = some_rows(700, 650);
    Cells expected;
    for (const int threads : {1, 2, 5}) {
      const auto executor = core::make_executor(threads);
      const auto program = compile(network, *executor);
      core::SumMemory memory;
      for (const std::size_t most_rows : {1u, 300u, 0u, 100000u}) {
        const Cells sum =
            cells_of(exact_sum(*program, data, rows, 0.5, *executor, most_rows, &memory));
        if (expected.empty()) expected = sum;
        REQUIRE(sum == expected);
        std::shuffle(rows.begin(), rows.end(), std::mt19937(7));
      }
    }
  }
}

TEST_CASE("exact sum: examples whose gradient overflows count as zero, and disturb nobody",
          "[exact][privacy]") {
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
  const Cells with = cells_of(exact_sum(*program, data, all, 1.0, *executor));
  std::erase_if(all, [](std::uint32_t row) { return row == 7 || row == 33; });
  CHECK(cells_of(exact_sum(*program, data, all, 1.0, *executor)) == with);
}

namespace {

/// Returns the exact sum over a training set that a manifest reads and transforms, at the model's
/// initial parameters and the clip norm of the manifest's first step.
Cells sum_of_file(const std::string& yaml, const std::string& csv) {
  Experiment experiment(yaml);
  write_file(experiment.dir() / "train.csv", csv);
  const core::Plan& plan = experiment.plan();
  const auto executor = core::make_executor(2);
  core::Workbench bench = core::make_workbench(plan, *executor);
  bench.load(core::initial_parameters(plan, core::RandomKey::from_seed(1)));
  const core::RunData data = core::read_data(*plan.manifest, *plan.setting);
  Rows rows(data.train.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  const core::Components made = core::make_components(*plan.manifest, plan.setting->groups);
  const core::Clip clip{
      .rule = *made.clipping, .groups = plan.setting->groups, .clip_norm = plan.clip_norm.front()};
  return cells_of(core::exact_sum(*bench.program, data.train, rows, clip, *executor));
}

}  // namespace

TEST_CASE("from a file to whole numbers: a row more is that row's cells more", "[exact][privacy]") {
  const std::string base = R"(privgrad: 1
name: rows
seed: 1
data: {kind: csv, train: train.csv, target: y, classes: 3, transforms: TRANSFORMS}
model: MODEL
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 1.0, clip_norm: 0.3, learning_rate: 0.1}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp}}
steps: 1
)";
  std::mt19937 random(12);
  std::vector<std::string> lines;
  for (int row = 0; row < 37; ++row) {
    std::string line;
    for (int column = 0; column < 4; ++column)
      line += std::to_string(std::normal_distribution<double>(1.0, 30.0)(random)) + ",";
    lines.push_back(line + std::to_string(row % 3) + "\n");
  }
  const auto file = [&](std::size_t without, std::size_t only) {
    std::string csv = "a,b,c,d,y\n";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i == without || (only < lines.size() && i != only)) continue;
      csv += lines[i];
    }
    return csv;
  };
  constexpr std::size_t kNone = 1000;
  for (const char* transforms :
       {"[]", "[{kind: standardize, mean: [1, 1, 1, 1], std: [30, 30, 30, 30]}]",
        "[{kind: scale_max_norm, to: 1, max_norm: 90}, {kind: flatten}]"}) {
    for (const char* model : {"{kind: linear}", "{kind: mlp, hidden: [40]}"}) {
      std::string yaml = base;
      yaml.replace(yaml.find("TRANSFORMS"), 10, transforms);
      yaml.replace(yaml.find("MODEL"), 5, model);
      const Cells whole = sum_of_file(yaml, file(kNone, kNone));
      for (const std::size_t row : {std::size_t{0}, std::size_t{16}, std::size_t{36}}) {
        CHECK(minus(whole, sum_of_file(yaml, file(row, kNone))) ==
              sum_of_file(yaml, file(kNone, row)));
      }
    }
  }
}

TEST_CASE("crafted neighbours move the sum of a linear model by at most one clip norm",
          "[exact][privacy]") {
  // The worst case for float32 sums: 2^k + 1 rows with target -1e4, and then rows whose gradient is
  // just under half of the resolution of a float32 sum of that size; all features are 0, so only
  // the bias changes. Without row 0, a float32 sum changes by 54 clip norms at 60 000 rows.
  const auto executor = core::make_executor(2);
  Network network;
  network.input.features = {2};
  network.nodes = {Dense{1}};
  network.loss = Loss::squared;
  const auto program = house().create<Backend>("cpu", Value::Object{})->compile(network, *executor);
  program->load_parameters(std::vector<float>(program->parameter_count(), 0.0f));
  for (const std::size_t count : {10'000u, 60'000u, 1'000'000u}) {
    const auto half = std::size_t{1} << static_cast<unsigned>(std::log2(count / 2));
    const auto tiny = static_cast<float>(0.98 * std::ldexp(1.0, std::ilogb(half) - 24));
    std::vector<float> targets(count, tiny);
    std::fill_n(targets.begin(), half + 1, -1e4f);
    const Dataset data(network.input, std::vector<float>(2 * count), std::move(targets));
    Rows rows(count);
    std::iota(rows.begin(), rows.end(), 0u);
    const Cells whole = cells_of(exact_sum(*program, data, rows, 1.0, *executor));
    rows.erase(rows.begin());
    const Cells others = cells_of(exact_sum(*program, data, rows, 1.0, *executor));
    const Cells moved = minus(whole, others);
    CHECK(length(moved) <= kWhole);
    CHECK(length(moved) >= 0.999L * kWhole);
    CHECK(moved == cells_of(exact_sum(*program, data, Rows{0}, 1.0, *executor)));
  }
}

TEST_CASE("one more of many aligned gradients moves the sum by its own cells", "[exact][privacy]") {
  // Clipped gradients with the same direction, in batches in which one row changes a float32 sum by
  // 1.036 clip norms (10^5 rows) to 8.4 (4 * 10^6 rows).
  const auto executor = core::make_executor(2);
  Network network;
  network.input.features = {3};
  network.nodes = {Dense{1}};
  network.loss = Loss::squared;
  const auto program = house().create<Backend>("cpu", Value::Object{})->compile(network, *executor);
  program->load_parameters(std::vector<float>(program->parameter_count(), 0.0f));
  for (const std::size_t count : {100'000u, 4'000'000u}) {
    std::vector<float> features(3 * count), targets(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < 3; ++k)
        features[3 * i + k] = 1.0f + 1e-3f * static_cast<float>((i * (k + 1)) % 1009);
      targets[i] = -10.0f - static_cast<float>(i % 13);
    }
    const Dataset data(network.input, std::move(features), std::move(targets));
    Rows all(count);
    std::iota(all.begin(), all.end(), 0u);
    const Cells whole = cells_of(exact_sum(*program, data, all, 1.0, *executor));
    const auto row = static_cast<std::uint32_t>(count / 3);
    all.erase(all.begin() + row);
    const Cells others = cells_of(exact_sum(*program, data, all, 1.0, *executor));
    const Cells moved = minus(whole, others);
    CHECK(moved == cells_of(exact_sum(*program, data, Rows{row}, 1.0, *executor)));
    CHECK(length(moved) <= kWhole);
  }
}

TEST_CASE("a trained model does not betray which grid its noise fell on", "[exact][privacy]") {
  // One step with learning rate 1 from zero parameters: the weights are the release. For every
  // aggregator with Gaussian noise, whether the noise is far above the data or not, each weight is
  // a multiple of a cell that only noise and bound determine, with and without the example.
  for (const char* aggregator :
       {"{kind: gaussian}", "{kind: tree}", "{kind: tree, momentum: 0.5}",
        "{kind: tree, variance_reduction: true}",
        "{kind: tree_reduced, momentum: 0.5, smoothness: 1, gamma: 0.5}"}) {
    for (const double multiplier : {1.0, 10.0}) {
      for (const std::string last : {"0", "0.7"}) {
        Experiment experiment(R"(privgrad: 1
name: lattice
seed: 4
data: {kind: csv, train: train.csv, target: y, task: regression}
model: {kind: linear, loss: squared}
sampler: {kind: shuffle, batch_size: 4}
optimizer: {kind: sgd}
schedules: {clip_norm: 1.0, learning_rate: 1.0}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp}}
steps: 1
)",
                              {std::string("aggregator=") + aggregator,
                               "schedules.noise_multiplier=" + std::to_string(multiplier)});
        std::string csv = "a,b,y\n0,0,0\n0,0,0\n0,0,0\n";
        csv.append(last).append(",1,").append(last).append("\n");
        write_file(experiment.dir() / "train.csv", csv);
        experiment.run();
        // Cells of the mechanism's grid, by the definition of release_shift(): a standard deviation
        // has between 2^9 and 2^10 cells; here 2^9, divided by the divisor 4; momentum halves them.
        // The trees of tree_reduced have their own noise and therefore their own, finer cells.
        const std::string kind = aggregator;
        const auto is = [&](const char* word) { return kind.find(word) != std::string::npos; };
        const double cell = std::exp2(std::floor(std::log2(multiplier)) - 9.0) / 4.0 *
                            (is("momentum") ? 0.5 : 1.0) * (is("tree_reduced") ? 0x1p-10 : 1.0);
        for (const float weight : experiment.parameters()) {
          const double cells = static_cast<double>(weight) / cell;
          CHECK(cells == std::round(cells));
        }
      }
    }
  }
}

TEST_CASE("a run whose number of examples is private ends alike with any number of them",
          "[exact][privacy]") {
  // Under add_or_remove_one the manifest declares a size, and the actual number may be larger:
  // whether the run of a tree stops must not depend on the last example.
  for (const char* aggregator : {"{kind: tree}", "{kind: tree, momentum: 0.5}"}) {
    for (const int rows : {60, 119, 120, 121, 300}) {
      Experiment experiment(R"(privgrad: 1
name: many
seed: 4
data: {kind: csv, train: train.csv, target: y, task: regression, size: 60}
model: {kind: linear, loss: squared}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.1}
privacy: {target_delta: 1e-5, adjacency: add_or_remove_one, accountant: {kind: zcdp}}
steps: 3
)",
                            {std::string("aggregator=") + aggregator});
      std::string csv = "a,b,y\n";
      for (int row = 0; row < rows; ++row) csv += std::to_string(row % 7) + ",1,3\n";
      write_file(experiment.dir() / "train.csv", csv);
      CHECK(experiment.run().status == core::RunStatus::completed);
    }
  }
}

TEST_CASE("an example that a transform makes overflow counts as zero, and stops nothing",
          "[exact][privacy]") {
  const std::string yaml = R"(privgrad: 1
name: rows
seed: 1
data: {kind: csv, train: train.csv, target: y, classes: 2, transforms: [{kind: standardize, mean: [0, 0], std: [0.5, 0.5]}]}
model: {kind: mlp, hidden: [5]}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 1.0, clip_norm: 0.3, learning_rate: 0.1}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp}}
steps: 1
)";
  const std::string head = "a,b,y\n1,2,0\n", tail = "2,-1,1\n";
  CHECK(sum_of_file(yaml, head + "3e38,1,1\n" + tail) == sum_of_file(yaml, head + tail));
}

TEST_CASE("a step with noise is not made without a ledger, nor before it is paid for",
          "[exact][privacy]") {
  for (const char* aggregator :
       {"{kind: gaussian}", "{kind: gaussian, arithmetic: float}", "{kind: tree}",
        "{kind: tree_reduced, momentum: 0.5, smoothness: 1, gamma: 0.1}"}) {
    Experiment experiment(R"(privgrad: 1
name: unpaid
seed: 1
data: {kind: synthetic, rows: 20, dimensions: 3}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 5, fresh: false}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.01}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp}}
steps: 8
)",
                          {std::string("aggregator=") + aggregator});
    const core::Plan& plan = experiment.plan();
    const auto executor = core::make_executor(1);
    core::Workbench bench = core::make_workbench(plan, *executor);
    const core::RandomKey key = core::RandomKey::from_seed(1);
    bench.load(core::initial_parameters(plan, key));
    const core::RunData data = core::read_data(*plan.manifest, *plan.setting);
    core::Trainer trainer(plan, data.train, key, *executor);
    CHECK_THROWS_WITH(trainer.take_step(0, bench), ContainsSubstring("none was opened"));
    trainer.open_ledger(experiment.dir() / "ledger.jsonl", nlohmann::json::object());
    CHECK_THROWS_WITH(trainer.take_step(0, bench), ContainsSubstring("was not charged"));
    REQUIRE(trainer.pay_for(0));
    CHECK(trainer.take_step(0, bench));
  }
}

TEST_CASE("exact sum: a sampler that repeats or invents rows is caught", "[exact][privacy]") {
  const auto executor = core::make_executor(1);
  const Network network = networks().front();
  const auto program = compile(network, *executor);
  const Dataset data = make_data(network, 5);
  CHECK_THROWS_AS(exact_sum(*program, data, Rows{0, 1, 0}, 1.0, *executor), PluginError);
  CHECK_THROWS_AS(exact_sum(*program, data, Rows{5}, 1.0, *executor), PluginError);
}
