// Translates the declared columns of a table into ONNX operations.
#pragma once

#include <string>
#include <vector>

#include "../../../plugins/data_sources/table/columns.hpp"
#include "onnx_graph.hpp"
#include "privgrad/model/model_file.hpp"

namespace privgrad::tool {

/// \returns the columns from which the model's features are read; none if its examples are arrays.
/// \throws IoError if the columns do not yield the model's features.
std::vector<Column> saved_columns(const core::ModelFile& file);

/// Adds an input [n, 1] for each column (float64 for numbers, NaN if missing; text for everything
/// else) and the operations that turn the inputs into features as the data source does.
/// \param refused  receives the names of boolean values [n, 1], which mark the rows with undeclared
///   categories. In other rows that `privgrad predict` would refuse, features are NaN.
/// \returns the value of the features, float32, [n, features].
/// \throws ConfigError if a column's name cannot be the name of an input, or if a column has dates
///   with a time of day.
std::string add_columns(OnnxGraph& graph, const std::vector<Column>& columns,
                        std::vector<std::string>& refused);

}  // namespace privgrad::tool
