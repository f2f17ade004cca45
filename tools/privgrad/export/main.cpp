// privgrad-export: the program that `privgrad export` starts, with the same arguments.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "exit_code.hpp"
#include "export_usage.hpp"
#include "onnx_model.hpp"
#include "plugins.hpp"
#include "privgrad/api/model_place.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/trust/files.hpp"
#include "standard_streams.hpp"

namespace privgrad::tool {
namespace {

int run(const Arguments& arguments) {
  check_export_call(arguments);
  const std::filesystem::path file = api::model_file_of(arguments.operand(0));
  api::check_is_over(file);
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(file, unknown);
  if (!unknown) check_size(size);  // before gigabytes are read for nothing
  core::ModelFile saved = core::read_model_file(file);
  std::optional<Estimator> estimator;
  if (arguments.has("estimator")) {
    estimator = read_estimator(arguments.text("estimator"), saved);
    saved.classes = estimator->classes;
    saved.metadata["classes"] = nlohmann::json(estimator->classes).dump();
  }
  const host::PluginHost host = load_plugins(arguments);
  const auto executor = core::make_executor(1);
  const core::TrainedModel model(std::move(saved), file.string(), host.catalog(), *executor);
  std::string bytes;
  if (!onnx_model(model, estimator ? &*estimator : nullptr).SerializeToString(&bytes))
    throw IoError(arguments.text("out") + ": protobuf cannot write the model");
  core::write_atomically(arguments.text("out"), bytes);
  return 0;
}

}  // namespace
}  // namespace privgrad::tool

int main(int argc, char** argv) {
  using namespace privgrad::tool;
  open_standard_streams();
  // If a file exceeds the size limit, the write fails, as on a full disk, instead of ending the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  return with_exit_code([&] { return run(parse(export_usage(), {argv + 1, argv + argc})); });
}
