#include "privgrad/host/claimed_names.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include "privgrad/digest/trusted_path.hpp"
#include "privgrad/error.hpp"

namespace privgrad::host {

namespace fs = std::filesystem;

fs::path claims_file(const fs::path& folder) { return folder / "names"; }

std::vector<ClaimedName> read_claims(const fs::path& folder) {
  std::vector<ClaimedName> claims;
  try {
    std::ifstream file(core::resolve_trusted(claims_file(folder)));
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

std::string claims_text(const std::vector<ClaimedName>& claims) {
  std::string text;
  for (const ClaimedName& claim : claims)
    text += claim.component.kind + "/" + claim.component.name + " " + claim.plugin + "\n";
  return text;
}

}  // namespace privgrad::host
