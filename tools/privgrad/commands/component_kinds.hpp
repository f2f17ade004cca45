// The list of component kinds, shared by the command that takes a kind and its completion.
#pragma once

#include <array>
#include <string_view>

namespace privgrad::tool {

/// The kinds of component that `plugins new` makes: all kinds of `plugins list` except cluster,
/// because a cluster plugin starts processes and has no small example.
inline constexpr std::array<std::string_view, 10> kComponentKinds{
    "accountant", "aggregator", "backend", "clipping", "data_source",
    "model",      "optimizer",  "sampler", "schedule", "transform"};

}  // namespace privgrad::tool
