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

host::PluginHost load_plugins(const Arguments& arguments, const std::optional<host::LockFile>& lock,
                              const host::RefusedFiles& refused) {
  host::limit_blas_threads();
  host::choose_blas_kernels();
  host::SearchRequest request;
  for (const std::string& directory : arguments.texts("plugin-dir")) {
    request.plugin_dirs.emplace_back(directory);
  }
  request.lock = lock;
  request.refused = refused;
  host::PluginHost host = host::load_all(request);
  for (const auto& plugin : host.plugins()) name_code_of(*plugin);
  for (const Catalog::Refusal& refusal : host.catalog().refused()) {
    // With a lock file it is no news that all other plugins are left out.
    if (lock && refusal.why.starts_with("not in the lock file")) continue;
    complain("warning", refusal.file + ": not loaded: " + refusal.why);
  }
  return host;
}

}  // namespace privgrad::tool
