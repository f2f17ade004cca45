#include <set>
#include <system_error>

#include "command.hpp"
#include "loading_in_child.hpp"
#include "output.hpp"
#include "plugin_change.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// An installed file and the names by which it can be removed.
struct Installed {
  fs::path file;
  std::set<std::string> names;
};

/// Each file can also be removed by its file name, because some plugins can no longer be loaded.
std::vector<Installed> installed_plugins(const Catalog& catalog) {
  std::vector<Installed> all;
  for (const fs::path& file : host::find_plugin_files(host::user_plugin_directory())) {
    Installed one{.file = file, .names = {file.filename().string()}};
    std::error_code broken;
    const fs::path resolved = fs::canonical(file, broken);
    for (const Component& component : catalog.components()) {
      if (component.plugin->file == file || component.plugin->file == resolved)
        one.names.insert(component.factory.kind + "/" + component.factory.info.name);
    }
    all.push_back(std::move(one));
  }
  return all;
}

[[noreturn]] void fail_unknown(const std::string& given, const std::vector<Installed>& all) {
  std::vector<std::string> names;
  for (const Installed& one : all) names.insert(names.end(), one.names.begin(), one.names.end());
  throw UsageError("'" + given + "' is not a KIND/NAME in " +
                   host::user_plugin_directory().string() + did_you_mean(given, names));
}

/// \returns all claims except the claims of the plugin in `file`.
std::vector<host::ClaimedName> without_names_of(const fs::path& file, const Catalog& catalog) {
  const fs::path resolved = fs::weakly_canonical(file);
  std::vector<host::ClaimedName> claims = host::read_claims(host::user_plugin_directory());
  for (const Component* component : catalog.loaded()) {
    if (component->plugin->file != resolved) continue;
    const std::string& plugin = component->plugin->name;
    std::erase_if(claims, [&](const auto& claim) { return claim.plugin == plugin; });
  }
  return claims;
}

int do_plugins_remove(const Arguments& arguments) {
  const std::string& given = arguments.operand(0);
  if (!fs::is_directory(host::user_plugin_directory())) fail_unknown(given, {});
  PluginChange change;
  const int code = load_in_child([&](const host::RefusedFiles& refused) {
    const host::PluginHost host = host::find_plugins({.refused = refused});
    const std::vector<Installed> all = installed_plugins(host.catalog());
    const auto found =
        std::ranges::find_if(all, [&](const Installed& one) { return one.names.contains(given); });
    if (found == all.end()) fail_unknown(given, all);
    change.remove(found->file, without_names_of(found->file, host.catalog()));
    std::string names;
    for (const std::string& name : found->names)
      if (name != found->file.filename()) names += (names.empty() ? ": " : ", ") + name;
    print("removed " + found->file.string() + names + "\n");
    return 0;
  });
  change.finish();
  return code;
}

}  // namespace

Command plugins_remove_command() {
  return {
      .usage = {.name = "plugins remove",
                .summary = "Removes a plugin that plugins install put there, with all its "
                           "components.",
                .operands = {"KIND/NAME"},
                .options = {},
                .details = "KIND/NAME is one of its components, as privgrad plugins list shows "
                           "them; or, if it\ncan no longer be loaded, the name of its file. "
                           "Plugins in other folders are not touched.\n\n"
                           "exit codes: 0 removed, 2 there is no such plugin, 4 it could not be "
                           "removed",
                .examples = {"privgrad plugins remove schedule/warm_up",
                             "privgrad plugins remove warm_up.privgrad.so"}},
      .run = do_plugins_remove};
}

}  // namespace privgrad::tool
