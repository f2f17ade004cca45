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

host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock) {
  // OpenBLAS reads this when a plugin brings it in. Threads are the executor's business: a product
  // that OpenBLAS splits differs in its last bits from one that it does not, and starting its
  // threads takes longer than everything else here.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  host::SearchRequest request;
  for (const std::string& directory : arguments.texts("plugin-dir")) {
    request.plugin_dirs.emplace_back(directory);
  }
  request.lock = lock;
  host::PluginHost host = host::load_all(request);
  for (const Catalog::Refusal& refusal : host.catalog().refused()) {
    complain("warning", refusal.file + ": not loaded: " + refusal.why);
  }
  return host;
}

}  // namespace privgrad::tool
