#include <nlohmann/json.hpp>
#include <sstream>

#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"
#include "problem_json.hpp"

namespace privgrad::tool {
namespace {

/// What the parameters of one component say together is checked by its constructor; collects what
/// all of them find.
template <class Interface>
void try_make(const core::ComponentUse& use, std::vector<std::string>& problems) {
  if (use.component == nullptr) return;
  try {
    use.make<Interface>();
  } catch (const core::ManifestError& error) {
    problems.insert(problems.end(), error.lines().begin(), error.lines().end());
  }
}

void make_all(const core::Manifest& manifest) {
  std::vector<std::string> problems;
  try_make<DataSource>(manifest.data, problems);
  for (const core::ComponentUse& use : manifest.transforms) try_make<Transform>(use, problems);
  try_make<Model>(manifest.model, problems);
  try_make<Backend>(manifest.backend, problems);
  try_make<Sampler>(manifest.sampler, problems);
  try_make<Clipping>(manifest.clipping, problems);
  try_make<Aggregator>(manifest.aggregator, problems);
  try_make<Optimizer>(manifest.optimizer, problems);
  for (const core::ComponentUse* use :
       {&manifest.noise_multiplier, &manifest.noise_std, &manifest.clip_norm,
        &manifest.learning_rate, &manifest.batch_size}) {
    try_make<Schedule>(*use, problems);
  }
  try_make<Accountant>(manifest.accountant, problems);
  for (const core::ComponentUse& use : manifest.also) try_make<Accountant>(use, problems);
  if (!problems.empty()) throw core::ManifestError(std::move(problems));
}

nlohmann::json answer(const std::vector<std::string>& lines) {
  auto problems = nlohmann::json::array();
  for (const std::string& line : lines) problems.push_back(problem_json(line));
  return {{"valid", lines.empty()}, {"problems", std::move(problems)}};
}

/// The lines of an error: one problem each.
std::vector<std::string> lines_of(const std::exception& problem) {
  std::vector<std::string> lines;
  std::istringstream text(problem.what());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

int do_validate(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const bool as_json = arguments.has("json");
  try {
    make_all(core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog()));
  } catch (const Error& problem) {
    if (as_json) print_json(answer(lines_of(problem)));
    throw;  // said on standard error too, and decides the exit code
  }
  if (as_json) print_json(answer({}));
  return 0;
}

}  // namespace

Command validate_command() {
  return {.usage = {.name = "validate",
                    .summary = "Checks a manifest against the plugins: prints nothing if it is "
                               "right, else all that is\nwrong, each with file, line and column "
                               "(exit code 2).",
                    .operands = {"MANIFEST"},
                    .options = {set_option(),
                                {.name = "json",
                                 .value = "",
                                 .doc = "Print {\"valid\", \"problems\"} as JSON: each problem "
                                        "with file, line, column, message, expected and nearest."},
                                plugin_dir_option()},
                    .details = "Opens no data and computes no noise: `privgrad plan` also tells "
                               "what the privacy budget and\nthe data have to say.",
                    .examples = {"privgrad validate examples/manifests/quickstart.yaml",
                                 "privgrad validate m.yaml --json"}},
          .run = do_validate};
}

}  // namespace privgrad::tool
