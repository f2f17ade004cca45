#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// Shows on standard error what becomes of data.streaming: how far the reading of rows is, and where
/// they are kept. With --cache they are kept, as features are; without it they are gone with the process.
/// \param arguments  of a call that may have --cache and --quiet.
void show_streaming(core::Manifest& manifest, const Arguments& arguments);

}  // namespace privgrad::tool
