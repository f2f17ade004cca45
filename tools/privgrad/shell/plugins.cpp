#include "plugins.hpp"

#include <cstdlib>
#include <filesystem>

#include "last_words.hpp"
#include "output.hpp"
#include "privgrad/host/blas.hpp"
#include "privgrad/host/search_path.hpp"

namespace privgrad::tool {

Option plugin_dir_option() {
  return {.name = "plugin-dir",
          .value = "DIR",
          .doc = "Look for plugins here first.",
          .repeatable = true};
}

Option policy_option() {
  return {.name = "policy",
          .value = "FILE",
          .doc = "A site's policy that must allow the run, beside the system's.",
          .repeatable = true};
}

namespace {

/// Adds the files of --policy to PRIVGRAD_POLICY.
void add_policies(const Arguments& arguments) {
  for (const std::string& file : arguments.texts("policy")) {
    if (file.empty() || file.find(':') != file.npos)
      throw UsageError("--policy is '" + file + "', expected the path of a file without ':'");
    const char* before = std::getenv("PRIVGRAD_POLICY");
    const std::string all = std::string(before != nullptr ? before : "") + ":" +
                            std::filesystem::absolute(file).string();
    ::setenv("PRIVGRAD_POLICY", all.c_str(), 1);
  }
}

host::PluginHost find_plugins(const Arguments& arguments, host::SearchRequest request) {
  add_policies(arguments);
  host::limit_blas_threads();
  host::choose_blas_kernels();
  for (const std::string& directory : arguments.texts("plugin-dir"))
    request.plugin_dirs.emplace_back(directory);
  request.on_loaded = name_code_of;
  return host::find_plugins(request);
}

/// The catalog of this process, and how many of its refusals have been reported.
std::optional<std::pair<Catalog, std::size_t>> warned;

}  // namespace

void warn_of_refused() {
  if (!warned) return;
  auto& [catalog, count] = *warned;
  const std::vector<Catalog::Refusal> refused = catalog.refused();
  for (; count < refused.size(); ++count) {
    const auto& [file, why] = refused[count];
    // With a lock file, the user expects that all other plugins are left out.
    if (why.starts_with("not in the lock file")) continue;
    std::string text = file + ": not loaded: ";
    complain("warning", text.append(why));
  }
}

host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock) {
  host::PluginHost host = find_plugins(arguments, {.lock = lock});
  warned.emplace(host.catalog(), 0);
  warn_of_refused();
  return host;
}

host::PluginHost load_every_plugin(const Arguments& arguments, const host::RefusedFiles& refused) {
  host::PluginHost host = find_plugins(arguments, {.refused = refused});
  host.load_offered();
  warned.emplace(host.catalog(), 0);
  warn_of_refused();
  return host;
}

}  // namespace privgrad::tool
