// Opens the data source of a manifest, with its rows in memory or, if streamed, in a mapped file.
#pragma once

#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// \param streaming  the section data.streaming; nothing: the source itself is returned, whose rows
///   are in memory.
/// \returns with streaming, a source whose rows lie in a file that is mapped into memory. The file
///   is found, or made when rows or facts about them are first asked for.
/// \throws ConfigError if the source cannot stream; as the source.
ComponentPtr<DataSource> open_source(const ComponentUse& use,
                                     const std::optional<Streaming>& streaming);

}  // namespace privgrad::core
