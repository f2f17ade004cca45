// The option --set, which every command that takes a manifest has.
#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// Returns --set KEY=VALUE, which overrides a key of the manifest.
Option set_option();

}  // namespace privgrad::tool
