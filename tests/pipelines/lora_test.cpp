// Adapters of low rank (model.lora): their gradients, the training of a run, and its results.
#include "privgrad/model/lora.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/row_evaluations.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/program_around.hpp"
#include "shared_files.hpp"
#include "test_random.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace {

using Floats = std::vector<float>;

Network classifier(Shape input, std::vector<Node> nodes) {
  return {.input = {std::move(input), 3}, .nodes = std::move(nodes), .loss = Loss::cross_entropy};
}

/// Adapters for all layers that can have one, and nothing for the others.
core::LoraLayout layout_of(const Network& network, std::size_t rank, double scale) {
  core::LoraLayout layout{.tensors = {}, .scale = scale};
  for (const ParameterBlock& block : parameter_blocks(network)) {
    if (block.shape.size() < 2) continue;
    const std::size_t rows = block.shape.front();
    layout.tensors.push_back(
        {.name = block.name,
         .rows = rows,
         .columns = element_count(block.shape) / rows,
         .in_network = block.offset,
         .offset = layout.parameters(),
         .rank = rank,
         .is_table = std::holds_alternative<Embedding>(network.nodes[block.node].layer)});
  }
  return layout;
}

Floats normals(std::size_t count, unsigned seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Examples {
  Floats features, targets;
  Batch batch() const { return {features, targets}; }
};

Examples examples_of(const Network& network, std::size_t rows) {
  Examples examples{normals(rows * element_count(network.input.features), 5, 1.0f), Floats(rows)};
  std::mt19937 random(6);
  if (const std::size_t tokens = vocabulary_of(network); tokens > 0) {
    for (float& x : examples.features) x = static_cast<float>(random() % tokens);
  }
  for (float& target : examples.targets) target = static_cast<float>(random() % 3);
  return examples;
}

/// Returns the parameters of the network before training.
Floats base_of(const Network& network) { return normals(parameter_count(network), 7, 0.4f); }

std::unique_ptr<Program> compiled(const Network& network) {
  static const auto executor = core::make_executor(1);
  static const auto backend = house().create<Backend>("cpu", Value::Object{});
  return backend->compile(network, *executor);
}

std::unique_ptr<Program> program_of(const Network& network, const core::LoraLayout& layout) {
  return compiled(core::network_with_adapters(network, layout, base_of(network)));
}

/// Returns networks of dense layers, one of them applied at each place, a convolution with strides
/// and padding, and an embedding.
std::vector<Network> small_networks() {
  return {classifier({5}, {Dense{8}, Activation{ActivationKind::tanh}, Dense{3}}),
          classifier({5, 4, 2}, {Conv2d{.channels = 6, .kernel = 3, .stride = 2, .padding = 1},
                                 Activation{ActivationKind::tanh}, Flatten{}, Dense{3}}),
          classifier({4}, {Embedding{.vocabulary = 7, .width = 5}, LayerNorm{}, Dense{3}}),
          classifier({4, 6}, {Dense{.units = 5, .per_place = true},
                              Activation{ActivationKind::tanh}, Dense{3}})};
}

}  // namespace

// ---- gradients

TEST_CASE("an adapter is added to its tensor as the product of its two parts", "[lora]") {
  // By hand: A = [1, -1], B = [2, 0, 1]', scale 3, so W = 1 becomes 1 + 3 B A = [[7, -5], [1, 1],
  // [4, -2]]. The last number is an unused bias, and the one before it is trained directly.
  core::LoraLayout layout{.tensors = {{.name = "layers.0.weight",
                                       .rows = 3,
                                       .columns = 2,
                                       .in_network = 0,
                                       .offset = 0,
                                       .rank = 1},
                                      {.name = "layers.1.weight",
                                       .rows = 1,
                                       .columns = 1,
                                       .in_network = 6,
                                       .offset = 5,
                                       .rank = 0}},
                          .scale = 3.0};
  REQUIRE(layout.parameters() == 6);
  const Floats expected{7, -5, 1, 1, 4, -2, 9, 1};
  Floats network(8, 1.0f);
  layout.merge(Floats{1, -1, 2, 0, 1, 9}, network);
  CHECK(network == expected);
  // In a table of embeddings, B comes first.
  layout.tensors[0].is_table = true;
  network.assign(8, 1.0f);
  layout.merge(Floats{2, 0, 1, 1, -1, 9}, network);
  CHECK(network == expected);
}

TEST_CASE("the adapted network computes what the merged one does", "[lora]") {
  for (const Network& network : small_networks()) {
    const core::LoraLayout layout = layout_of(network, 2, 1.5);
    const auto adapted = program_of(network, layout);
    REQUIRE(adapted->parameter_count() == layout.parameters());
    Network weighted = network;
    weighted.class_weights = {1.0, 2.0, 3.0};
    CHECK(core::network_with_adapters(weighted, layout, base_of(network)).class_weights ==
          weighted.class_weights);
    const Floats trained = normals(layout.parameters(), 8, 0.5f);
    adapted->load_parameters(trained);
    Floats whole = base_of(network);
    layout.merge(trained, whole);
    const auto merged = compiled(network);
    merged->load_parameters(whole);
    const Examples many = examples_of(network, 20);
    Floats found(60), expected(60);
    core::ability_of<Outputs>(*adapted)->outputs(many.features, 20, found);
    core::ability_of<Outputs>(*merged)->outputs(many.features, 20, expected);
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK_THAT(found[i], WithinAbs(expected[i], 2e-5 * (1.0 + std::fabs(expected[i]))));
  }
}

TEST_CASE("the gradients of adapters are the derivatives of the loss", "[lora]") {
  // Central differences of the loss, whose outputs are float32: accurate to about 1e-3.
  for (const Network& network : small_networks()) {
    const core::LoraLayout layout = layout_of(network, 2, 1.5);
    const auto program = program_of(network, layout);
    const Floats at = normals(layout.parameters(), 8, 0.5f);
    const Examples one = examples_of(network, 1);
    program->load_parameters(at);
    Floats row(at.size());
    program->gradient_rows(one.batch(), row);
    CHECK(std::count_if(row.begin(), row.end(), [](float x) { return std::fabs(x) > 0.01f; }) > 10);
    constexpr float kStep = 0x1p-7f;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto loss_at = [&](float value) {
        Floats moved = at;
        moved[i] = value;
        program->load_parameters(moved);
        return program->evaluate(one.batch()).loss;
      };
      const double slope = (loss_at(at[i] + kStep) - loss_at(at[i] - kStep)) / (2.0 * kStep);
      CHECK_THAT(row[i], WithinAbs(slope, 2e-3 * (1.0 + std::fabs(slope))));
    }
  }
}

TEST_CASE("an example's row in adapters is its own, bit for bit", "[lora][privacy]") {
  for (const Network& network : small_networks()) {
    const core::LoraLayout layout = layout_of(network, 2, 0.7);
    const auto program = program_of(network, layout);
    CHECK(core::ability_of<ReproducibleRows>(*program) != nullptr);
    const auto* exact = core::ability_of<ExactClipping>(*program);
    REQUIRE(exact != nullptr);
    CHECK(exact->groups() == 2 * layout.tensors.size());
    program->load_parameters(normals(layout.parameters(), 9, 0.5f));
    Examples many = examples_of(network, 41);
    const std::size_t inputs = element_count(network.input.features), own = layout.parameters();
    Floats rows(41 * own), other(41 * own), alone(own);
    program->gradient_rows(many.batch(), rows);
    for (std::size_t i = 0; i < 41; ++i) {
      program->gradient_rows({std::span(many.features).subspan(i * inputs, inputs),
                              std::span(many.targets).subspan(i, 1)},
                             alone);
      CHECK(std::memcmp(alone.data(), rows.data() + i * own, own * sizeof(float)) == 0);
    }
    // An example that is not a number spoils only its own row.
    many.features[17 * inputs] = std::numeric_limits<float>::quiet_NaN();
    program->gradient_rows(many.batch(), other);
    CHECK(std::memcmp(other.data(), rows.data(), 17 * own * sizeof(float)) == 0);
    CHECK(std::memcmp(other.data() + 18 * own, rows.data() + 18 * own, 23 * own * sizeof(float)) ==
          0);
    CHECK(std::any_of(other.begin() + static_cast<std::ptrdiff_t>(17 * own),
                      other.begin() + static_cast<std::ptrdiff_t>(18 * own),
                      [](float x) { return !std::isfinite(x); }));
  }
}

TEST_CASE("many examples are evaluated at once behind adapters, each as if alone", "[lora]") {
  for (const Network& network : small_networks()) {
    const core::LoraLayout layout = layout_of(network, 2, 0.7);
    const auto program = program_of(network, layout);
    program->load_parameters(normals(layout.parameters(), 9, 0.5f));
    const auto* many = core::ability_of<RowEvaluations>(*program);
    REQUIRE(many != nullptr);
    Examples examples = examples_of(network, 41);
    std::vector<Evaluation> each(41);
    many->evaluate_rows(examples.batch(), each);
    const std::size_t inputs = element_count(network.input.features);
    for (std::size_t i = 0; i < 41; ++i) {
      const Evaluation alone =
          program->evaluate({std::span(examples.features).subspan(i * inputs, inputs),
                             std::span(examples.targets).subspan(i, 1)});
      CHECK(each[i].loss == alone.loss);
      CHECK(each[i].correct == alone.correct);
    }
  }
}

TEST_CASE("a model with adapters begins as it was", "[lora]") {
  for (const Network& network : small_networks()) {
    const core::LoraLayout layout = layout_of(network, 2, 4.0);
    const Floats before = base_of(network);
    TestStream random(1, 0);
    const Floats trained = layout.beginning(before, random);
    Floats merged = before;
    layout.merge(trained, merged);
    CHECK(std::memcmp(merged.data(), before.data(), before.size() * sizeof(float)) == 0);
    // A must not be zero, because its gradient would then stay zero.
    for (const core::TrainedTensor& tensor : layout.tensors) {
      const double limit = 1.0 / std::sqrt(static_cast<double>(tensor.columns));
      const std::size_t a = tensor.offset + (tensor.is_table ? tensor.rank * tensor.rows : 0);
      for (std::size_t i = 0; i < tensor.rank * tensor.columns; ++i) {
        const double value = trained[a + i];
        CHECK(value != 0.0);
        CHECK(std::fabs(value) <= limit);
      }
    }
  }
}

// ---- runs

namespace {

/// layers.0 of 6 x 3 and 6 numbers, layers.2 of 5 x 6 and 5, layers.4 of 2 x 5 and 2.
constexpr const char* kAdapted = R"(privgrad: 1
name: adapted
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 3, test_is_public: true}
model: {kind: mlp, hidden: [6, 5], activation: tanh, loss: cross_entropy,
        weights: {file: base.safetensors, public: true}}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";

const std::string kLora = "model.lora={rank: 1, alpha: 2, targets: [layers.2]}";
const std::vector<std::string> kQuiet{"privacy.noise=off", "schedules.clip_norm=100",
                                      "schedules.noise_multiplier=null", "steps=1"};

/// Returns a file's tensors by name.
std::map<std::string, Floats> tensors_in(const std::filesystem::path& file) {
  std::map<std::string, Floats> tensors;
  for (const core::StoredTensor& tensor : core::read_safetensors(read_file(file)).tensors)
    tensors[tensor.name] = tensor.values;
  return tensors;
}

/// Returns the allowed error of a step: the single backward pass of the whole model (ExactClipping)
/// makes products smaller by 2^-11, and rounds their factors to 13 bits.
double step_error(const Floats& before, const Floats& after) {
  double farthest = 0.0;
  for (std::size_t i = 0; i < before.size(); ++i)
    farthest = std::max(farthest,
                        std::fabs(static_cast<double>(after[i]) - static_cast<double>(before[i])));
  REQUIRE(farthest > 1e-3);
  return 0x1p-10 * farthest;
}

struct Adapted : Experiment {
  explicit Adapted(const std::vector<std::string>& overrides) : Experiment(kAdapted, overrides) {
    const Network network{.input = {{3}, 2},
                          .nodes = {Dense{6}, Activation{}, Dense{5}, Activation{}, Dense{2}},
                          .loss = Loss::cross_entropy};
    write_file(dir() / "base.safetensors",
               core::to_safetensors(network, normals(parameter_count(network), 3, 0.5f), {}, {}));
  }
  std::map<std::string, Floats> base() const { return tensors_in(dir() / "base.safetensors"); }
  std::map<std::string, Floats> left() const { return tensors_in(run_dir() / "model.safetensors"); }
};

std::string adapters_refusal(const std::vector<std::string>& overrides) {
  Adapted experiment(overrides);
  try {
    experiment.plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "it was planned";
}

}  // namespace

TEST_CASE("a step of an adapter is that of its tensor, seen through A", "[lora]") {
  // With B = 0, A has no gradient and B has scale G A'. A step that changes W by D therefore
  // changes W + scale B A by scale^2 D A'A, where scale is alpha / rank = 2.
  Adapted whole(kQuiet), adapted(with(kQuiet, {kLora}));
  whole.run();
  adapted.run();
  const Floats before = adapted.base().at("layers.2.weight");
  const Floats moved = whole.left().at("layers.2.weight");
  const Floats found = adapted.left().at("layers.2.weight");
  const Floats trained =
      core::initial_parameters(adapted.plan(), core::run_key(adapted.plan().manifest->seed));
  REQUIRE(trained.size() == 6 + 5);
  const double error = 4.0 * step_error(before, moved);
  for (std::size_t row = 0; row < 5; ++row) {
    double seen = 0.0;
    for (std::size_t k = 0; k < 6; ++k)
      seen += (static_cast<double>(moved[row * 6 + k]) - static_cast<double>(before[row * 6 + k])) *
              static_cast<double>(trained[k]);
    for (std::size_t k = 0; k < 6; ++k) {
      const double expected =
          static_cast<double>(before[row * 6 + k]) + 4.0 * seen * static_cast<double>(trained[k]);
      CHECK_THAT(found[row * 6 + k], WithinAbs(expected, error));
    }
  }
  CHECK(found != before);
  for (const char* same :
       {"layers.0.weight", "layers.0.bias", "layers.2.bias", "layers.4.weight", "layers.4.bias"})
    CHECK(adapted.left().at(same) == adapted.base().at(same));
}

TEST_CASE("every trained tensor has moved after two steps", "[lora]") {
  // The first step moves B, which begins at 0; only after that does A have a gradient. If A had not
  // moved, every row of the change would be a multiple of its initial row.
  Adapted experiment(with(kQuiet, {"model.lora={rank: 1, alpha: 2, targets: ['*']}", "steps=2",
                                   "schedules.learning_rate=1"}));
  experiment.run();
  const core::Plan& plan = experiment.plan();
  const Floats begun = core::initial_parameters(plan, core::run_key(plan.manifest->seed));
  for (const core::TrainedTensor& tensor : plan.setting->lora->tensors) {
    INFO(tensor.name);
    const Floats before = experiment.base().at(tensor.name);
    const Floats after = experiment.left().at(tensor.name);
    double changed = 0.0, askew = 0.0;
    for (std::size_t i = 0; i < before.size(); i += tensor.columns) {
      const auto change = [&](std::size_t k) {
        return static_cast<double>(after[i + k]) - static_cast<double>(before[i + k]);
      };
      for (std::size_t k = 1; k < tensor.columns; ++k) {
        const double first = begun[tensor.offset], other = begun[tensor.offset + k];
        changed = std::max(changed, std::fabs(change(k)));
        askew = std::max(askew, std::fabs(change(k) * first - change(0) * other));
      }
    }
    CHECK(changed > 1e-3);
    CHECK(askew > 1e-5);
  }
}

TEST_CASE("layers are trained beside adapters, and frozen behind them", "[lora][frozen]") {
  // The initial model is unchanged, so the last layer changes as in the whole model.
  Adapted whole(kQuiet), both(with(kQuiet, {kLora, "model.train=[last]"}));
  whole.run();
  both.run();
  const auto expected = whole.left(), found = both.left();
  for (const char* name : {"layers.4.weight", "layers.4.bias"}) {
    const double error = step_error(both.base().at(name), expected.at(name));
    for (std::size_t i = 0; i < found.at(name).size(); ++i)
      CHECK_THAT(found.at(name)[i], WithinAbs(expected.at(name)[i], error));
  }
  CHECK(found.at("layers.2.bias") == both.base().at("layers.2.bias"));

  Adapted behind(
      with(kQuiet, {"model.lora={rank: 1, targets: [layers.2]}", "model.train=[layers.0]"}));
  behind.run();
  CHECK(behind.left().at("layers.0.weight") != behind.base().at("layers.0.weight"));
  CHECK(behind.left().at("layers.4.weight") == behind.base().at("layers.4.weight"));
}

TEST_CASE("adapters are all that norms, noise and cost are about", "[lora][privacy]") {
  Adapted adapted({kLora, "model.train=[last]"}), whole({});
  const core::Plan& plan = adapted.plan();
  CHECK(plan.parameters == 6 + 5 + 12);
  // The first layer comes before all trained layers, and is applied to the examples once.
  CHECK(plan.setting->frozen_layers == 2);
  CHECK(core::untrained_parameters(*plan.setting) == 24 + 30 + 5);
  REQUIRE(plan.setting->groups.size() == 3);
  CHECK(plan.setting->groups[0].name == "layers.2.lora_a");
  CHECK(plan.setting->groups[0].size == 6);
  CHECK(plan.setting->groups[1].name == "layers.2.lora_b");
  CHECK(plan.setting->groups[1].size == 5);
  CHECK(plan.setting->groups[2].name == "layers.4");
  CHECK(plan.setting->groups[2].offset == 11);
  CHECK(plan.setting->groups[2].size == 12);
  CHECK(plan.epsilon().value == whole.plan().epsilon().value);
  CHECK(plan.covers_bits());
  const core::RunResult run = adapted.run();
  CHECK(run.status == core::RunStatus::completed);
  CHECK(run.statement.at("floating_point") == "exact");
  CHECK(run.statement.at("lora") ==
        nlohmann::json{{"rank", 1},
                       {"alpha", 2.0},
                       {"adapted", {"layers.2.weight"}},
                       {"trained", {"layers.4.weight", "layers.4.bias"}}});
  CHECK_THAT(run.statement.at("prose").dump(),
             ContainsSubstring("Low-rank changes of rank 1 were trained of layers.2.weight, and "
                               "all of layers.4.weight and layers.4.bias"));
  std::filesystem::remove(adapted.dir() / "base.safetensors");
  CHECK(verify::all_of(verify::check(adapted.run_dir()).problems) == "");
}

TEST_CASE("a run of adapters has the same bits on any number of threads", "[lora]") {
  Adapted one({"model.lora={rank: 1, targets: ['*']}", "model.train=null"});
  Adapted four({"model.lora={rank: 1, targets: ['*']}", "model.train=null"});
  one.run(1);
  four.run(4);
  CHECK(one.left() == four.left());
  CHECK(one.left() != one.base());
}

TEST_CASE("adapters go with per-layer clipping, averages and federated runs", "[lora]") {
  const std::vector<std::vector<std::string>> ways{
      {"clipping=per_layer"},
      {"ema_decay=0.9", "output=ema"},
      {"federated={clients: 3, rounds: 2, local_iterations: 1}"}};
  for (const auto& way : ways) {
    Adapted experiment(with({kLora}, way));
    CHECK(experiment.run().status == core::RunStatus::completed);
    CHECK(experiment.left().at("layers.2.weight") != experiment.base().at("layers.2.weight"));
    CHECK(experiment.left().at("layers.4.weight") == experiment.base().at("layers.4.weight"));
    CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
  }
}

TEST_CASE("what cannot be adapted is refused", "[lora]") {
  const auto why = [](const std::string& lora, const std::string& more = "seed=1") {
    return adapters_refusal({"model.lora={" + lora + "}", more});
  };
  CHECK_THAT(why("rank: 3, targets: [layers.2]"),
             ContainsSubstring("model.lora.rank") &&
                 ContainsSubstring("no fewer numbers than the 30 that it adapts"));
  CHECK_THAT(why("rank: 1, targets: [layers.3]"),
             ContainsSubstring("there are layers.0, layers.2, layers.4"));
  CHECK_THAT(why("rank: 1, targets: [layers.4]", "model.train=[last]"),
             ContainsSubstring("model.train trains layers.4 as a whole"));
  CHECK_THAT(why("rank: 0, targets: ['*']"), ContainsSubstring("model.lora.rank"));
  CHECK_THAT(why("rank: 1, targets: []"), ContainsSubstring("model.lora.targets"));
  CHECK_THAT(why("rank: 1, alpha: 0, targets: ['*']"), ContainsSubstring("model.lora.alpha"));
  CHECK_THAT(why("rank: 1, targets: ['*']", "model.weights=null"),
             ContainsSubstring("give them as model.weights"));
  CHECK_THAT(why("rank: 1, targets: [layers.2]", "model.weights.map={layers.2.weight: null}"),
             ContainsSubstring("adapts layers.2.weight, whose weights are untrained"));
  CHECK_THAT(why("rank: 1, targets: [layers.2]", "model.weights.map={layers.4.bias: null}"),
             ContainsSubstring("freezes layers.4.bias, whose weights are untrained"));
  CHECK_THAT(
      why("rank: 1, alpha: 1e-60, targets: ['*']"),
      ContainsSubstring("model.lora.alpha") && ContainsSubstring("nothing would be trained"));
  CHECK_THAT(why("rank: 1, alpha: 1e60, targets: ['*']"),
             ContainsSubstring("model.lora") && ContainsSubstring("float32 cannot hold"));
  CHECK(why("rank: 1, targets: ['layers.*.weight']") == "it was planned");
}

TEST_CASE("the study of public weights trains what it says, all of it at the same privacy",
          "[lora][examples][data]") {
  const auto data = data_folder_with("fashion-mnist/train-images-idx3-ubyte.gz");
  if (data.empty()) PRIVGRAD_SKIP("fashion-mnist is not in PRIVGRAD_DATA_DIR");
  ::setenv("PRIVGRAD_DATA_DIR", data.c_str(), 0);
  const core::StudyPlan study = core::plan_study(
      core::read_study(kSource / "examples/studies/public-weights.yaml"), {}, house());
  // Convolutions of 16 x 64 and 32 x 256, dense layers of 32 x 512 and 10 x 32, with their biases.
  const std::map<std::string, std::size_t> trained{
      {"scratch", 1040 + 8224 + 16416 + 330},
      {"last-layer", 330},
      {"lora-4", 4 * (16 + 64 + 32 + 256 + 32 + 512) + 330},
      {"all-layers", 26010}};
  REQUIRE(study.arms.size() == trained.size());
  for (const core::PlannedArm& arm : study.arms) {
    CHECK(arm.plan.parameters == trained.at(arm.arm->name));
    CHECK(arm.plan.setting->initial == nullptr);  // the runs read the weights again
    CHECK(arm.plan.epsilon().value <= 1.0);
    CHECK(arm.plan.noise_multiplier == study.arms.front().plan.noise_multiplier);
    if (arm.arm->name == "scratch") continue;
    CHECK(arm.plan.setting->weights->begun_anew ==
          std::vector<std::string>{"layers.8.weight", "layers.8.bias"});
  }
}
