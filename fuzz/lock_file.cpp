// privgrad.lock, which `run --locked` reads from the source of the manifest.
#include "privgrad/host/lock_file.hpp"

#include "harness/fuzz.hpp"

void read_input(std::string_view input) {
  using namespace privgrad;
  const host::LockFile lock = host::read_lock_file(fuzz::scratch_file("privgrad.lock", input));
  std::vector<PluginIdentity> plugins;
  for (const host::LockedPlugin& plugin : lock.plugins) {
    plugins.push_back(
        {plugin.name, plugin.version, plugin.sha256, plugin.abi, "/plugins/" + plugin.file});
  }
  const auto written = fuzz::scratch_file("written.lock", host::lock_file_text(plugins));
  fuzz::require(host::read_lock_file(written).plugins.size() == plugins.size(),
                "what is written of a lock file reads back with the same plugins");
}
