// privgrad-conformance: what `privgrad plugins test` starts. It is called with the same words.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "../exit_code.hpp"
#include "../output.hpp"
#include "../plugins.hpp"
#include "../plugins_test_usage.hpp"
#include "../standard_streams.hpp"
#include "../table.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/testing/conformance.hpp"
#include "privgrad/trust/testing.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using privgrad::testing::Finding;

struct Examined {
  const Component* component = nullptr;
  std::vector<Finding> findings;
};

Value parse_params(const std::string& text) {
  std::vector<Problem> problems;
  std::optional<Value> value = core::parse_yaml(text, problems);
  if (!problems.empty() || !value || !std::holds_alternative<Value::Object>(value->data())) {
    throw UsageError("--params: '" + text + "' is no YAML object" +
                     (problems.empty() ? "" : ": " + problems.front().what));
  }
  return *std::move(value);
}

/// \returns parameters by component name, from `--params NAME=YAML`.
std::map<std::string, Value> given_params(const Arguments& arguments, const Catalog& catalog) {
  std::map<std::string, Value> params;
  for (const std::string& given : arguments.texts("params")) {
    const std::size_t equals = std::min(given.find('='), given.size());
    const std::string name = given.substr(0, equals);
    const bool known = std::any_of(
        catalog.components().begin(), catalog.components().end(),
        [&](const Component& component) { return component.factory.info.name == name; });
    if (!known || equals == given.size()) {
      throw UsageError("--params is '" + given + "', expected NAME=YAML with the name of one of " +
                       "the plugin's components");
    }
    params[name] = parse_params(given.substr(equals + 1));
  }
  return params;
}

std::vector<Examined> examine(const Catalog& catalog, const std::map<std::string, Value>& params) {
  std::vector<Examined> all;
  for (const Component& component : catalog.components()) {
    privgrad::testing::Setup setup;
    setup.make_released = core::released_for_testing;
    if (const auto own = params.find(component.factory.info.name); own != params.end()) {
      setup.params = own->second;
    }
    all.push_back({&component, privgrad::testing::check_component(component, setup)});
  }
  return all;
}

std::string text_of(const std::vector<Examined>& all) {
  std::string text;
  for (const Examined& examined : all) {
    Table table({Align::left, Align::left, Align::left});
    for (const Finding& finding : examined.findings) {
      table.add({std::string(to_text(finding.verdict)), finding.rule, finding.detail});
    }
    text += (text.empty() ? "" : "\n") + examined.component->factory.kind + " " +
            examined.component->full_name() + "\n" + table.text(2);
  }
  return text;
}

nlohmann::json json_of(const std::vector<Examined>& all, bool conforms) {
  nlohmann::json components = nlohmann::json::array();
  for (const Examined& examined : all) {
    nlohmann::json findings = nlohmann::json::array();
    for (const Finding& finding : examined.findings) {
      findings.push_back({{"rule", finding.rule},
                          {"verdict", to_text(finding.verdict)},
                          {"detail", finding.detail}});
    }
    components.push_back({{"kind", examined.component->factory.kind},
                          {"name", examined.component->factory.info.name},
                          {"full_name", examined.component->full_name()},
                          {"findings", std::move(findings)}});
  }
  return {{"conforms", conforms}, {"components", std::move(components)}};
}

/// What is wrong with the call is no fault of the plugin, which exit code 1 would say.
void check_operand(const std::string& given) {
  std::error_code failure;
  if (!fs::exists(given, failure)) {
    throw IoError(given + ": " + (failure ? failure.message() : "there is no such file"));
  }
  const std::string name = fs::path(given).filename().string();
  const bool is_plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!is_plain || !name.ends_with(".privgrad.so")) {
    throw UsageError(given +
                     ": not named like a plugin; expected NAME.privgrad.so in printable ASCII");
  }
}

int run(const Arguments& arguments) {
  check_operand(arguments.operand(0));
  limit_blas_threads();
  choose_blas_kernels();
  const fs::path file = fs::absolute(arguments.operand(0));
  host::PluginHost host(host::TrustPolicy{.directories = {file.parent_path()}, .pins = {}});
  host.load(file);
  const std::vector<Examined> all =
      examine(host.catalog(), given_params(arguments, host.catalog()));
  const auto broken = std::count_if(all.begin(), all.end(), [](const Examined& examined) {
    return !privgrad::testing::conforms(examined.findings);
  });
  if (arguments.has("json")) {
    print_json(json_of(all, broken == 0));
  } else {
    print(text_of(all));
  }
  if (broken == 0) return 0;
  throw PluginError(arguments.operand(0) + ": " + std::to_string(broken) + " of " +
                    std::to_string(all.size()) + " components break a promise of their interface");
}

}  // namespace
}  // namespace privgrad::tool

int main(int argc, char** argv) {
  using namespace privgrad::tool;
  open_standard_streams();
  // Beyond a file size limit a write fails, as on a full disk, instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return with_exit_code([&] { return run(parse(plugins_test_usage(), {argv + 1, argv + argc})); });
}
