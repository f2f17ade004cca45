#include "plugin_signature.hpp"

#include <array>
#include <utility>

#include "privgrad/host/sha256.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

std::array<std::pair<std::string, std::string>, 1> seal_of(const fs::path& plugin) {
  return {std::pair<std::string, std::string>("sha256", host::sha256_of_file(plugin))};
}

}  // namespace

fs::path signature_of(const fs::path& plugin) { return plugin.string() + ".sig"; }

std::string sign_plugin(const fs::path& plugin, const fs::path& key) {
  return core::sign(core::Signed::plugin_file, seal_of(plugin), key);
}

std::optional<std::string> plugin_signer(const fs::path& content, const fs::path& signature) {
  constexpr std::size_t kMostBytes = 4096;
  return core::signer_of(core::Signed::plugin_file, seal_of(content),
                         core::read_whole(signature, kMostBytes));
}

}  // namespace privgrad::tool
