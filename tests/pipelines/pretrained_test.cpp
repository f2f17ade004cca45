// Public models from their folders, beside what Hugging Face's transformers computes with them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npy_file.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/trust/program_around.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace pretrained_test {
namespace {

using Floats = std::vector<float>;
using Json = nlohmann::json;
namespace fs = std::filesystem;

const fs::path kFolders = kSource / "plugins/models/pretrained/sample";

Json json_of(const fs::path& file) { return Json::parse(read_file(file)); }

/// A copy of a folder, with some members of config.json changed; null takes one out.
fs::path changed(const fs::path& to, const std::string& name, const Json& members) {
  fs::copy(kFolders / name, to);
  Json config = json_of(to / "config.json");
  for (const auto& [key, value] : members.items()) {
    if (value.is_null()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  write_file(to / "config.json", config.dump());
  return to;
}

std::string yaml(const fs::path& folder, const std::string& model = "") {
  return R"(privgrad: 1
name: pretrained
seed: 1
data:
  kind: npy
  train: {features: x.npy, targets: y.npy}
  classes: 2
  target_fill: 0
model: {kind: pretrained, path: )" +
         folder.string() + R"(, weights: {public: true})" + model + R"(}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";
}

/// Gives an experiment the inputs of a folder's expected.json as its rows.
/// \param shape  as NumPy writes it.
void write_rows(const Experiment& experiment, const Json& expected, const std::string& shape) {
  Floats features, targets;
  for (const Json& row : expected.at("inputs")) {
    for (const Json& x : row) features.push_back(x.get<float>());
    targets.push_back(static_cast<float>(targets.size() % 2));
  }
  const std::string rows = std::to_string(targets.size()) + ", ";
  write_file(experiment.dir() / "x.npy", array_file("<f4", rows + shape, features));
  write_file(experiment.dir() / "y.npy", array_file("<f4", rows, targets));
}

std::string shape_of(const std::string& name) { return name == "vit" ? "6, 6, 3" : "5"; }

}  // namespace

TEST_CASE("public models compute what transformers does with their folders", "[pretrained]") {
  const std::string name = GENERATE("bert", "distilbert", "vit");
  CAPTURE(name);
  const Json expected = json_of(kFolders / name / "expected.json");
  Experiment experiment(yaml(kFolders / name));
  write_rows(experiment, expected, shape_of(name));
  const core::Plan& plan = experiment.plan();
  const Network& network = plan.setting->whole;
  CHECK(plan.setting->weights->begun_anew ==
        std::vector<std::string>{"output.weight", "output.bias"});

  // The values behind the last block: the pooling and the output layer follow.
  const core::InitialWeights& weights = *plan.setting->initial;
  Floats parameters(parameter_count(network));
  weights.put_into(parameters);
  const Network body = core::part_up_to(network, network.nodes.size() - 2);
  parameters.resize(parameter_count(body));
  const auto executor = core::make_executor(1);
  const auto backend = house().create<Backend>("cpu", Value::Object{});
  const auto program = backend->compile(body, *executor);
  program->load_parameters(parameters);
  const Json& inputs = expected.at("inputs");
  for (std::size_t row = 0; row < inputs.size(); ++row) {
    const auto x = inputs[row].get<Floats>();
    const auto wanted = expected.at("values")[row].get<Floats>();
    Floats found(output_count(body));
    core::ability_of<Outputs>(*program)->outputs(x, 1, found);
    REQUIRE(found.size() == wanted.size());
    const std::size_t width = value_shapes(body).back().back();
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (name != "vit" && x[i / width] < 0.0f) continue;  // no token, and nothing looks at it
      CHECK(std::fabs(found[i] - wanted[i]) <= 1e-4f);
    }
  }
}

TEST_CASE("a public model is trained by its head, its layers or adapters", "[pretrained]") {
  const std::string how = GENERATE("", ", train: [last]", ", train: ['encoder.layer.1.*', last]",
                                   ", train: [last], lora: {rank: 1, targets: ['*.self.query']}");
  CAPTURE(how);
  Experiment experiment(yaml(kFolders / "bert", how));
  write_rows(experiment, json_of(kFolders / "bert/expected.json"), "5");
  CHECK(experiment.run().status == core::RunStatus::completed);
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

TEST_CASE("trained weights go back into the folder, and the others stay as they are",
          "[pretrained]") {
  const std::string name = GENERATE("bert", "vit");
  CAPTURE(name);
  Experiment experiment(yaml(kFolders / name));
  write_rows(experiment, json_of(kFolders / name / "expected.json"), shape_of(name));
  const Network& network = experiment.plan().setting->whole;
  const auto sources = experiment.plan().setting->model->sources(network);
  const std::string begun = read_file(kFolders / name / "model.safetensors");
  core::ModelFile model;
  model.network = network;
  model.metadata = {{"format", "privgrad"}, {"epsilon", "3"}, {"unaccounted", "[]"}};
  model.parameters.resize(parameter_count(network));
  experiment.plan().setting->initial->put_into(model.parameters);
  CHECK(core::weights_with(begun, model, sources) == begun);
  // Of another model, read again in the same way, they are the same to rounding, and not public.
  for (float& value : model.parameters) value += 0.25f;
  const std::string written = core::weights_with(begun, model, sources);
  core::TensorFile file;
  static_cast<core::StoredTensors&>(file) = core::read_safetensors(written);
  CHECK(file.metadata.at("format") == "pt");
  const core::InitialWeights read =
      core::fit_weights(*experiment.plan().manifest, network, sources, file);
  REQUIRE(read.facts.origin.has_value());
  CHECK(core::claim_of(*experiment.plan().manifest, read.facts) == core::WeightsClaim::unaccounted);
  Floats again(model.parameters.size());
  read.put_into(again);
  const std::size_t head = parameter_blocks(network)[parameter_blocks(network).size() - 2].offset;
  for (std::size_t i = 0; i < head; ++i) CHECK(std::fabs(again[i] - model.parameters[i]) <= 1e-6f);
  // A tensor that cannot be read is refused, and nothing is read beyond it.
  std::string damaged = begun;
  const core::TensorHeader header = core::parse_tensor_header(begun, begun.size());
  const std::string table = name == "bert" ? "embeddings.token_type_embeddings.weight"
                                           : "vit.embeddings.patch_embeddings.projection.weight";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(damaged.data() + header.data_begin + header.tensors.at(table).begin, &nan, 4);
  CHECK_THROWS_WITH(core::weights_with(damaged, model, sources),
                    ContainsSubstring("cannot hold the trained one"));
}

TEST_CASE("what a folder says that is not known is refused by name", "[pretrained]") {
  const TempDir dir;
  int number = 0;
  const auto refused = [&](const std::string& name, const Json& members, const std::string& why) {
    const fs::path folder = changed(dir.path() / std::to_string(number++), name, members);
    Experiment experiment(yaml(folder));
    write_rows(experiment, json_of(kFolders / name / "expected.json"), shape_of(name));
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why));
  };
  refused("bert", {{"model_type", "t5"}}, "'t5'; bert, distilbert and vit are known");
  refused("bert", {{"model_type", nullptr}}, "''; bert, distilbert and vit are known");
  refused("bert", {{"position_embedding_type", "relative_key"}},
          "position_embedding_type is \"relative_key\", and only \"absolute\" is supported");
  refused("bert", {{"is_decoder", true}}, "is_decoder is true");
  refused("bert", {{"hidden_act", "mish"}}, "has the activation 'mish'");
  refused("bert", {{"chunk_of_attention", 3}}, "has 'chunk_of_attention', which is not known");
  refused("bert", {{"num_attention_heads", 3}}, "has 3 heads, which do not divide its width");
  refused("bert", {{"hidden_size", -8}}, "hidden_size is not a whole number");
  refused("bert", {{"hidden_size", nullptr}}, "lacks hidden_size");
  refused("bert", {{"max_position_embeddings", 4}}, "rows for 4 places, and the examples have 5");
  refused("bert", {{"intermediate_size", 16}}, "do not fit the model");
  refused("vit", {{"image_size", 9}}, "images of 9 x 9 x 3, and the examples are 6 x 6 x 3");
  refused("vit", {{"qkv_bias", false}}, "qkv_bias is false");
}

}  // namespace pretrained_test
