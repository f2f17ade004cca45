// Public models from their folders, compared with the results of Hugging Face's transformers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "manifest_fixture.hpp"
#include "npy_file.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/model/exported_weights.hpp"
#include "privgrad/model/initial_weights.hpp"
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

/// A copy of a folder in which some members of config.json are changed; null removes a member.
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

/// Returns the outputs of a network's nodes up to some value, for each row of inputs.
std::vector<Floats> values_of(const Network& network, const core::InitialWeights& weights,
                              const Json& inputs) {
  Floats parameters(parameter_count(network));
  weights.put_into(parameters);
  const auto executor = core::make_executor(1);
  const auto backend = house().create<Backend>("cpu", Value::Object{});
  const auto program = backend->compile(network, *executor);
  program->load_parameters(parameters);
  std::vector<Floats> all;
  for (const Json& row : inputs) {
    Floats found(output_count(network));
    core::ability_of<Outputs>(*program)->outputs(row.get<Floats>(), 1, found);
    all.push_back(std::move(found));
  }
  return all;
}

/// Checks values at each place that has a token, or at each place of an image.
void check_values(const std::vector<Floats>& found, const Json& wanted, const Json& inputs,
                  std::size_t width) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t row = 0; row < found.size(); ++row) {
    REQUIRE(found[row].size() == wanted[row].size());
    const bool are_tokens = inputs[row].size() * width == found[row].size();
    for (std::size_t i = 0; i < found[row].size(); ++i) {
      if (are_tokens && inputs[row][i / width].get<float>() < 0.0f)
        continue;  // no later node reads this value
      CHECK(std::fabs(found[row][i] - wanted[row][i].get<float>()) <= 1e-4f);
    }
  }
}

/// Gives an experiment the inputs of a folder's expected.json as its rows.
/// \param shape  the shape as NumPy writes it.
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

/// A folder's model, trained on the folder's inputs.
struct PublicModel : Experiment {
  explicit PublicModel(const std::string& name, const std::vector<std::string>& overrides = {})
      : Experiment(yaml(kFolders / name), overrides) {
    write_rows(*this, json_of(kFolders / name / "expected.json"), shape_of(name));
  }
};

/// A folder's model that predicts the next token of the folder's inputs.
struct LanguageModel : Experiment {
  explicit LanguageModel(const std::string& name, const std::string& model = "")
      : Experiment(replaced(
            replaced(yaml(kFolders / name, ", loss: next_token" + model), ", targets: y.npy", ""),
            "  classes: 2\n  target_fill: 0\n", "")) {
    write_rows(*this, json_of(kFolders / name / "expected.json"), "5");
  }
};

}  // namespace

TEST_CASE("public models compute what transformers does with their folders", "[pretrained]") {
  const std::string name =
      GENERATE("bert", "distilbert", "vit", "gpt2", "llama", "mistral", "qwen2");
  CAPTURE(name);
  const Json expected = json_of(kFolders / name / "expected.json");
  Experiment experiment(yaml(kFolders / name));
  write_rows(experiment, expected, shape_of(name));
  const core::Plan& plan = experiment.plan();
  const Network& network = plan.setting->whole;
  CHECK(plan.setting->weights->begun_anew ==
        std::vector<std::string>{"output.weight", "output.bias"});
  // The values after the last block, before the pooling and the output layer.
  const Network body = core::part_up_to(network, network.nodes.size() - 2);
  core::InitialWeights weights = *plan.setting->initial;
  check_values(values_of(body, weights, expected.at("inputs")), expected.at("values"),
               expected.at("inputs"), value_shapes(body).back().back());
}

TEST_CASE("public language models have the logits of transformers, tied or not", "[pretrained]") {
  const std::string name = GENERATE("gpt2", "llama", "mistral", "qwen2");
  CAPTURE(name);
  const Json expected = json_of(kFolders / name / "expected.json");
  LanguageModel experiment(name);
  const Network& network = experiment.plan().setting->whole;
  CHECK(experiment.plan().setting->weights->begun_anew.empty());
  CHECK(network.nodes.back().shares.has_value() == (name == "gpt2" || name == "qwen2"));
  check_values(values_of(network, *experiment.plan().setting->initial, expected.at("inputs")),
               expected.at("logits"), expected.at("inputs"), 12);
  CHECK(experiment.run().status == core::RunStatus::completed);
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
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

TEST_CASE("a run begins from the model of an earlier run, without the folder's rearrangements",
          "[pretrained]") {
  const std::string name = GENERATE("bert", "vit", "gpt2", "llama");
  CAPTURE(name);
  PublicModel first(name);
  CHECK(first.run().status == core::RunStatus::completed);
  const fs::path written = first.run_dir() / "model.safetensors";
  const core::ModelFile model = core::read_model_file(written);
  PublicModel second(name, {"model.weights.file=" + written.string()});
  const core::InitialWeights& weights = *second.plan().setting->initial;
  CHECK(weights.unused.empty());
  CHECK(weights.facts.begun_anew.empty());
  Floats begun(model.parameters.size());
  weights.put_into(begun);
  CHECK(begun == model.parameters);
}

TEST_CASE("trained weights go back into the folder, and the others stay as they are",
          "[pretrained]") {
  const std::string name = GENERATE("bert", "vit", "gpt2", "llama");
  CAPTURE(name);
  PublicModel experiment(name);
  const Network& network = experiment.plan().setting->whole;
  const auto sources = experiment.plan().setting->model->sources(network);
  const std::string begun = read_file(kFolders / name / "model.safetensors");
  core::ModelFile model;
  model.network = network;
  model.metadata = {{"format", "privgrad"}, {"epsilon", "3"}, {"unaccounted", "[]"}};
  model.parameters.resize(parameter_count(network));
  experiment.plan().setting->initial->put_into(model.parameters);
  CHECK(core::weights_with(begun, model, sources, {}, core::Lacking::is_left_out) == begun);
  // Weights of another model are the same up to rounding after writing and reading, and are not
  // public.
  for (float& value : model.parameters) value += 0.25f;
  const std::string written =
      core::weights_with(begun, model, sources, {}, core::Lacking::is_left_out);
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
  const std::map<std::string, std::string> tables{
      {"bert", "embeddings.token_type_embeddings.weight"},
      {"vit", "vit.embeddings.patch_embeddings.projection.weight"},
      {"gpt2", "transformer.h.1.attn.c_attn.weight"},
      {"llama", "model.embed_tokens.weight"}};
  const std::string& table = tables.at(name);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(damaged.data() + header.data_begin + header.tensors.at(table).begin, &nan, 4);
  CHECK_THROWS_WITH(core::weights_with(damaged, model, sources, {}, core::Lacking::is_left_out),
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
  refused("bert", {{"model_type", "t5"}}, "'t5'; expected bert, distilbert, gpt2, llama");
  refused("bert", {{"model_type", nullptr}}, "''; expected bert, distilbert, gpt2, llama");
  refused("bert", {{"position_embedding_type", "relative_key"}},
          "position_embedding_type is \"relative_key\", but only \"absolute\" is supported");
  refused("bert", {{"is_decoder", true}}, "is_decoder is true");
  refused("bert", {{"hidden_act", "mish"}}, "has the unknown activation 'mish'");
  refused("bert", {{"chunk_of_attention", 3}}, "has the unknown member 'chunk_of_attention'");
  refused("bert", {{"num_attention_heads", 3}}, "has 3 heads, which do not divide its width of ");
  refused("bert", {{"hidden_size", -8}}, "hidden_size must be a whole number");
  refused("bert", {{"hidden_size", nullptr}}, "lacks hidden_size");
  refused("bert", {{"max_position_embeddings", 4}},
          "positions for 4 tokens, but the examples have 5");
  refused("bert", {{"intermediate_size", 16}}, "do not fit the model");
  refused("vit", {{"image_size", 9}},
          "images of 9 x 9 x 3, but the examples have the shape 6 x 6 x 3");
  refused("vit", {{"qkv_bias", false}}, "qkv_bias is false");
  refused("bert", {{"hidden_act", "m\x1b\n\xc3\xa9"}},
          "the unknown activation 'm\\x1b\\x0a\\xc3\\xa9'");
  refused("gpt2", {{"scale_attn_by_inverse_layer_idx", true}},
          "scale_attn_by_inverse_layer_idx is true, but only false is supported");
  refused("gpt2", {{"scale_attn_weights", false}}, "scale_attn_weights is false");
  refused("gpt2", {{"add_cross_attention", true}}, "add_cross_attention is true");
  refused("gpt2", {{"n_head", 3}}, "has 3 heads, which do not divide its width of ");
  refused("gpt2", {{"n_positions", 4}}, "positions for 4 tokens, but the examples have 5");
  refused("llama", {{"attention_bias", true}}, "attention_bias is true");
  refused("llama", {{"mlp_bias", true}}, "mlp_bias is true");
  refused("llama", {{"num_key_value_heads", 3}}, "has 3 key heads, which do not divide its 4");
  refused("llama", {{"rope_scaling", {{"type", "linear"}}}},
          "rope_scaling is {\"type\":\"linear\"}");
  refused("llama", {{"rope_parameters", {{"rope_type", "yarn"}}}},
          "rope_parameters has rope_type: \"yarn\", which is not supported");
  refused("llama", {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}},
          "partial_rotary_factor");
  refused("llama", {{"rope_parameters", {{"rope_theta", 1}}}}, "rope_theta must be above 1");
  refused("llama", {{"attention_multiplier", 2.0}},
          "has the unknown member 'attention_multiplier'");
  refused("llama", {{"tie_word_embeddings", "yes"}}, "tie_word_embeddings must be true or false");
  Json deep = Json::array();
  for (int level = 0; level < 100; ++level) deep = Json::array({deep});
  refused("llama", {{"rope_scaling", deep}}, "config.json: is nested deeper than 64 levels");
  refused("mistral", {{"sliding_window", 4}}, "sliding_window is 4, which is shorter");
  refused("qwen2", {{"layer_types", {"sliding_attention"}}},
          "layer_types has \"sliding_attention\"");
  refused("qwen2", {{"use_sliding_window", true}, {"sliding_window", 4}}, "sliding_window is 4");
}

TEST_CASE("a run is bound to the config.json that it read, and says so", "[pretrained]") {
  const TempDir dir;
  const fs::path folder = changed(dir.path() / "bert", "bert", {});
  Experiment experiment(yaml(folder));
  write_rows(experiment, json_of(kFolders / "bert/expected.json"), "5");
  const Json statement = experiment.run().statement;
  const std::string hash = core::sha256_hex(read_file(folder / "config.json"));
  bool is_declared = false;
  for (const Json& one : statement.at("declared")) {
    is_declared = is_declared || (one.at("key") == "model.path/config.json (sha256)" &&
                                  one.at("value") == Json(hash).dump());
  }
  CHECK(is_declared);
  CHECK(json_of(experiment.run_dir() / "facts.json").at("model_files").at("path/config.json") ==
        hash);
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
  // A changed config.json is noticed even if the network is the same.
  Json config = json_of(folder / "config.json");
  config["hidden_dropout_prob"] = 0.2;
  write_file(folder / "config.json", config.dump());
  CHECK_THAT(verify::all_of(verify::check(experiment.run_dir()).problems),
             ContainsSubstring("path/config.json is not what the run has read"));
}

TEST_CASE("a window of attention that is as long as the examples changes nothing", "[pretrained]") {
  const TempDir dir;
  const fs::path folder = changed(dir.path() / "mistral", "mistral", {{"sliding_window", 5}});
  Experiment experiment(yaml(folder));
  write_rows(experiment, json_of(kFolders / "mistral/expected.json"), "5");
  CHECK(experiment.plan().setting->weights->unused == 1);  // lm_head.weight
}

TEST_CASE("the heads of public models are for what their places see", "[pretrained]") {
  const auto refused = [](const std::string& name, const std::string& model,
                          const std::string& why) {
    Experiment experiment(yaml(kFolders / name, model));
    write_rows(experiment, json_of(kFolders / name / "expected.json"), shape_of(name));
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring(why));
  };
  refused("gpt2", ", pool: first", "pool: first would see only the first token");
  refused("vit", ", pool: last", "pool: last needs tokens");
  LanguageModel bert("bert");
  CHECK_THROWS_WITH(bert.plan(),
                    ContainsSubstring("next_token needs a model of the families gpt2, llama"));
  LanguageModel pooled("gpt2", ", pool: last");
  CHECK_THROWS_WITH(pooled.plan(), ContainsSubstring("next_token has one per place"));
}

}  // namespace pretrained_test
