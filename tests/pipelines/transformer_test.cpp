// Transformers trained from manifests, on images that are cut into patches.
#include "npy_file.hpp"
#include "privgrad/model/network_json.hpp"
#include "small_images.hpp"
#include "token_rows.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace transformer_runs {
namespace {

constexpr const char* kVision = R"(privgrad: 1
seed: 1
data:
  kind: idx
  train: {images: images, labels: labels}
  test: {images: images, labels: labels}
model: {kind: transformer, preset: vision, patch: 4, layers: 1, width: 8, heads: 2, feed_forward: 12}
sampler: {kind: full_batch}
optimizer: {kind: adam}
schedules: {noise_multiplier: 1.0, clip_norm: 1.0, learning_rate: 0.02}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 60
)";

struct Vision : Experiment {
  explicit Vision(const std::vector<std::string>& overrides) : Experiment(kVision, overrides) {
    small_images::write(dir());
    write_tokens(dir());
  }
};

}  // namespace

TEST_CASE("a transformer is trained from a manifest, under every clipping", "[run][transformer]") {
  const std::string clipping = GENERATE("flat", "per_layer", "automatic", "normalized", "adaptive");
  Vision experiment({"clipping=" + clipping});
  // 4 patches of 16 pixels, and a class token: patches 17 x 8, class token 8, positions 5 x 8; in
  // the block two norms of 16, four layers of 9 x 8, and 9 x 12 and 13 x 8; a norm, and 9 x 2.
  CHECK(experiment.plan().parameters == 136 + 8 + 40 + 32 + 288 + 108 + 104 + 16 + 18);
  CHECK(experiment.plan().setting->groups.size() == 13);
  const auto result = experiment.run();
  INFO(clipping);
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.metrics.test_accuracy.value() > 0.9);
}

TEST_CASE("a transformer trains to the same bits on any number of threads, in any passes",
          "[run][transformer]") {
  auto overrides = GENERATE(Overrides{}, kEncoder, kDecoder);
  overrides.emplace_back("steps=4");
  auto in_passes = overrides;
  in_passes.emplace_back("microbatch_size=7");
  Vision one(overrides), two(overrides), few(in_passes);
  one.run(1);
  two.run(2);
  few.run();
  CHECK(one.parameters() == two.parameters());
  CHECK(one.parameters() == few.parameters());
  CHECK(one.plan().setting->pass.rows > 7);
  CHECK(few.plan().setting->pass.rows == 7);
  CHECK(few.plan().setting->pass.bytes < one.plan().setting->pass.bytes);
}

namespace {

constexpr const char* kSpeaker = R"(privgrad: 1
seed: 1
data: {kind: npy, train: {features: tokens.npy}, test: {features: test.npy}, test_is_public: true}
model: {kind: transformer, preset: decoder, vocabulary: 5, loss: next_token, layers: 1, width: 8, heads: 2}
sampler: {kind: full_batch}
optimizer: {kind: adam}
schedules: {noise_multiplier: 1.0, clip_norm: 1.0, learning_rate: 0.03}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 60
)";

/// Sequences in which the tokens 0 to 4 follow each other, of 2 to 7 places.
struct Speaker : Experiment {
  explicit Speaker(const std::vector<std::string>& overrides = {})
      : Experiment(kSpeaker, overrides) {
    std::vector<std::int8_t> tokens(100 * 7, -1);
    for (std::size_t row = 0; row < 100; ++row) {
      for (std::size_t t = 0; t < 2 + row % 6; ++t)
        tokens[7 * row + t] = static_cast<std::int8_t>((row / 2 + t) % 5);
    }
    for (const char* name : {"tokens.npy", "test.npy"})
      write_file(dir() / name, array_file("|i1", "100, 7", tokens));
  }
};

}  // namespace

TEST_CASE("a decoder learns the next token from rows without targets, exactly",
          "[run][transformer]") {
  Speaker experiment;
  const auto result = experiment.run(2);
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.summary.at("floating_point") == "exact");
  CHECK(result.metrics.test_loss.value() < 0.5);  // ln 5 at the beginning
  CHECK_FALSE(result.metrics.test_accuracy.has_value());
  const auto& evaluation = result.summary.at("test_evaluation");
  CHECK_THAT(evaluation.at("loss").get<double>(),
             Catch::Matchers::WithinRel(result.metrics.test_loss.value(), 1e-6));
  CHECK(evaluation.at("tokens") == 100 / 6 * 21 + 10);
  CHECK(evaluation.at("accuracy").get<double>() > 0.9);
  CHECK(evaluation.at("perplexity").get<double>() < 2.0);
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

TEST_CASE("the memory of a step has copies of weights, and gradients that several layers add up",
          "[run][transformer]") {
  const auto bytes = [](const std::string& tied, const std::string& rows) {
    Speaker experiment({"model.tied=" + tied, "microbatch_size=" + rows});
    return experiment.plan().setting->pass.bytes;
  };
  // Two copies of the weights of each dense layer, which all work at several places.
  Speaker untied({"model.tied=false"});
  const Network& network = untied.plan().setting->network;
  std::size_t copied = 0;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    if (std::holds_alternative<Dense>(network.nodes[block.node].layer) && block.shape.size() == 2)
      copied += 2 * element_count(block.shape);
  }
  // The memory that does not grow with the rows of one block. If the tokens' table, [5, 8], is also
  // the output layer, this includes its gradient in one of the two layers.
  CHECK(copied > 500);
  CHECK(8 * bytes("false", "7") - 7 * bytes("false", "8") == copied * sizeof(float));
  CHECK(8 * bytes("true", "7") - 7 * bytes("true", "8") == (copied + 5 * 8) * sizeof(float));
}

TEST_CASE("a decoder is trained behind frozen layers, to which only its tokens are known",
          "[run][transformer][frozen]") {
  Speaker base({"steps=2"});
  base.run();
  const std::string weights = (base.run_dir() / "model.safetensors").string();
  Speaker last(
      {"steps=2", "model.weights={file: " + weights + ", public: true}", "model.train=[output]"});
  const core::Plan& plan = last.plan();
  CHECK(plan.setting->network.loss == Loss::next_token);
  CHECK(plan.setting->network.input.features == Shape{7 + 7 * 8});  // tokens, and the last norm
  CHECK(plan.parameters == 8 * 5);
  CHECK(last.run().status == core::RunStatus::completed);
  CHECK(last.parameters() != base.parameters());
}

TEST_CASE("adapters of attention are trained behind frozen blocks", "[run][transformer][lora]") {
  Vision base({"steps=2"});
  base.run();
  const std::string weights = (base.run_dir() / "model.safetensors").string();
  Vision adapted({"steps=2", "model.weights={file: " + weights + ", public: true}",
                  "model.train=[output]",
                  "model.lora={rank: 2, targets: [blocks.0.query, blocks.0.value]}"});
  const core::Plan& plan = adapted.plan();
  CHECK(plan.parameters == 2 * (8 + 8) * 2 + 18);
  // The front has the patches, the class token, the positions and the first norm, all of which are
  // not trained.
  CHECK(plan.setting->frozen_layers > 3);
  CHECK(adapted.run().status == core::RunStatus::completed);
  CHECK(adapted.parameters() != base.parameters());
}

TEST_CASE("a described transformer comes back, in format 2", "[transformer]") {
  for (const char* preset : {"encoder", "decoder"}) {
    const Value::Object params{{"preset", preset, {}},
                               {"vocabulary", 9, {}},
                               {"width", 8, {}},
                               {"heads", 4, {}},
                               {"key_heads", 2, {}}};
    const Network network = house().create<Model>("transformer", params)->network({{6}, 3});
    const auto described = core::to_json(network);
    CHECK(core::to_json(core::network_from_json(described)) == described);
    CHECK(core::model_format_of(network) == "2");
  }
  // A chain has format 2 only because of its loss; earlier readers refuse that format.
  Network chain{
      .input = {{6}, 0},
      .nodes = {Embedding{.vocabulary = 9, .width = 4}, Dense{.units = 9, .per_place = true}},
      .loss = Loss::next_token};
  const auto described = core::to_json(chain);
  CHECK(core::to_json(core::network_from_json(described)) == described);
  CHECK(core::model_format_of(chain) == "2");
  CHECK_FALSE(is_plain_chain(chain));
}

}  // namespace transformer_runs
