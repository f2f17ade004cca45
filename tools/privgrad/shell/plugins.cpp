#include "plugins.hpp"

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

namespace {

host::PluginHost find_plugins(const Arguments& arguments, host::SearchRequest request) {
  host::limit_blas_threads();
  host::choose_blas_kernels();
  for (const std::string& directory : arguments.texts("plugin-dir"))
    request.plugin_dirs.emplace_back(directory);
  request.on_loaded = name_code_of;
  return host::find_plugins(request);
}

void warn_of_refused(const host::PluginHost& host, bool has_lock) {
  for (const Catalog::Refusal& refusal : host.catalog().refused()) {
    // With a lock file, the user expects that all other plugins are left out.
    if (has_lock && refusal.why.starts_with("not in the lock file")) continue;
    complain("warning", refusal.file + ": not loaded: " + refusal.why);
  }
}

}  // namespace

host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock) {
  host::PluginHost host = find_plugins(arguments, {.lock = lock});
  warn_of_refused(host, lock.has_value());
  return host;
}

host::PluginHost load_every_plugin(const Arguments& arguments, const host::RefusedFiles& refused) {
  host::PluginHost host = find_plugins(arguments, {.refused = refused});
  host.load_offered();
  warn_of_refused(host, false);
  return host;
}

}  // namespace privgrad::tool
