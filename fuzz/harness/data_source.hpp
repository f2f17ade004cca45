#pragma once

#include <string_view>

#include "privgrad/value.hpp"

namespace fuzz {

/// Makes the data source as a run does, and reads all of it: what it said in info() must be what it
/// reads.
void read_all(std::string_view kind, const privgrad::Value& params);

}  // namespace fuzz
