// Makes a data source from a part of another source's training rows, drawn with a public seed.
#pragma once

#include <cstdint>
#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"

namespace privgrad::core {

/// Draws `rows` training rows uniformly, without replacement; the rows keep their order. Test
/// rows are not changed.
///
/// Privacy: the draw depends only on the seed and on the number of training rows, not on their
/// content. If that number is public, an example does not affect which other examples are drawn.
/// Under add_or_remove_one the number is not public, so the plan lists the draw as unaccounted.
/// \param seed  if absent, read(Split::train) throws ConfigError.
/// \returns the source; its info() throws ConfigError if there are fewer than `rows` training rows.
ComponentPtr<DataSource> sampled(ComponentPtr<DataSource> source, std::uint64_t rows,
                                 std::optional<std::uint64_t> seed);

}  // namespace privgrad::core
