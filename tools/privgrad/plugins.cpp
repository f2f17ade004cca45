#include "plugins.hpp"

#include <cstdlib>

#include "last_words.hpp"
#include "output.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/instruction_set.hpp"

namespace privgrad::tool {

Option plugin_dir_option() {
  return {.name = "plugin-dir",
          .value = "DIR",
          .doc = "Look for plugins here first.",
          .repeatable = true};
}

void limit_blas_threads() { ::setenv("OPENBLAS_NUM_THREADS", "1", 1); }

void choose_blas_kernels() {
#if defined(__x86_64__)
  if (std::getenv("PRIVGRAD_INSTRUCTIONS") == nullptr) return;
  const char* kernels = "Prescott";  // the least that OpenBLAS has for x86-64
  if (instruction_set() >= InstructionSet::avx2) kernels = "Haswell";
  if (instruction_set() >= InstructionSet::avx512) kernels = "SkylakeX";
  ::setenv("OPENBLAS_CORETYPE", kernels, 1);
#endif
}

host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock) {
  limit_blas_threads();
  choose_blas_kernels();
  host::SearchRequest request;
  for (const std::string& directory : arguments.texts("plugin-dir")) {
    request.plugin_dirs.emplace_back(directory);
  }
  request.lock = lock;
  host::PluginHost host = host::load_all(request);
  for (const auto& plugin : host.plugins()) name_code_of(*plugin);
  for (const Catalog::Refusal& refusal : host.catalog().refused()) {
    // Who asked for the plugins of a lock file knows that the others are left out.
    if (lock && refusal.why.starts_with("not in the lock file")) continue;
    complain("warning", refusal.file + ": not loaded: " + refusal.why);
  }
  return host;
}

}  // namespace privgrad::tool
