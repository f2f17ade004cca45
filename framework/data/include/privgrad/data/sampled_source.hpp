// A data source of which some training rows are used: those that a public seed draws.
#pragma once

#include <cstdint>
#include <optional>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"

namespace privgrad::core {

/// Draws `rows` of the training rows uniformly without replacement; they keep their order. Test rows
/// stay as they are.
///
/// Privacy: which places are drawn depends on the seed and on the number of training rows, and on
/// nothing that a row holds. Where that number is public, one example decides about no other one's
/// place. Under add_or_remove_one it is not: there the plan lists the draw as unaccounted.
/// \param seed  nothing: only info() is asked for; read() throws.
/// \throws (info) ConfigError if there are fewer rows.
ComponentPtr<DataSource> sampled(ComponentPtr<DataSource> source, std::uint64_t rows,
                                 std::optional<std::uint64_t> seed);

}  // namespace privgrad::core
