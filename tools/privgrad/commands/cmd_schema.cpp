#include <nlohmann/json.hpp>

#include "command.hpp"
#include "loading_in_child.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/studies/study_schema.hpp"

namespace privgrad::tool {
namespace {

int do_schema(const Arguments& arguments) {
  return load_in_child([&](const host::RefusedFiles& refused) {
    const host::PluginHost host = load_every_plugin(arguments, refused);
    print_json(arguments.has("study") ? core::study_schema(host.catalog())
                                      : core::manifest_schema(host.catalog()));
    return 0;
  });
}

}  // namespace

Command schema_command() {
  return {.usage = {.name = "schema",
                    .summary = "Prints a JSON Schema for manifests or studies, made from the "
                               "plugins that were found, other\npeople's included.",
                    .operands = {},
                    .options = {{"study", "", "Print the schema of studies instead."},
                                plugin_dir_option()},
                    .details = "An editor completes and checks a manifest that begins with\n"
                               "# yaml-language-server: $schema=privgrad.schema.json",
                    .examples = {"privgrad schema > privgrad.schema.json",
                                 "privgrad schema --study > privgrad-study.schema.json"}},
          .run = do_schema};
}

}  // namespace privgrad::tool
