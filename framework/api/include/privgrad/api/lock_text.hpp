// The text of a lock file that pins the plugins of several manifests, such as those of a study.
#pragma once

#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::api {

std::string lock_text(const std::vector<const core::Manifest*>& manifests);

}  // namespace privgrad::api
