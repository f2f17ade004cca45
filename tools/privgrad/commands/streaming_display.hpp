// Shows on standard error how data.streaming reads and keeps its rows.
#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// Shows on standard error how far data.streaming has read the rows, and where they are kept. With
/// --cache they are kept, as features are; without it they vanish with the process.
/// \param arguments  of a call that may have --cache and --quiet.
void show_streaming(core::Manifest& manifest, const Arguments& arguments);

}  // namespace privgrad::tool
