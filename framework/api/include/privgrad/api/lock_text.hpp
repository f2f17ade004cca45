// The text of a lock file that pins the plugins of several manifests, such as those of a study.
#pragma once

#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::api {

/// Returns the lock file of the plugins that the manifests use.
std::string lock_text(const std::vector<const core::Manifest*>& manifests);

}  // namespace privgrad::api
