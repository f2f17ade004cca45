#include <map>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/plan/policy.hpp"

namespace privgrad::tool {
namespace {

constexpr int kRefused = 3;

int do_policy_check(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  core::Manifest manifest =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog());
  std::map<std::filesystem::path, std::string> refusals;
  try {
    (void)make_shown_plan(manifest, arguments);  // every call that could train does this
  } catch (const core::PolicyError& problem) {
    refusals = problem.refusals();
  }
  std::string text;
  auto answers = nlohmann::json::array();
  for (const core::Policy& policy : core::policies_in_force()) {
    const auto no = refusals.find(policy.file);
    const bool is_allowed = no == refusals.end();
    text += is_allowed ? policy.file.string() + ": allows the run\n" : no->second + "\n";
    answers.push_back({{"file", policy.file.string()}, {"allowed", is_allowed}});
    if (!is_allowed) answers.back()["refusal"] = no->second;
  }
  if (answers.empty()) text = "no policy is in force\n";
  print_answer(arguments, {{"allowed", refusals.empty()}, {"policies", std::move(answers)}}, text);
  return refusals.empty() ? 0 : kRefused;
}

}  // namespace

Command policy_check_command() {
  return {
      .usage = {.name = "policy check",
                .summary = "Says of each policy in force whether it allows the run of a manifest, "
                           "or which rule\nrefuses it. Trains nothing and charges nothing.",
                .operands = {"MANIFEST"},
                .options = {set_option(),
                            policy_option(),
                            {"json", "",
                             "Print {\"allowed\", \"policies\"} as JSON: each policy with file, "
                             "allowed and refusal."},
                            plugin_dir_option()},
                .details = "In force are /etc/privgrad/policy.yaml, etc/privgrad/policy.yaml below "
                           "the prefix of this\nprogram, the files in PRIVGRAD_POLICY (separated "
                           "by ':') and those of --policy. All of them\nmust allow a run. If one "
                           "refuses the manifest, the data is not opened, and the others\nanswer "
                           "as far as the manifest says.\n\n"
                           "exit codes: 0 all allow it, 3 one refuses it, 2 a policy or the "
                           "manifest is wrong, 4 a file\ncould not be read",
                .examples = {"privgrad policy check m.yaml",
                             "privgrad policy check m.yaml --policy draft.yaml --json"}},
      .run = do_policy_check};
}

}  // namespace privgrad::tool
