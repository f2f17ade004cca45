#pragma once

#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// \param streaming  what the section says of it; nothing: the source itself, whose rows are in memory.
/// \returns else one whose rows lie in a file that is mapped into memory: it is found, or made when
///   rows or what is known of them are first asked for.
/// \throws ConfigError if the source cannot stream; as the source.
ComponentPtr<DataSource> open_source(const ComponentUse& use,
                                     const std::optional<Streaming>& streaming);

}  // namespace privgrad::core
