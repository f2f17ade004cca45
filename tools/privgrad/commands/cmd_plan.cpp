#include <nlohmann/json.hpp>

#include "command.hpp"
#include "feature_cache_call.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plan_page.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "run_report.hpp"
#include "streaming_display.hpp"

namespace privgrad::tool {
namespace {

/// The plan as runs record it, and what they need not know.
nlohmann::json plan_json(const core::Plan& plan) {
  nlohmann::json json = core::to_json(plan);
  json["trained_tensors"] = nlohmann::json::array();
  for (const ParameterBlock& block : parameter_blocks(plan.setting->network))
    json["trained_tensors"].push_back(block.name);
  if (const core::PassFacts& pass = plan.setting->pass; pass.rows > 0)
    json["pass"] = {{"examples", pass.rows}, {"bytes", pass.bytes}};
  return json;
}

int do_plan(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  core::Manifest manifest =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog());
  show_streaming(manifest, arguments);
  const core::Plan plan = make_shown_plan(manifest, arguments);
  warn_of(plan);
  if (arguments.has("json")) {
    print_json(plan_json(plan));
  } else {
    print(plan_page(plan));
  }
  return 0;
}

}  // namespace

Command plan_command() {
  return {.usage = {.name = "plan",
                    .summary = "Shows what a run would do and cost. Trains nothing and releases "
                               "nothing.",
                    .operands = {"MANIFEST"},
                    .options = {set_option(),
                                cache_option(),
                                {.name = "json",
                                 .value = "",
                                 .doc = "Print the plan as JSON, every step's noise included."},
                                plugin_dir_option()},
                    .examples = {"privgrad plan examples/manifests/quickstart.yaml",
                                 "privgrad plan m.yaml --set privacy.target_epsilon=1 --json"}},
          .run = do_plan};
}

}  // namespace privgrad::tool
