#include "export_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugins.hpp"
#include "privgrad/api/model_place.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/exported_weights.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostWeights = std::size_t{1} << 36;

void check_has_folder(const core::ModelFile& model) {
  if (model.model.params.find("path") != nullptr) return;
  throw ConfigError(
      "--format huggingface is for models whose training began from a public model's folder; this "
      "model is " +
      model.model.name);
}

/// Returns the section model.weights of the run, which records where the model's tensors came from.
core::WeightsUse weights_of(const fs::path& file, const Catalog& catalog) {
  const fs::path manifest = fs::absolute(file).parent_path() / "manifest.yaml";
  const std::string text = core::read_whole(manifest, core::kMaxYamlBytes);
  const auto weights =
      core::parse_manifest(text, manifest, {}, catalog, core::DataFiles::may_be_missing).weights;
  if (!weights)
    throw ConfigError(manifest.string() +
                      ": the training of this model did not begin from weights (model.weights)");
  return *weights;
}

/// Reads the weights with which training began. \throws IoError if the file has changed since.
std::string bytes_of(const core::ModelFile& model, const fs::path& file) {
  std::string bytes = core::read_whole(file, kMostWeights);
  const auto recorded = model.metadata.find("initial_weights");
  if (recorded == model.metadata.end() || recorded->second != core::sha256_hex(bytes))
    throw IoError(file.string() + ": is not the file from which training began");
  return bytes;
}

/// Returns the output layer as a safetensors file if the folder's model lacks it; otherwise "".
/// \param lacking  the blocks that the folder's file lacks.
std::string output_layer(const core::ModelFile& model, const std::vector<std::size_t>& lacking) {
  const Network& whole = model.network;
  const std::vector<ParameterBlock> blocks = parameter_blocks(whole);
  const bool is_last = std::ranges::any_of(
      lacking, [&](std::size_t block) { return blocks[block].node + 1 == whole.nodes.size(); });
  if (!is_last) return "";
  Network layer{.input = {value_shapes(whole)[whole.nodes.size() - 1], whole.input.classes},
                .nodes = {whole.nodes.back()},
                .loss = whole.loss};
  layer.nodes.front().from.clear();
  const std::span<const float> all(model.parameters);
  return core::to_safetensors(layer, all.last(parameter_count(layer)), {}, model.metadata);
}

struct BegunModel {
  core::ModelFile model;
  core::WeightsUse weights;
  std::string bytes;
  std::vector<TensorSource> sources;
  std::map<std::string, std::string> files;  ///< The model's files (Model::files()).
};

/// Returns the files that determine the model's network.
std::map<std::string, std::string> files_of(const Model& component, const fs::path& run_dir) {
  std::map<std::string, std::string> files = component.files();
  if (files.empty()) return files;
  const auto recorded = core::read_facts(run_dir).model_files;
  for (const auto& [name, bytes] : files) {
    const auto found = recorded.find(name);
    if (found == recorded.end() || found->second != core::sha256_hex(bytes))
      throw IoError("model." + name + ": is not the file that the run has read");
  }
  return files;
}

/// \param check  throws if the model is not of the requested kind.
BegunModel read_begun(const Arguments& arguments, void (*check)(const core::ModelFile&)) {
  const fs::path file = api::model_file_of(arguments.operand(0));
  api::check_is_over(file);
  BegunModel begun;
  begun.model = core::read_model_file(file);
  check(begun.model);
  const host::PluginHost host = load_plugins(arguments);
  begun.weights = weights_of(file, host.catalog());
  begun.bytes = bytes_of(begun.model, begun.weights.file);
  const core::SavedComponent& component = begun.model.model;
  const auto made = host.catalog().create<Model>(component.name, component.params);
  begun.sources = made->sources(begun.model.network);
  begun.files = files_of(*made, fs::absolute(file).parent_path());
  return begun;
}

}  // namespace

void export_folder(const Arguments& arguments) {
  const BegunModel begun = read_begun(arguments, check_has_folder);
  const auto& [model, use, bytes, sources, files] = begun;
  const auto lacking = core::lacking_in(bytes, model, sources, use.names);
  const std::string weights =
      core::weights_with(bytes, model, sources, use.names, core::Lacking::is_left_out);
  const std::string output = output_layer(model, lacking);
  const fs::path out = arguments.text("out");
  std::error_code failure;
  if (!fs::create_directory(out, failure))
    throw IoError(out.string() + ": " + (failure ? failure.message() : "is there already"));
  if (!output.empty()) core::write_atomically(out / "output.safetensors", output);
  core::write_atomically(out / "privacy.json", nlohmann::json(model.metadata).dump(2) + "\n");
  core::write_atomically(out / "config.json", files.at("path/config.json"));
  core::write_atomically(out / "model.safetensors", weights);
}

void export_state_dict(const Arguments& arguments) {
  const BegunModel begun = read_begun(arguments, [](const core::ModelFile&) {});
  const fs::path out = arguments.text("out");
  core::write_atomically(out, core::weights_with(begun.bytes, begun.model, begun.sources,
                                                 begun.weights.names, core::Lacking::is_appended));
}

}  // namespace privgrad::tool
