#include "privgrad/inference/loaded_model.hpp"

#include <dlfcn.h>

#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad {
namespace {

namespace fs = std::filesystem;

/// Adds the plugins of this library's package, which may be far from the program that links it.
void add_own_plugins(std::vector<host::SearchDirectory>& directories) {
  static const char here = 0;
  Dl_info found{};
  if (::dladdr(&here, &found) == 0 || found.dli_fname == nullptr) return;
  std::error_code none;
  const fs::path library = fs::canonical(found.dli_fname, none);
  if (none) return;
  directories.push_back({.path = library.parent_path() / "privgrad" / "plugins",
                         .origin = host::SearchDirectory::Origin::user});
}

host::PluginHost host_for(const LoadedModel::Options& options) {
  std::vector<host::SearchDirectory> directories = host::search_path(options.plugin_directories);
  add_own_plugins(directories);
  return host::plugins_in(directories);
}

}  // namespace

struct LoadedModel::Parts {
  Parts(const fs::path& file, const Options& options)
      : host(host_for(options)),
        executor(core::make_executor(options.threads)),
        model(core::read_model_file(file), file.string(), host.catalog(), *executor) {}

  host::PluginHost host;
  std::unique_ptr<Executor> executor;
  core::TrainedModel model;
};

LoadedModel::LoadedModel(const fs::path& file) : LoadedModel(file, Options{}) {}
LoadedModel::LoadedModel(const fs::path& file, const Options& options)
    : parts_(std::make_unique<Parts>(file, options)) {}
LoadedModel::~LoadedModel() = default;
LoadedModel::LoadedModel(LoadedModel&&) noexcept = default;
LoadedModel& LoadedModel::operator=(LoadedModel&&) noexcept = default;

const ExampleShape& LoadedModel::input() const noexcept { return parts_->model.file().input; }

const std::vector<std::string>& LoadedModel::classes() const noexcept {
  return parts_->model.file().classes;
}

const std::string& LoadedModel::statement() const {
  static const std::string none;
  const auto& metadata = parts_->model.file().metadata;
  const auto found = metadata.find("statement");
  return found == metadata.end() ? none : found->second;
}

std::size_t LoadedModel::columns() const noexcept {
  const Network& network = parts_->model.file().network;
  return network.loss == Loss::logistic ? network.input.classes : output_count(network);
}

std::vector<double> LoadedModel::predict(std::span<const float> features) const {
  const std::size_t width = element_count(input().features);
  if (features.size() % width != 0) {
    throw ConfigError("predict: there are " + std::to_string(features.size()) +
                      " features, which are not rows of " + std::to_string(width));
  }
  const std::size_t rows = features.size() / width;
  const Dataset data(input(), {features.begin(), features.end()}, std::vector<float>(rows));
  const core::Predictions predictions = parts_->model.predict(data);
  std::vector<double> result;
  for (std::size_t row = 0; row < rows; ++row) {
    if (predictions.has_probabilities()) {
      const std::vector<double> of_row = predictions.probabilities(row);
      result.insert(result.end(), of_row.begin(), of_row.end());
    } else {
      const auto of_row = predictions.of(row);
      result.insert(result.end(), of_row.begin(), of_row.end());
    }
  }
  return result;
}

}  // namespace privgrad
