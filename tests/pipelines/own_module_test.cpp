// Weights of one's own PyTorch module: model.weights.map rearranges them, and export writes them
// back.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "npy_file.hpp"
#include "privgrad/model/exported_weights.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/train/trainer.hpp"
#include "tensor_file.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace own_module_test {
namespace {

using Floats = std::vector<float>;

Floats ramp(std::size_t count, float first) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + 0.07f * static_cast<float>(i);
  return values;
}

/// Returns the parameters before the first step.
Floats beginning(Experiment& experiment) {
  return core::initial_parameters(experiment.plan(), core::RandomKey::from_seed(1));
}

constexpr const char* kOwnModule = R"(privgrad: 1
name: own
seed: 1
data: {kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2, target_fill: 0}
model:
  kind: cnn
  layers:
    - {kind: conv2d, channels: 3, kernel: 2}
    - {kind: activation, function: relu}
    - {kind: dense, units: 5}
    - {kind: activation, function: relu}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";

/// Images of 4 x 5 x 2, which the convolution turns into 3 x 4 x 3, and weights in PyTorch's
/// layout.
struct OwnModule : Experiment {
  explicit OwnModule(const std::string& map, std::vector<Tensor> tensors = own_tensors())
      : Experiment(kOwnModule, {"model.weights={file: own.safetensors, map: " + map + "}"}) {
    write_file(dir() / "x.npy", array_file("<f4", "4, 4, 5, 2", ramp(160, -1.0f)));
    write_file(dir() / "y.npy", array_file("<f4", "4, ", std::vector<float>{0, 1, 0, 1}));
    write_file(dir() / "own.safetensors", safetensors_of(tensors));
  }

  static std::vector<Tensor> own_tensors() {
    return {{"conv.weight", {3, 2, 2, 2}, ramp(24, -0.4f)},
            {"conv.bias", {3}, ramp(3, 0.1f)},
            {"fc.weight", {5, 36}, ramp(180, -0.2f)},
            {"fc.bias", {5}, ramp(5, 0.3f)},
            {"head.weight", {5, 6}, ramp(30, 0.2f)},  // [inputs, units]; the model has 2 units of 6
            {"head.bias", {6}, ramp(6, 2.0f)},
            {"offsets", {4, 5}, ramp(20, 9.0f)}};
  }
};

const std::string kOwnMap =
    "{layers.0.weight: {tensor: conv.weight, channels_first: true}, layers.0.bias: conv.bias, "
    "layers.2.weight: {tensor: fc.weight, channels_first: true}, layers.2.bias: fc.bias, "
    "layers.4.weight: {tensor: head.weight, transposed: true, first_row: 3, plus_first_row_of: "
    "offsets}, layers.4.bias: {tensor: head.bias, first_row: 3}}";

}  // namespace

TEST_CASE("a map rearranges the tensors of one's own module", "[weights]") {
  OwnModule experiment(kOwnMap);
  const Floats found = beginning(experiment);
  const std::vector<Tensor> file = OwnModule::own_tensors();
  // The weights in the model's order, element by element.
  Floats expected;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t u = 0; u < 2; ++u) {
      for (std::size_t v = 0; v < 2; ++v) {
        for (std::size_t k = 0; k < 2; ++k)
          expected.push_back(file[0].values[((c * 2 + k) * 2 + u) * 2 + v]);
      }
    }
  }
  expected.insert(expected.end(), file[1].values.begin(), file[1].values.end());
  for (std::size_t unit = 0; unit < 5; ++unit) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        for (std::size_t c = 0; c < 3; ++c)
          expected.push_back(file[2].values[unit * 36 + (c * 3 + i) * 4 + j]);
      }
    }
  }
  expected.insert(expected.end(), file[3].values.begin(), file[3].values.end());
  for (std::size_t unit = 0; unit < 2; ++unit) {
    for (std::size_t i = 0; i < 5; ++i)
      expected.push_back(file[4].values[i * 6 + 3 + unit] + file[6].values[i]);
  }
  for (std::size_t unit = 0; unit < 2; ++unit) expected.push_back(file[5].values[3 + unit]);
  CHECK(found == expected);
  CHECK(experiment.plan().setting->weights->unused == 0);
  // The resolved manifest gives the same run.
  experiment.run();
  const core::Manifest again =
      core::load_manifest(experiment.run_dir() / "manifest.yaml", {}, house());
  CHECK(again.weights->names == experiment.plan().manifest->weights->names);
  CHECK(verify::all_of(verify::check(experiment.run_dir()).problems) == "");
}

TEST_CASE("trained weights go back into one's own module, in its order", "[weights]") {
  OwnModule experiment(kOwnMap);
  core::ModelFile model;
  model.network = experiment.plan().setting->whole;
  model.metadata = {{"format", "privgrad"}, {"epsilon", "3"}, {"unaccounted", "[]"}};
  model.parameters = beginning(experiment);
  const std::vector<Tensor> tensors = OwnModule::own_tensors();
  const std::string begun = safetensors_of(tensors);
  const core::TensorNames& names = experiment.plan().manifest->weights->names;
  CHECK(core::weights_with(begun, model, {}, names, core::Lacking::is_left_out) == begun);
  for (float& value : model.parameters) value += 0.5f;
  const auto written = core::read_safetensors(
      core::weights_with(begun, model, {}, names, core::Lacking::is_left_out));
  REQUIRE(written.tensors.size() == tensors.size());
  for (const core::StoredTensor& tensor : written.tensors) {
    const auto before = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const Tensor& one) { return one.name == tensor.name; });
    CAPTURE(tensor.name);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const bool is_part = tensor.name.starts_with("head.");
      const bool is_other = tensor.name == "offsets" || (is_part && (i % 6 < 3 || i % 6 == 5));
      const float change = is_other ? 0.0f : 0.5f;
      CHECK(std::fabs(tensor.values[i] - before->values[i] - change) <= 1e-5f);
    }
  }
}

TEST_CASE("tensors that began anew are left out or appended, and no place holds two", "[weights]") {
  OwnModule experiment(kOwnMap);
  core::ModelFile model;
  model.network = experiment.plan().setting->whole;
  model.metadata = {{"format", "privgrad"}, {"epsilon", "3"}, {"unaccounted", "[]"}};
  model.parameters = ramp(parameter_count(model.network), 1.0f);
  const std::string begun = safetensors_of(OwnModule::own_tensors());
  core::TensorNames names = experiment.plan().manifest->weights->names;
  names["layers.4.weight"] = std::nullopt;
  CHECK(core::lacking_in(begun, model, {}, names) == std::vector<std::size_t>{4});
  const auto written = [&](core::Lacking lacking) {
    std::map<std::string, Floats> all;
    for (const core::StoredTensor& tensor :
         core::read_safetensors(core::weights_with(begun, model, {}, names, lacking)).tensors)
      all[tensor.name] = tensor.values;
    return all;
  };
  CHECK_FALSE(written(core::Lacking::is_left_out).contains("layers.4.weight"));
  const auto all = written(core::Lacking::is_appended);
  const std::size_t offset = parameter_blocks(model.network)[4].offset;
  CHECK(all.at("layers.4.weight") ==
        Floats(model.parameters.begin() + static_cast<long>(offset),
               model.parameters.begin() + static_cast<long>(offset) + 10));
  CHECK(all.at("head.weight") == OwnModule::own_tensors()[4].values);

  names["layers.2.bias"] = TensorSource{.name = "conv.weight"};
  CHECK_THROWS_WITH(written(core::Lacking::is_appended),
                    ContainsSubstring("'conv.weight' is F32 of 3 x 2 x 2 x 2, and cannot hold"));
  names["layers.2.bias"] = TensorSource{.name = "head.bias", .first_row = 1};
  CHECK_THROWS_WITH(written(core::Lacking::is_appended),
                    ContainsSubstring("'head.bias' is the source of two tensors of the model"));
}

TEST_CASE("what a map asks for and the file does not have is refused", "[weights]") {
  const auto refusal = [](const std::string& map) {
    try {
      OwnModule experiment(map);
      experiment.plan();
    } catch (const Error& problem) {
      return std::string(problem.what());
    }
    return std::string("it was planned");
  };
  CHECK_THAT(refusal("{layers.2.weight: {tensor: fc.weight, transposed: true}}"),
             ContainsSubstring("'fc.weight', 5 x 36, which does not fit as transposed"));
  CHECK_THAT(refusal("{layers.4.weight: {tensor: head.weight, transposed: true, first_row: 5}}"),
             ContainsSubstring("which does not fit as transposed from row 5"));
  CHECK_THAT(refusal("{layers.4.weight: {tensor: head.weight, transposed: true}}"),
             ContainsSubstring("'head.weight', 5 x 6, which does not fit as transposed"));
  CHECK_THAT(refusal("{layers.4.weight: {tensor: head.weight, channels_first: true}}"),
             ContainsSubstring("which does not fit with channels_first"));
  CHECK_THAT(
      refusal("{layers.0.bias: {tensor: conv.bias, plus_first_row_of: offset}}"),
      ContainsSubstring("is 'offset', which the file does not contain; did you mean 'offsets'?"));
  CHECK_THAT(refusal("{layers.0.bias: {tensor: conv.bias, plus_first_row_of: offsets}}"),
             ContainsSubstring("the first row of 'offsets' cannot be added"));
  CHECK_THAT(refusal("{layers.0.bias: {tensr: conv.bias}}"),
             ContainsSubstring("model.weights.map.layers.0.bias.tensr") &&
                 ContainsSubstring("did you mean 'tensor'?"));
  CHECK_THAT(refusal("{layers.0.bias: {transposed: true}}"),
             ContainsSubstring("model.weights.map.layers.0.bias.tensor"));
  CHECK_THAT(refusal("{layers.0.bias: ''}"), ContainsSubstring("which the file does not contain"));
  CHECK_THAT(refusal("{layers.0.bias: 3}"),
             ContainsSubstring("expected a tensor's name in the file"));
}

}  // namespace own_module_test
