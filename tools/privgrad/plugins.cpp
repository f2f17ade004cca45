#include "plugins.hpp"

#include <cstdlib>

#include "output.hpp"
#include "privgrad/host/search_path.hpp"

namespace privgrad::tool {

Option plugin_dir_option() {
  return {.name = "plugin-dir",
          .value = "DIR",
          .doc = "Look for plugins here first.",
          .repeatable = true};
}

void limit_blas_threads() { ::setenv("OPENBLAS_NUM_THREADS", "1", 1); }

host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock) {
  limit_blas_threads();
  host::SearchRequest request;
  for (const std::string& directory : arguments.texts("plugin-dir")) {
    request.plugin_dirs.emplace_back(directory);
  }
  request.lock = lock;
  host::PluginHost host = host::load_all(request);
  for (const Catalog::Refusal& refusal : host.catalog().refused()) {
    // Who asked for the plugins of a lock file knows that the others are left out.
    if (lock && refusal.why.starts_with("not in the lock file")) continue;
    complain("warning", refusal.file + ": not loaded: " + refusal.why);
  }
  return host;
}

}  // namespace privgrad::tool
