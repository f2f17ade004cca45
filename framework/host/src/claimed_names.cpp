#include "privgrad/host/claimed_names.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "privgrad/error.hpp"
#include "trust.hpp"

namespace privgrad::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "names";

}  // namespace

std::vector<ClaimedName> read_claims(const fs::path& folder) {
  std::vector<ClaimedName> claims;
  try {
    std::ifstream file(resolve_trusted(folder / kFile));
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string id, plugin;
      words >> id >> plugin;
      const std::size_t slash = id.find('/');
      if (slash != id.npos && !plugin.empty())
        claims.push_back({{id.substr(0, slash), id.substr(slash + 1)}, plugin});
    }
  } catch (const PluginError&) {
    return {};
  }
  return claims;
}

void write_claims(const fs::path& folder, const std::vector<ClaimedName>& claims) {
  if (claims.empty()) {
    fs::remove(folder / kFile);
    return;
  }
  const fs::path draft = folder / (std::string(kFile) + ".new");
  std::ofstream file(draft);
  for (const ClaimedName& claim : claims) {
    file << claim.component.kind << '/' << claim.component.name << ' ' << claim.plugin << '\n';
  }
  file.close();
  std::error_code failure;
  if (file) fs::rename(draft, folder / kFile, failure);
  if (!file || failure) throw IoError((folder / kFile).string() + ": cannot be written");
}

}  // namespace privgrad::host
