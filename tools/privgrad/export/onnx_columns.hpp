// Translates the declared columns of a table into ONNX operations.
#pragma once

#include <string>
#include <vector>

#include "../../../plugins/data_sources/table/columns.hpp"
#include "onnx_graph.hpp"
#include "privgrad/model/model_file.hpp"

namespace privgrad::tool {

/// \returns the columns that a model's rows are read from; none where its examples are arrays.
/// \throws IoError  they do not make the model's features.
std::vector<Column> saved_columns(const core::ModelFile& file);

/// Adds an input for each column, [n, 1]: float64 of a number, NaN where it is missing, and a text
/// of all else; and what a data source makes of them.
/// \param refused  receives the names of boolean values, [n, 1]: rows that end a call of predict.
/// \returns the value of the features, float32, [n, features].
/// \throws ConfigError  a column has a name that no input can have, or dates with a time of day.
std::string add_columns(OnnxGraph& graph, const std::vector<Column>& columns,
                        std::vector<std::string>& refused);

}  // namespace privgrad::tool
