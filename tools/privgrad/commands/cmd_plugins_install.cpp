#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>

#include "command.hpp"
#include "companion.hpp"
#include "exit_code.hpp"
#include "loading_in_child.hpp"
#include "output.hpp"
#include "plugin_change.hpp"
#include "plugin_signature.hpp"
#include "plugins_test_usage.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// Copies the plugin into a folder that other users cannot change. All later checks read the copy.
void copy_plugin(const fs::path& plugin, const fs::path& staged) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  core::write_atomically(staged, core::read_whole(plugin, kMostBytes));
}

/// \returns the public key of the signer; nothing if there is no signature and none is required.
/// \throws PluginError if the signature does not fit the file, or if the required signer did not
///   sign the file.
std::optional<std::string> signer_of(const std::string& plugin, const fs::path& staged,
                                     const std::optional<std::string>& wanted) {
  const fs::path file = signature_of(plugin);
  std::error_code too_long;  // a name that is too long has no signature
  if (!fs::exists(file, too_long)) {
    if (!wanted) return std::nullopt;
    throw PluginError(file.string() + ": is missing; --signer asks for a signature");
  }
  std::optional<std::string> signer = plugin_signer(staged, file);
  if (!signer) throw PluginError(file.string() + ": is not a signature of " + plugin);
  if (wanted && *wanted != *signer) {
    throw PluginError(file.string() + ": is of the key " + *signer + ", not of the requested key");
  }
  return signer;
}

/// \returns the last complaint that the suite printed, with the file's name as the user wrote it.
std::string complaint(const fs::path& errors, const std::string& staged,
                      const std::string& plugin) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  constexpr std::string_view kPrefix = "privgrad: error: ";
  std::string text = core::read_whole(errors, kMostBytes);
  while (text.ends_with('\n')) text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  if (text.starts_with(kPrefix)) text.erase(0, kPrefix.size());
  if (text.starts_with(staged)) text.replace(0, staged.size(), plugin);
  return text.empty() ? plugin + ": did not pass privgrad plugins test" : text;
}

/// Examines the plugin and records that it passed.
/// \throws PluginError if the plugin breaks a promise.
void put_on_record(const Arguments& arguments, const fs::path& staged) {
  std::vector<std::string> words{"--quiet"};
  for (const std::string& params : arguments.texts("params"))
    words.insert(words.end(), {"--params", params});
  words.insert(words.end(), {"--", staged.string()});
  const fs::path errors = staged.parent_path() / "errors";
  const int code = run_companion("privgrad-conformance", std::move(words), errors);
  const std::string& plugin = arguments.operand(0);
  if (code == kWrongCall) throw UsageError(complaint(errors, staged, plugin));
  if (code == kInputOutput) throw IoError(complaint(errors, staged, plugin));
  if (code != 0) throw PluginError(complaint(errors, staged, plugin));
}

/// \throws PluginError if the plugin is refused, or the suite could not examine all its components.
///   The error names the file as the user wrote it.
const PluginIdentity& load_staged(host::PluginHost& host, const std::string& plugin,
                                  const fs::path& staged) try {
  const PluginIdentity& loaded = host.load(staged);
  if (loaded.is_tested()) return loaded;
  throw PluginError(staged.string() +
                    ": a component was not examined; privgrad plugins test says which, and "
                    "--params how to make it");
} catch (const PluginError& problem) {
  const std::string_view why = problem.what();
  throw PluginError(plugin + ": not installed: " +
                    std::string(why.substr(std::min(staged.string().size() + 2, why.size()))));
}

std::string components_of(const Catalog& catalog, const PluginIdentity& plugin) {
  std::string names;
  for (const Component* component : catalog.loaded()) {
    if (component->plugin.get() != &plugin) continue;
    names +=
        (names.empty() ? "" : ", ") + component->factory.kind + "/" + component->factory.info.name;
  }
  return names;
}

/// Returns one line for each component of the plugin whose bare name does not refer to the plugin.
std::string taken_names(const Catalog& catalog, const PluginIdentity& plugin) {
  std::string lines;
  for (const Component* component : catalog.loaded()) {
    if (component->plugin.get() != &plugin) continue;
    const Factory& factory = component->factory;
    const std::string owner = catalog.owner_of(factory.kind, factory.info.name);
    if (owner == plugin.name) continue;
    lines += "the name " + factory.kind + "/" + factory.info.name + " is " +
             (owner.empty() ? "several plugins'" : "that of " + owner) + ": write " +
             component->full_name() + " for this one\n";
  }
  return lines;
}

/// \returns all claims, including the plugin's claims to the bare names that now refer to it.
std::vector<host::ClaimedName> with_names_of(const PluginIdentity& plugin, const Catalog& catalog) {
  std::vector<host::ClaimedName> claims = host::read_claims(host::user_plugin_directory());
  std::erase_if(claims, [&](const auto& claim) { return claim.plugin == plugin.name; });
  for (const Component* component : catalog.loaded()) {
    if (component->plugin.get() != &plugin) continue;
    const OfferedComponent name{component->factory.kind, component->factory.info.name};
    if (catalog.owner_of(name.kind, name.name) != plugin.name) continue;
    std::erase_if(claims, [&](const auto& claim) { return claim.component == name; });
    claims.push_back({name, plugin.name});
  }
  return claims;
}

/// \throws UsageError if a file is there and must not be replaced; IoError if a folder is there.
void check_place(const fs::path& target, bool replaces) {
  const fs::file_status status = fs::symlink_status(target);
  if (fs::is_directory(status)) throw IoError(target.string() + ": is a folder, not a plugin");
  if (fs::exists(status) && !replaces)
    throw UsageError(target.string() + ": is installed already; --replace takes it out first");
}

int do_plugins_install(const Arguments& arguments) {
  const std::string& plugin = arguments.operand(0);
  check_plugin_file(plugin);
  std::optional<std::string> wanted;
  if (arguments.has("signer")) wanted = core::read_public_key(arguments.text("signer"));
  const fs::path target = host::user_plugin_directory() / fs::path(plugin).filename();
  PluginChange change;
  const fs::path& staged = change.staged();
  check_place(target, arguments.has("replace"));
  copy_plugin(plugin, staged);
  const std::optional<std::string> signer = signer_of(plugin, staged, wanted);
  put_on_record(arguments, staged);
  const int code = load_in_child([&](const host::RefusedFiles& refused_before) {
    host::RefusedFiles refused = refused_before;
    if (fs::exists(target)) refused.emplace(fs::canonical(target), "is being replaced");
    host::PluginHost host =
        host::find_plugins({.refused = refused, .also_trusted = {staged.parent_path()}});
    const PluginIdentity& loaded = load_staged(host, plugin, staged);
    const Catalog& catalog = host.catalog();
    change.install(target, loaded.sha256, with_names_of(loaded, catalog));
    print(
        "installed " + loaded.name + " " + loaded.version + ": " + components_of(catalog, loaded) +
        "\n" + target.string() + "\n" + taken_names(catalog, loaded) +
        (!signer  ? "not signed\n"
         : wanted ? "signed by the requested key\n"
                  : "signed by the key " + *signer + "; --signer KEY checks whose key that is\n"));
    return 0;
  });
  change.finish();
  return code;
}

}  // namespace

Command plugins_install_command() {
  return {
      .usage =
          {.name = "plugins install",
           .summary = "Installs a plugin for the current user: checks it, tests it, and puts it "
                      "where PrivGrad finds it.",
           .operands = {"FILE"},
           .options = {{"signer", "KEY",
                        "Demand a signature (FILE.sig) of this public key (a .pub file)."},
                       {"replace", "", "Replace an installed file of this name."},
                       {.name = "params",
                        .value = "NAME=YAML",
                        .doc = "Parameters to test the component NAME with, as in plugins test.",
                        .repeatable = true}},
           .details =
               "The file must be built for this ABI, pass privgrad plugins test, and not have the "
               "name of a plugin that\nis found already. If FILE.sig lies beside it, that must be "
               "a signature of the file (privgrad plugins\nsign). The file and the record of its "
               "test go to ~/.local/share/privgrad/plugins. Testing a plugin runs\nits code: "
               "install only plugins that you would run.\n\n"
               "exit codes: 0 installed, 1 the plugin is refused, 2 the call is wrong or the file "
               "is there already, 4 a\nfile could not be read or written",
           .examples = {"privgrad plugins install warm_up.privgrad.so",
                        "privgrad plugins install warm_up.privgrad.so --signer her.key.pub"}},
      .run = do_plugins_install};
}

}  // namespace privgrad::tool
