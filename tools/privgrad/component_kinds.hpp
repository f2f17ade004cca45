// The list of component kinds, for commands that take or list one.
#pragma once

#include <array>
#include <string_view>

namespace privgrad::tool {

/// The kinds of component that a plugin can bring, as plugins list calls them.
inline constexpr std::array<std::string_view, 11> kComponentKinds{
    "accountant", "aggregator", "backend", "clipping", "cluster",  "data_source",
    "model",      "optimizer",  "sampler", "schedule", "transform"};

}  // namespace privgrad::tool
