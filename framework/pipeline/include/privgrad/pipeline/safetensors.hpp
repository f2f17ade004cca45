#pragma once

#include <map>
#include <span>
#include <string>

#include "privgrad/network.hpp"

namespace privgrad::core {

/// The parameters in the safetensors format: 8 bytes of header length, a JSON header, float32 data.
/// \param metadata  goes into the header's "__metadata__".
std::string to_safetensors(const Network& network, std::span<const float> parameters,
                           const std::map<std::string, std::string>& metadata);

}  // namespace privgrad::core
