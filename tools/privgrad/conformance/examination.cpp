#include "examination.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/blas.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/trust/testing.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using privgrad::testing::Finding;
using privgrad::testing::Verdict;

/// No component has this many rules; the limit ends an examination whose list of rules never ends.
constexpr std::size_t kMostRules = 1000;

/// Parses the lines that the child process sent, one document per line.
std::vector<Json> documents(const std::string& said) {
  std::vector<Json> all;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
  return all;
}

/// Text from a plugin may not be UTF-8, so invalid bytes are replaced.
void say_json(const Say& say, const Json& json) {
  say(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Returns the member `key` of the last document that has it.
std::optional<Json> last_with(const std::vector<Json>& all, const char* key) {
  for (auto document = all.rbegin(); document != all.rend(); ++document) {
    if (document->contains(key)) return document->at(key);
  }
  return std::nullopt;
}

host::PluginHost load_here(const fs::path& file) {
  host::limit_blas_threads();
  host::choose_blas_kernels();
  host::PluginHost host(host::TrustPolicy{.directories = {file.parent_path()}, .pins = {}});
  host.load(file);
  return host;
}

/// Finds the first rule that is not in `done`, checks it, and reports the result.
void check_here(const LoadedPlugin& plugin, std::size_t index,
                const privgrad::testing::Setup& setup, const std::vector<Finding>& done,
                const Say& say) {
  const host::PluginHost host = load_here(plugin.file);
  const auto& components = host.catalog().components();
  if (host.plugins().front()->sha256 != plugin.sha256 || index >= components.size()) {
    say_json(say, {{"changed", true}});
    return;
  }
  privgrad::testing::check_next_rule(
      components[index], setup, done,
      [&](const std::string& rule) {
        say_json(say, {{"begins", rule}});
      },
      [&](const Finding& finding) {
        say_json(say, {{"rule", finding.rule},
                       {"verdict", static_cast<int>(finding.verdict)},
                       {"detail", finding.detail}});
      });
}

/// Returns the finding about a process that died before it finished.
Finding finding_of_death(const std::vector<Json>& all, const std::string& death) {
  if (const auto rule = last_with(all, "begins"))
    return {rule->get<std::string>(), Verdict::failed, death};
  return {std::string(privgrad::testing::kWholeSuite), Verdict::failed,
          "between two rules, or in what earlier ones had prepared, " + death};
}

/// \returns the finding on the next rule; nothing if there is no further rule.
std::optional<Finding> next_finding(const LoadedPlugin& plugin, std::size_t index,
                                    const privgrad::testing::Setup& setup,
                                    const std::vector<Finding>& done, const Limits& limits) {
  const Ending ending =
      in_sandbox(limits, [&](const Say& say) { check_here(plugin, index, setup, done, say); });
  const std::vector<Json> all = documents(ending.said);
  if (last_with(all, "changed")) {
    throw PluginError(plugin.file.string() + ": was changed while it was examined; try again");
  }
  if (!ending.concluded) return finding_of_death(all, ending.death);
  if (all.empty()) return std::nullopt;
  const Json& found = all.back();
  return Finding{found.at("rule").get<std::string>(),
                 static_cast<Verdict>(found.at("verdict").get<int>()),
                 found.at("detail").get<std::string>()};
}

std::vector<Finding> find_all(const LoadedPlugin& plugin, std::size_t index,
                              const privgrad::testing::Setup& setup, const Limits& limits) {
  std::vector<Finding> findings;
  while (findings.size() < kMostRules) {
    std::optional<Finding> next = next_finding(plugin, index, setup, findings, limits);
    if (!next) return findings;
    const bool is_last = next->rule == privgrad::testing::kWholeSuite;
    findings.push_back(*std::move(next));
    if (is_last) return findings;
  }
  throw PluginError(plugin.file.string() + ": its list of rules does not end");
}

}  // namespace

Value parse_params(const std::string& text) {
  std::vector<Problem> problems;
  std::optional<Value> value = core::parse_yaml(text, problems);
  if (!problems.empty() || !value || !std::holds_alternative<Value::Object>(value->data())) {
    throw UsageError("--params: '" + text + "' is not a YAML object" +
                     (problems.empty() ? "" : ": " + problems.front().what));
  }
  return *std::move(value);
}

LoadedPlugin load_once(const fs::path& file, const Limits& limits) {
  const Ending ending = in_sandbox(limits, [&](const Say& say) {
    try {
      const host::PluginHost host = load_here(file);
      const PluginIdentity& plugin = *host.plugins().front();
      Json components = Json::array();
      for (const Component& component : host.catalog().components()) {
        components.push_back(
            {component.factory.kind, component.factory.info.name, component.full_name()});
      }
      say_json(say, {{"loaded",
                      {{"name", plugin.name},
                       {"version", plugin.version},
                       {"sha256", plugin.sha256},
                       {"abi", plugin.abi_tag},
                       {"components", std::move(components)}}}});
    } catch (const Error& problem) {
      say_json(say, {{"refused", problem.what()}});
    }
  });
  const std::vector<Json> all = documents(ending.said);
  if (const auto why = last_with(all, "refused")) throw PluginError(why->get<std::string>());
  const auto loaded = last_with(all, "loaded");
  if (!ending.concluded || !loaded) {
    throw PluginError(file.string() + ": does not survive being loaded: " + ending.death);
  }
  LoadedPlugin plugin{.name = loaded->at("name"),
                      .version = loaded->at("version"),
                      .sha256 = loaded->at("sha256"),
                      .abi = loaded->at("abi"),
                      .file = fs::canonical(file),
                      .components = {}};
  for (const Json& offer : loaded->at("components"))
    plugin.components.push_back({offer.at(0), offer.at(1), offer.at(2)});
  return plugin;
}

std::vector<Examined> examine(const LoadedPlugin& plugin,
                              const std::map<std::string, std::string>& params,
                              const std::vector<std::string>& rules, const Limits& limits) {
  std::vector<Examined> all;
  for (std::size_t i = 0; i < plugin.components.size(); ++i) {
    const auto own = params.find(plugin.components[i].name);
    Examined examined{plugin.components[i], own == params.end() ? "" : own->second, {}};
    const privgrad::testing::Setup setup{
        .params = own == params.end() ? Value() : parse_params(own->second),
        .rules = rules,
        .make_released = core::released_for_testing,
        .make_noise_order = core::noise_order_for_testing,
        .release = core::release_for_testing};
    examined.findings = find_all(plugin, i, setup, limits);
    all.push_back(std::move(examined));
  }
  return all;
}

}  // namespace privgrad::tool
