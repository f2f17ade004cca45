// Which installed plugin has a component's bare name, where several could.
#pragma once

#include <filesystem>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::host {

/// A bare name, and the plugin that had it first.
struct ClaimedName {
  OfferedComponent component;
  std::string plugin;
};

/// The claims that `privgrad plugins install` has written down in a folder of plugins: a line
/// "KIND/NAME PLUGIN" each. What is installed later under a name that is taken is found by its full
/// name alone, so that manifests keep their meaning.
/// \returns none if there is no such file, or if others may write it.
std::vector<ClaimedName> read_claims(const std::filesystem::path& folder);

/// Replaces them, in one step; none: there is no file then.
/// \throws IoError
void write_claims(const std::filesystem::path& folder, const std::vector<ClaimedName>& claims);

}  // namespace privgrad::host
