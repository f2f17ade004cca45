// privgrad-conformance: the program that `privgrad plugins test` starts, with the same arguments.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "examination.hpp"
#include "exit_code.hpp"
#include "output.hpp"
#include "plugins_test_usage.hpp"
#include "privgrad/error.hpp"
#include "record.hpp"
#include "standard_streams.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using privgrad::testing::Finding;

/// \returns YAML by component name, from `--params NAME=YAML`.
std::map<std::string, std::string> given_params(const Arguments& arguments,
                                                const LoadedPlugin& plugin) {
  std::map<std::string, std::string> params;
  for (const std::string& given : arguments.texts("params")) {
    const std::size_t equals = std::min(given.find('='), given.size());
    const std::string name = given.substr(0, equals);
    const bool known = std::ranges::any_of(
        plugin.components, [&](const LoadedPlugin::Offer& offer) { return offer.name == name; });
    if (!known || equals == given.size()) {
      throw UsageError("--params is '" + given + "', expected NAME=YAML with the name of one of " +
                       "the plugin's components");
    }
    params[name] = given.substr(equals + 1);
    parse_params(params[name]);
  }
  return params;
}

std::string text_of(const std::vector<Examined>& all, const Recorded& recorded) {
  std::string text;
  for (const Examined& examined : all) {
    Table table({Align::left, Align::left, Align::left});
    for (const Finding& finding : examined.findings) {
      table.add({std::string(to_text(finding.verdict)), finding.rule, finding.detail});
    }
    text += (text.empty() ? "" : "\n") + examined.component.kind + " " +
            examined.component.full_name + "\n" + table.text(2);
  }
  return text + "\n" +
         (recorded.file.empty() ? "no record: " + recorded.why_not
                                : "record: " + recorded.file.string()) +
         "\n";
}

/// Returns "COMPONENT: RULE: DETAIL" for each broken promise.
std::string broken_text(const std::vector<Examined>& all) {
  std::string text;
  for (const Examined& examined : all) {
    for (const Finding& finding : examined.findings) {
      if (finding.verdict == privgrad::testing::Verdict::failed)
        text += examined.component.full_name + ": " + finding.rule + ": " + finding.detail + "\n";
    }
  }
  return text;
}

nlohmann::json json_of(const std::vector<Examined>& all, bool conforms, const Recorded& recorded) {
  nlohmann::json components = nlohmann::json::array();
  for (const Examined& examined : all) {
    nlohmann::json findings = nlohmann::json::array();
    for (const Finding& finding : examined.findings) {
      findings.push_back({{"rule", finding.rule},
                          {"verdict", to_text(finding.verdict)},
                          {"detail", finding.detail}});
    }
    components.push_back({{"kind", examined.component.kind},
                          {"name", examined.component.name},
                          {"full_name", examined.component.full_name},
                          {"findings", std::move(findings)}});
  }
  return {{"conforms", conforms},
          {"components", std::move(components)},
          {"record", recorded.file.empty() ? nlohmann::json(nullptr)
                                           : nlohmann::json(recorded.file.string())}};
}

/// Refuses calls with names of unknown rules: a misspelt rule must not count as passed, nor lead to
/// exit code 1, which blames the plugin. (Rules that depend on a broken rule are unknown, too.)
void check_rules(const std::vector<std::string>& rules, const std::vector<Examined>& all) {
  for (const std::string& rule : rules) {
    const bool is_known = std::ranges::any_of(all, [&](const Examined& examined) {
      return std::ranges::any_of(examined.findings,
                                 [&](const Finding& finding) { return finding.rule == rule; });
    });
    if (!is_known) {
      throw UsageError("--rule is '" + rule +
                       "', expected a rule that is checked on one of the plugin's components; "
                       "without --rule all are listed");
    }
  }
}

int run(const Arguments& arguments) {
  check_plugin_file(arguments.operand(0));
  Limits limits;
  if (arguments.has("time-limit")) {
    constexpr int kMostSeconds = 86400;
    limits.time = std::chrono::seconds(
        whole_number("time-limit", arguments.text("time-limit"), 1, kMostSeconds));
  }
  if (arguments.has("memory-limit")) {
    constexpr int kMostMebibytes = 1 << 30;
    const auto mebibytes = static_cast<std::uint64_t>(
        whole_number("memory-limit", arguments.text("memory-limit"), 0, kMostMebibytes));
    limits.memory = mebibytes == 0 ? RLIM_INFINITY : mebibytes << 20;
  }
  const LoadedPlugin plugin = load_once(fs::absolute(arguments.operand(0)), limits);
  const std::vector<std::string> rules = arguments.texts("rule");
  const std::vector<Examined> all = examine(plugin, given_params(arguments, plugin), rules, limits);
  const auto broken = std::ranges::count_if(all, [](const Examined& examined) {
    return !privgrad::testing::conforms(examined.findings);
  });
  if (broken == 0) check_rules(rules, all);
  const Recorded recorded = write_record(plugin, all, rules.empty());
  if (arguments.has("json")) {
    print_json(json_of(all, broken == 0, recorded));
  } else if (arguments.has("quiet")) {
    print(broken_text(all));
  } else {
    print(text_of(all, recorded));
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
  // If a file exceeds the size limit, the write fails, as on a full disk, instead of ending the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  return with_exit_code([&] { return run(parse(plugins_test_usage(), {argv + 1, argv + argc})); });
}
