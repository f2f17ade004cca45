// Frozen layers in front of graphs: the values that cross to the trained layers.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/trust/program_around.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace frozen_front {
namespace {

using Floats = std::vector<float>;
using Sizes = std::vector<std::size_t>;

Floats normals(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Returns the parameters of a part, found by their names in the whole network.
Floats parameters_of(const Network& part, const Network& whole, const Floats& all) {
  Floats own;
  for (const ParameterBlock& block : parameter_blocks(part)) {
    for (const ParameterBlock& one : parameter_blocks(whole)) {
      if (one.name != block.name) continue;
      CHECK(one.shape == block.shape);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(one.offset);
      own.insert(own.end(), first, first + static_cast<std::ptrdiff_t>(element_count(one.shape)));
    }
  }
  return own;
}

/// Returns the outputs of each example, and its loss.
Floats results_of(const Network& network, const Floats& parameters, const Floats& features) {
  static const auto executor = core::make_executor(1);
  static const auto backend = house().create<Backend>("cpu", Value::Object{});
  const auto program = backend->compile(network, *executor);
  program->load_parameters(parameters);
  const std::size_t rows = features.size() / element_count(network.input.features);
  Floats outputs(rows * output_count(network));
  core::ability_of<Outputs>(*program)->outputs(features, rows, outputs);
  const std::size_t width = features.size() / rows;
  const Floats target{0.0f};
  for (std::size_t row = 0; row < rows; ++row) {
    const Batch one{std::span(features).subspan(row * width, width), target};
    outputs.push_back(static_cast<float>(program->evaluate(one).loss));
  }
  return outputs;
}

Floats outputs_of(const Network& network, const Floats& parameters, const Floats& features) {
  Floats results = results_of(network, parameters, features);
  results.resize(results.size() - features.size() / element_count(network.input.features));
  return results;
}

/// Returns the values that cross from the first layers, side by side for each example.
Floats crossing(const Network& whole, std::size_t layers, const Floats& all,
                const Floats& features) {
  const std::size_t width = element_count(whole.input.features), rows = features.size() / width;
  std::vector<Floats> values;
  for (const std::size_t value : core::values_behind(whole, layers)) {
    if (value == 0) {
      values.push_back(features);
      continue;
    }
    const Network part = core::part_up_to(whole, value);
    values.push_back(outputs_of(part, parameters_of(part, whole, all), features));
  }
  Floats result;
  for (std::size_t row = 0; row < rows; ++row) {
    for (const Floats& value : values) {
      const std::size_t size = value.size() / rows;
      const auto first = value.begin() + static_cast<std::ptrdiff_t>(row * size);
      result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(size));
    }
  }
  return result;
}

/// Returns a network on four places, each of which predicts the next token.
Network speaker(std::vector<Node> nodes) {
  Network network{.input = {{4}, 0}, .nodes = std::move(nodes), .loss = Loss::next_token};
  check_network(network);
  return network;
}

Network classifier(Shape features, std::vector<Node> nodes) {
  Network network;
  network.input = {std::move(features), 3};
  network.nodes = std::move(nodes);
  check_network(network);
  return network;
}

}  // namespace

TEST_CASE("every value that trained layers use crosses from the frozen ones", "[frozen]") {
  const Activation tanh{ActivationKind::tanh};
  const Network diamond = classifier({4}, {Dense{5},
                                           {tanh, {1}},
                                           {Dense{3}, {1}, "side"},
                                           {Dense{3}, {2}, "main"},
                                           {Add{}, {4, 3}},
                                           Dense{3}});
  CHECK(core::values_behind(diamond, 0) == Sizes{0});
  CHECK(core::values_behind(diamond, 3) == Sizes{2, 3});
  CHECK(core::values_behind(diamond, 4) == Sizes{3, 4});
  CHECK(core::values_behind(diamond, 5) == Sizes{5});
  // The part has only the nodes that compute the value, and keeps their names.
  const Network side = core::part_up_to(diamond, 3);
  REQUIRE(side.nodes.size() == 2);
  CHECK(parameter_blocks(side)[2].name == "side.weight");
  const Network behind = core::last_part(diamond, 3);
  CHECK(behind.input.features == Shape{8});
  CHECK(parameter_blocks(behind).front().name == "main.weight");
  CHECK(parameter_blocks(behind).back().name == "layers.5.bias");
  // Half of the features, and a multiple of them, depend on no parameter, so both are recomputed
  // after the cut.
  const Network halves = classifier({4}, {PartOf{.first = 0, .size = 2},
                                          Dense{3},
                                          {PartOf{.first = 2, .size = 2}, {0}},
                                          Scale{0.5},
                                          {Dense{3}, {4}},
                                          {Add{}, {2, 5}},
                                          Dense{3}});
  CHECK(core::values_behind(halves, 4) == Sizes{0, 2});
  CHECK(core::last_part(halves, 4).input.features == Shape{7});
  // Nodes that share parameters still do if nodes before them are removed.
  Network shared = classifier({4}, {Dense{4}, tanh, Dense{4}, Dense{4}, Dense{3}});
  shared.nodes[3].shares = 2;
  CHECK(core::last_part(shared, 2).nodes[1].shares == std::size_t{0});
  CHECK(core::part_up_to(shared, 4).nodes[3].shares == std::size_t{2});
  // In a chain one value crosses, and keeps its shape.
  const Network chain = classifier({6, 5}, {Conv2d{.channels = 2, .kernel = 3}, tanh, Dense{3}});
  CHECK(core::values_behind(chain, 2) == Sizes{2});
  CHECK(core::last_part(chain, 2).input.features == Shape{4, 3, 2});
  CHECK(core::last_part(chain, 2).nodes.size() == 1);
}

TEST_CASE("a network behind its frozen layers computes what the whole one does, to the last bit",
          "[frozen]") {
  const Activation tanh{ActivationKind::tanh};
  const Conv2d same{.channels = 2, .kernel = 3, .padding = 1};
  const std::vector<std::pair<Network, std::size_t>> cases{
      {classifier(
           {4},
           {Dense{5}, {tanh, {1}}, {Dense{3}, {1}}, {Dense{3}, {2}}, {Add{}, {4, 3}}, Dense{3}}),
       3},
      // The crossing values are an image and the features.
      {classifier({4, 3, 2},
                  {same, tanh, same, {Add{}, {3, 2, 0}}, GroupNorm{.groups = 2}, Dense{3}}),
       2},
      // Several vectors cross side by side, and no frozen layer computes some of them.
      {classifier({4}, {PartOf{.first = 0, .size = 2},
                        Dense{3},
                        {PartOf{.first = 2, .size = 2}, {0}},
                        Scale{0.5},
                        {Dense{3}, {4}},
                        {Add{}, {2, 5}},
                        Dense{3}}),
       4},
      // Tokens cross together with the values computed from them, and their mask is recomputed.
      {classifier({4}, {Embedding{.vocabulary = 4, .width = 2},
                        Positions{},
                        {TokenMask{}, {0}},
                        {Attention{}, {2, 2, 2, 3}},
                        {MeanOfPlaces{}, {4, 3}},
                        Dense{3}}),
       2},
      // Tokens cross because the loss needs them, with their mask and without.
      {speaker({Embedding{.vocabulary = 4, .width = 2},
                Positions{},
                {TokenMask{}, {0}},
                {Attention{.causal = true}, {2, 2, 2, 3}},
                Dense{.units = 4, .per_place = true}}),
       2},
      {speaker({Embedding{.vocabulary = 4, .width = 2}, Positions{},
                Dense{.units = 4, .per_place = true}}),
       2},
      // The crossing value is not the last frozen one.
      {classifier({4}, {Dense{3},
                        {Dense{3}, {0}},
                        {Add{}, {1, 2}},
                        {tanh, {1}},
                        {Dense{3}, {4}},
                        {Add{}, {3, 5}}}),
       4}};
  for (const auto& [whole, layers] : cases) {
    const Floats all = normals(parameter_count(whole), 3);
    Floats features = normals(7 * element_count(whole.input.features), 4);
    if (vocabulary_of(whole) > 0) {
      for (std::size_t i = 0; i < features.size(); ++i)
        features[i] = i % 4 <= i / 4 % 4 ? static_cast<float>(i * i % 4) : kEmptyPlace;
    }
    Network weighted = whole;
    weighted.class_weights = {1.0, 2.0, 3.0};
    CHECK(core::last_part(weighted, layers).class_weights == weighted.class_weights);
    const Network behind = core::last_part(whole, layers);
    check_network(behind);
    const Floats expected = results_of(whole, all, features);
    const Floats found = results_of(behind, parameters_of(behind, whole, all),
                                    crossing(whole, layers, all, features));
    REQUIRE(found.size() == expected.size());
    CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a graph is trained behind a frozen front of two values", "[frozen]") {
  Experiment experiment(R"(privgrad: 1
name: front
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 3, test_is_public: true}
model:
  kind: graph
  loss: cross_entropy
  nodes:
    - {name: stem, kind: dense, units: 4}
    - {name: side, kind: dense, units: 5}
    - {name: main, kind: dense, units: 5, from: [stem]}
    - {kind: add, from: [main, side]}
    - {kind: activation, function: tanh}
  weights: {file: base.safetensors, public: true}
  train: [main, last]
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)");
  Network network;
  network.input = {{3}, 2};
  network.nodes = {{Dense{4}, {}, "stem"},           {Dense{5}, {}, "side"},
                   {Dense{5}, {1}, "main"},          {Add{}, {3, 2}},
                   Activation{ActivationKind::tanh}, Dense{2}};
  const Floats before = normals(parameter_count(network), 3);
  write_file(experiment.dir() / "base.safetensors", core::to_safetensors(network, before, {}, {}));
  const core::Plan& plan = experiment.plan();
  CHECK(plan.setting->frozen_layers == 2);
  CHECK(plan.setting->frozen_parameters == 16 + 25);
  CHECK(plan.setting->network.input.features == Shape{9});
  CHECK(plan.parameters == 25 + 12);
  CHECK(plan.setting->groups.front().name == "main");
  CHECK(experiment.run().status == core::RunStatus::completed);
  std::map<std::string, Floats> after;
  for (const core::StoredTensor& tensor :
       core::read_safetensors(read_file(experiment.run_dir() / "model.safetensors")).tensors)
    after[tensor.name] = tensor.values;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(block.offset);
    const Floats begun(first, first + static_cast<std::ptrdiff_t>(element_count(block.shape)));
    const bool is_trained = block.name.starts_with("main.") || block.node == 5;
    CHECK((after.at(block.name) != begun) == is_trained);
  }
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

TEST_CASE("a front ends before parameters that are used behind it, too", "[frozen][lora]") {
  const std::string yaml = R"(privgrad: 1
name: shared
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 3, test_is_public: true}
model:
  kind: graph
  loss: cross_entropy
  nodes:
    - {name: stem, kind: dense, units: 4}
    - {name: first, kind: dense, units: 4}
    - {kind: activation, function: tanh}
    - {name: second, kind: dense, units: 4, shares: first}
  weights: {file: base.safetensors, public: true}
  train: [last]
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";
  Experiment experiment(yaml);
  Network network;
  network.input = {{3}, 2};
  network.nodes = {{Dense{4}, {}, "stem"},
                   {Dense{4}, {}, "first"},
                   Activation{ActivationKind::tanh},
                   {Dense{4}, {}, "second"},
                   Dense{2}};
  network.nodes[3].shares = 1;
  const Floats before = normals(parameter_count(network), 3);
  write_file(experiment.dir() / "base.safetensors", core::to_safetensors(network, before, {}, {}));
  const core::Plan& plan = experiment.plan();
  CHECK(plan.setting->frozen_layers == 1);
  CHECK(plan.parameters == 10);
  CHECK(experiment.run().status == core::RunStatus::completed);
  const auto after =
      core::read_safetensors(read_file(experiment.run_dir() / "model.safetensors")).tensors;
  CHECK(after.size() == parameter_blocks(network).size());
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");

  Experiment adapted(yaml, {"model.train=null", "model.lora={rank: 1, targets: [first]}"});
  write_file(adapted.dir() / "base.safetensors", core::to_safetensors(network, before, {}, {}));
  CHECK_THROWS_WITH(adapted.plan(), ContainsSubstring("unless other nodes share their weights"));
}

}  // namespace frozen_front
