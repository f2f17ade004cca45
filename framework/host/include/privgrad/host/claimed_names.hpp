// Records which installed plugin owns a component's bare name if several plugins offer that name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::host {

/// A bare name, and the plugin that offered it first.
struct ClaimedName {
  OfferedComponent component;
  std::string plugin;
};

/// The claims that `privgrad plugins install` has recorded in a folder of plugins, one line
/// "KIND/NAME PLUGIN" each. A component installed later under a taken name is found only by its
/// full name, so manifests keep their meaning.
/// \returns the claims; none if there is no such file, or if other users may write it.
std::vector<ClaimedName> read_claims(const std::filesystem::path& folder);

/// Returns the file in which the claims are recorded.
std::filesystem::path claims_file(const std::filesystem::path& folder);

/// \returns the content of claims_file() for these claims.
std::string claims_text(const std::vector<ClaimedName>& claims);

}  // namespace privgrad::host
