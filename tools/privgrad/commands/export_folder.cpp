#include "export_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "export_usage.hpp"
#include "plugins.hpp"
#include "privgrad/api/model_place.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostWeights = std::size_t{1} << 36, kMostConfig = std::size_t{64} << 20;

/// The folder that the model's parameters name.
fs::path folder_of(const core::ModelFile& model) {
  const Value* const path = model.model.params.find("path");
  const auto* const text = path == nullptr ? nullptr : std::get_if<std::string>(&path->data());
  if (text == nullptr) {
    throw ConfigError(
        "--format huggingface is for models that were begun from a public model's "
        "folder; this one is of " +
        model.model.name);
  }
  return *text;
}

/// The weights from which the run began.
std::string weights_of(const core::ModelFile& model, const fs::path& folder) {
  std::string bytes = core::read_whole(folder / "model.safetensors", kMostWeights);
  const auto recorded = model.metadata.find("initial_weights");
  if (recorded == model.metadata.end() || recorded->second != core::sha256_hex(bytes)) {
    throw IoError((folder / "model.safetensors").string() +
                  ": is not the file from which the model was begun");
  }
  return bytes;
}

/// The output layer, which the folder's model does not have.
std::string output_layer(const core::ModelFile& model) {
  const Network& whole = model.network;
  Network layer{.input = {value_shapes(whole)[whole.nodes.size() - 1], whole.input.classes},
                .nodes = {whole.nodes.back()},
                .loss = whole.loss};
  layer.nodes.front().from.clear();
  const std::span<const float> all(model.parameters);
  return core::to_safetensors(layer, all.last(parameter_count(layer)), {}, model.metadata);
}

}  // namespace

void export_folder(const Arguments& arguments) {
  const fs::path file = api::model_file_of(arguments.operand(0)), out = arguments.text("out");
  api::check_is_over(file);
  const core::ModelFile model = core::read_model_file(file);
  const fs::path folder = folder_of(model);
  const host::PluginHost host = load_plugins(arguments);
  const auto component = host.catalog().create<Model>(model.model.name, model.model.params);
  const std::string weights =
      core::weights_with(weights_of(model, folder), model, component->sources(model.network));
  const std::string config = core::read_whole(folder / "config.json", kMostConfig);
  std::error_code failure;
  if (!fs::create_directory(out, failure))
    throw IoError(out.string() + ": " + (failure ? failure.message() : "is there already"));
  core::write_atomically(out / "output.safetensors", output_layer(model));
  core::write_atomically(out / "privacy.json", nlohmann::json(model.metadata).dump(2) + "\n");
  core::write_atomically(out / "config.json", config);
  core::write_atomically(out / "model.safetensors", weights);
}

}  // namespace privgrad::tool
