#include <nlohmann/json.hpp>

#include "command.hpp"
#include "feature_cache_call.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plan_page.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "run_report.hpp"
#include "streaming_display.hpp"

namespace privgrad::tool {
namespace {

int do_plan(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  core::Manifest manifest =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog());
  show_streaming(manifest, arguments);
  const core::Plan plan = make_shown_plan(manifest, arguments);
  warn_of(plan);
  if (arguments.has("json")) {
    print_json(core::to_json(core::shown_facts(plan)));
  } else {
    print(plan_page(plan));
  }
  return 0;
}

}  // namespace

Command plan_command() {
  return {
      .usage = {.name = "plan",
                .summary = "Shows what a run would do and cost. Trains nothing and releases "
                           "nothing.",
                .operands = {"MANIFEST"},
                .options = {set_option(),
                            cache_option(),
                            {"json", "", "Print the plan as JSON, every step's noise included."},
                            policy_option(),
                            plugin_dir_option()},
                .examples = {"privgrad plan examples/manifests/quickstart.yaml",
                             "privgrad plan m.yaml --set privacy.target_epsilon=1 --json"}},
      .run = do_plan};
}

}  // namespace privgrad::tool
