// Opens the data source of a manifest, with its rows in memory or, if streamed, in a mapped file.
#pragma once

#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// \param streaming  the section data.streaming, if given.
/// \returns with streaming, a source whose rows are in a memory-mapped file, found or made when
///   rows, or facts about rows, are first requested; otherwise the source itself, with rows in
///   memory.
/// \throws ConfigError if the source cannot stream; errors of the source.
ComponentPtr<DataSource> open_source(const ComponentUse& use,
                                     const std::optional<Streaming>& streaming);

}  // namespace privgrad::core
