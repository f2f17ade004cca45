#include <fcntl.h>
#include <stdlib.h>  // mkdtemp is not in <cstdlib>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

#include "command.hpp"
#include "companion.hpp"
#include "exit_code.hpp"
#include "loading_in_child.hpp"
#include "output.hpp"
#include "plugin_signature.hpp"
#include "plugins.hpp"
#include "plugins_test_usage.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/host/test_record.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// A folder beside the user's plugins, on the same file system, in which no command looks for
/// plugins. While it exists, no other call installs anything. A new call removes the folder that a
/// killed call left behind.
class StagingFolder {
 public:
  StagingFolder() {
    const fs::path parent = host::user_plugin_directory().parent_path();
    fs::create_directories(parent);
    lock_ = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 || ::flock(lock_, LOCK_EX) != 0) {
      throw IoError(parent.string() +
                    ": cannot be locked: " + std::generic_category().message(errno));
    }
    for (const auto& entry : fs::directory_iterator(parent)) {
      if (entry.path().filename().string().starts_with(kPrefix)) fs::remove_all(entry.path());
    }
    std::string path = (parent / (kPrefix + std::string("XXXXXX"))).string();
    if (::mkdtemp(path.data()) == nullptr) {
      throw IoError(parent.string() +
                    ": cannot be written: " + std::generic_category().message(errno));
    }
    path_ = path;
  }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  ~StagingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    ::close(lock_);
  }
  const fs::path& path() const { return path_; }

 private:
  static constexpr const char* kPrefix = ".install-";
  fs::path path_;
  int lock_ = -1;
};

/// A private copy of the plugin, which nobody else can change. All later checks read this copy.
fs::path staged_copy(const fs::path& plugin, const StagingFolder& folder) {
  fs::path copy = folder.path() / plugin.filename();
  fs::copy_file(plugin, copy);
  constexpr auto kOwnerWrites = static_cast<fs::perms>(0644);
  fs::permissions(copy, kOwnerWrites);
  return copy;
}

/// \returns the public key of the signer; nothing if there is no signature and none is required.
/// \throws PluginError if the signature does not fit the file, or if the required signer did not
///   sign it.
std::optional<std::string> signer_of(const std::string& plugin, const fs::path& staged,
                                     const std::optional<std::string>& wanted) {
  const fs::path file = signature_of(plugin);
  if (!fs::exists(file)) {
    if (!wanted) return std::nullopt;
    throw PluginError(file.string() + ": is missing; --signer asks for a signature");
  }
  std::optional<std::string> signer = plugin_signer(staged, file);
  if (!signer) throw PluginError(file.string() + ": is not a signature of " + plugin);
  if (wanted && *wanted != *signer) {
    throw PluginError(file.string() + ": is of the key " + *signer + ", not of the one asked for");
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

/// Examines the plugin and writes the record.
/// \throws PluginError if the plugin breaks a promise, or if the suite could not examine all of it.
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
  if (fs::exists(staged.string() + ".tested.json")) return;
  throw PluginError(plugin +
                    ": not installed, because a component was not examined; "
                    "privgrad plugins test says which, and --params how to make it");
}

/// \throws PluginError that names the file as the user wrote it.
const PluginIdentity& load_staged(host::PluginHost& host, const std::string& plugin,
                                  const fs::path& staged) try {
  return host.load(staged);
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

/// One line for each bare name that belongs to another plugin.
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

/// Claims the bare names that the plugin provides now, so that it keeps them.
void claim_names(const Catalog& catalog, const PluginIdentity& plugin, const fs::path& folder) {
  std::vector<host::ClaimedName> claims = host::read_claims(folder);
  std::erase_if(claims, [&](const auto& claim) { return claim.plugin == plugin.name; });
  for (const Component* component : catalog.loaded()) {
    if (component->plugin.get() != &plugin) continue;
    const Factory& factory = component->factory;
    if (catalog.owner_of(factory.kind, factory.info.name) == plugin.name)
      claims.push_back({{factory.kind, factory.info.name}, plugin.name});
  }
  host::write_claims(folder, claims);
}

/// Moves the plugin to the folder where commands find it. This is the last step and the only one
/// that installs anything: the names and the record, which is stored under the hash of the file,
/// have no effect without the file.
void place(const fs::path& staged, const fs::path& target, const PluginIdentity& plugin,
           const Catalog& catalog) {
  fs::create_directories(target.parent_path());
  claim_names(catalog, plugin, target.parent_path());
  const fs::path record = host::record_places(target, plugin.sha256).back();
  fs::create_directories(record.parent_path());
  fs::rename(staged.string() + ".tested.json", record);
  fs::rename(staged, target);
}

int do_plugins_install(const Arguments& arguments) {
  const std::string& plugin = arguments.operand(0);
  check_plugin_file(plugin);
  std::optional<std::string> wanted;
  if (arguments.has("signer")) wanted = core::read_public_key(arguments.text("signer"));
  const fs::path target = host::user_plugin_directory() / fs::path(plugin).filename();
  const StagingFolder folder;
  if (fs::exists(target) && !arguments.has("replace"))
    throw UsageError(target.string() + ": is installed already; --replace takes it out first");
  const fs::path staged =
      fs::canonical(staged_copy(plugin, folder).parent_path()) / fs::path(plugin).filename();
  const std::optional<std::string> signer = signer_of(plugin, staged, wanted);
  put_on_record(arguments, staged);
  return load_in_child([&](const host::RefusedFiles& refused_before) {
    host::RefusedFiles refused = refused_before;
    if (fs::exists(target)) refused.emplace(fs::canonical(target), "is being replaced");
    host::PluginHost host =
        host::find_plugins({.refused = refused, .also_trusted = {folder.path()}});
    const PluginIdentity& loaded = load_staged(host, plugin, staged);
    place(staged, target, loaded, host.catalog());
    print("installed " + loaded.name + " " + loaded.version + ": " +
          components_of(host.catalog(), loaded) + "\n" + target.string() + "\n" +
          taken_names(host.catalog(), loaded) +
          (!signer  ? "signed by nobody\n"
           : wanted ? "signed by the key asked for\n"
                    : "signed by the key " + *signer + "; whose that is, --signer would say\n"));
    return 0;
  });
}

}  // namespace

Command plugins_install_command() {
  return {
      .usage =
          {.name = "plugins install",
           .summary = "Installs a plugin for you alone: checks it, tests it, and puts it where it "
                      "is found.",
           .operands = {"FILE"},
           .options = {{.name = "signer",
                        .value = "KEY",
                        .doc = "Demand a signature (FILE.sig) of this public key (a .pub file)."},
                       {.name = "replace",
                        .value = "",
                        .doc = "Replace an installed file of this name."},
                       {.name = "params",
                        .value = "NAME=YAML",
                        .doc = "Parameters to test the component NAME with, as of plugins test.",
                        .repeatable = true}},
           .details =
               "The file must be built for this ABI, pass privgrad plugins test, and have the name "
               "of no plugin that\nis found already. Where FILE.sig lies beside it, it must be a "
               "signature of the file (privgrad plugins\nsign). The file and the record of its "
               "test go to ~/.local/share/privgrad/plugins. To test a plugin is\nto run its code: "
               "install what you would run.\n\n"
               "exit codes: 0 installed, 1 the plugin is refused, 2 the call is wrong or the file "
               "is there already, 4 a\nfile could not be read or written",
           .examples = {"privgrad plugins install warm_up.privgrad.so",
                        "privgrad plugins install warm_up.privgrad.so --signer her.key.pub"}},
      .run = do_plugins_install};
}

}  // namespace privgrad::tool
