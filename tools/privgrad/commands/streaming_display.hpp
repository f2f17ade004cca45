// Shows on standard error the progress of data.streaming, and where it stores its rows.
#pragma once

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::tool {

/// Shows on standard error the share of rows that data.streaming has read, and the place where it
/// stores them. With --cache the rows stay in the cache, like features; without it they are deleted
/// when the process ends.
/// \param arguments  the arguments of a call that may have --cache and --quiet.
void show_streaming(core::Manifest& manifest, const Arguments& arguments);

}  // namespace privgrad::tool
