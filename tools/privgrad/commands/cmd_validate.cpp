#include <nlohmann/json.hpp>

#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/check_components.hpp"
#include "privgrad/api/problem_json.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {
namespace {

nlohmann::json answer(const std::vector<std::string>& lines) {
  auto problems = nlohmann::json::array();
  for (const std::string& line : lines) problems.push_back(api::problem_json(line));
  return {{"valid", lines.empty()}, {"problems", std::move(problems)}};
}

int do_validate(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const bool as_json = arguments.has("json");
  try {
    api::check_components(
        core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog()));
  } catch (const Error& problem) {
    if (as_json) print_json(answer(api::lines_of(problem)));
    throw;  // The error is also printed on standard error, and decides the exit code.
  }
  if (as_json) print_json(answer({}));
  return 0;
}

}  // namespace

Command validate_command() {
  return {
      .usage = {.name = "validate",
                .summary = "Checks a manifest against the plugins: prints nothing if it is valid, "
                           "otherwise\nevery problem with its file, line and column (exit code 2).",
                .operands = {"MANIFEST"},
                .options = {set_option(),
                            {"json", "",
                             "Print {\"valid\", \"problems\"} as JSON: each problem with file, "
                             "line, column, message, expected and nearest."},
                            plugin_dir_option()},
                .details = "Opens no data and computes no noise: `privgrad plan` also checks the "
                           "privacy\nbudget and the data.",
                .examples = {"privgrad validate examples/manifests/quickstart.yaml",
                             "privgrad validate m.yaml --json"}},
      .run = do_validate};
}

}  // namespace privgrad::tool
