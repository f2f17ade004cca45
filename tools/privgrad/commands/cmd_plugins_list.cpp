#include <map>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "loading_in_child.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/component_json.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

/// Most plugins share a folder and an ABI, so the text gives these once, below the table.
std::string list_text(const host::PluginHost& host) {
  Table components({Align::left, Align::left, Align::left, Align::left, Align::left});
  components.add({"KIND", "NAME", "PLUGIN", "VERSION", "SUMMARY"});
  for (const Component* c : api::sorted_components(host.catalog())) {
    components.add({c->factory.kind, c->factory.info.name, c->plugin->name, c->plugin->version,
                    c->factory.info.summary});
  }
  std::map<std::string, std::string> files;
  for (const auto& plugin : host.plugins()) {
    const std::filesystem::path path(plugin->file);
    std::string& names = files[path.parent_path().string()];
    names += (names.empty() ? "" : " ") + path.filename().string();
  }
  Table folders({Align::left, Align::left});
  for (const auto& [folder, names] : files) folders.add({folder, names});
  if (host.plugins().empty()) return "no plugins found\n";
  std::string cannot;
  for (const Component* c : api::sorted_components(host.catalog())) {
    const std::string why = api::missing_hardware(*c);
    if (why.empty()) continue;
    cannot += c->factory.kind + "/" + c->factory.info.name + " cannot run here: " + why + "\n";
  }
  return components.text() + (cannot.empty() ? "" : "\n" + cannot) + "\n" + folders.text() +
         "ABI " + host.plugins().front()->abi_tag + "\n";
}

int do_plugins_list(const Arguments& arguments) {
  return load_in_child([&](const host::RefusedFiles& refused) {
    const host::PluginHost host = load_every_plugin(arguments, refused);
    print_answer(arguments, api::list_json(host.catalog()), list_text(host));
    return 0;
  });
}

}  // namespace

Command plugins_list_command() {
  return {.usage = {.name = "plugins list",
                    .summary =
                        "Lists the components of all plugins that were found, and where they are.",
                    .operands = {},
                    .options = {{"json", "", "As JSON, with paths, hashes and refused plugins."},
                                plugin_dir_option()},
                    .details = "Plugins are looked for in each --plugin-dir, in the directories of "
                               "PRIVGRAD_PLUGIN_PATH\n(separated by ':'), in "
                               "~/.local/share/privgrad/plugins, and beside the program.",
                    .examples = {"privgrad plugins list", "privgrad plugins list --json"}},
          .run = do_plugins_list};
}

}  // namespace privgrad::tool
