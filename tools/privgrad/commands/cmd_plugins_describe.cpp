#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/component_json.hpp"
#include "privgrad/manifest/component_docs.hpp"

namespace privgrad::tool {
namespace {

int do_plugins_describe(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const Component& component = api::find_component(host.catalog(), arguments.operand(0));
  print_answer(arguments, api::description_json(component), core::component_text(component));
  return 0;
}

}  // namespace

Command plugins_describe_command() {
  return {.usage = {.name = "plugins describe",
                    .summary = "Describes one component: what it does, the source it follows, its "
                               "parameters.",
                    .operands = {"KIND/NAME"},
                    .options = {{"json", "", "As JSON."}, plugin_dir_option()},
                    .details = "NAME alone will do where it is unique; PLUGIN:NAME where two "
                               "plugins offer the same name.",
                    .examples = {"privgrad plugins describe optimizer/momentum",
                                 "privgrad plugins describe schedule/constant --json"}},
          .run = do_plugins_describe};
}

}  // namespace privgrad::tool
