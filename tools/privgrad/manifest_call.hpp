#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// --set, for every subcommand that takes a manifest.
Option set_option();

}  // namespace privgrad::tool
