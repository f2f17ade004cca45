#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// --set, for every subcommand that takes a manifest.
Option set_option();

/// The lock file of the plugins that the manifests use.
std::string lock_text(const std::vector<const core::Manifest*>& manifests);

}  // namespace privgrad::tool
