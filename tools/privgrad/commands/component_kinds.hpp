// The list of component kinds, for the command that takes one and for its completion.
#pragma once

#include <array>
#include <string_view>

namespace privgrad::tool {

/// The kinds of component that `plugins new` makes: those of `plugins list` but cluster, whose plugins
/// bring processes and have no small example.
inline constexpr std::array<std::string_view, 10> kComponentKinds{
    "accountant", "aggregator", "backend", "clipping", "data_source",
    "model",      "optimizer",  "sampler", "schedule", "transform"};

}  // namespace privgrad::tool
