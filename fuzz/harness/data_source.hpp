// Reads all rows of a data source, for the fuzz targets of data sources.
#pragma once

#include <string_view>

#include "privgrad/value.hpp"

namespace fuzz {

/// Makes the data source as a run does, and reads all rows: they must agree with info().
void read_all(std::string_view kind, const privgrad::Value& params);

}  // namespace fuzz
