// Shows on standard error how data.streaming reads and stores its rows.
#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// Shows on standard error how far data.streaming has read the rows, and where it stores them. With
/// --cache they stay in the cache, like features; without it they are deleted when the process
/// ends.
/// \param arguments  the arguments of a call that may have --cache and --quiet.
void show_streaming(core::Manifest& manifest, const Arguments& arguments);

}  // namespace privgrad::tool
