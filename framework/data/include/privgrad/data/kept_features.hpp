// Makes the keys under which features are stored, and replaces examples' features by stored
// features.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/data/feature_cache.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {

/// Returns the key of the code that computes features, and of its parameters. A component promises
/// outputs with the same bits on every processor. In case it breaks this promise, the key also
/// names the instruction set, and the C library, whose elementary functions it may use.
/// \param role  "backend", "transform".
nlohmann::json key_of_code(const std::string& role, const Component& component,
                           const Params& params);

/// \param about  everything that determines the outputs, except the examples.
/// \param what  "outputs of frozen layers", for notes.
/// \param row_size  numbers per example.
/// \param data  the input: its features are hashed as they are, whatever source and transforms made
///   them. Targets are not part of the key, because outputs do not depend on them.
FeatureKey key_of_features(nlohmann::json about, std::string what, std::size_t row_size,
                           const Dataset& data);

/// Replaces the features. An example whose outputs are not all finite becomes NaN and stays in its
/// place, because stopping would reveal something about one row.
/// \param shape  the shape of one example's output.
/// \param outputs  [rows, shape].
void replace_features(const Shape& shape, std::vector<float> outputs, Dataset& data);

}  // namespace privgrad::core
