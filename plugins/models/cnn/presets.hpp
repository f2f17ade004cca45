// Convolutional networks that papers use for comparisons, as lists of layers by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/chain.hpp"

namespace privgrad::cnn {

std::vector<std::string> preset_names();

/// \param activation  the activation to use instead of the preset's own.
/// \returns the preset's layers without the output layer.
std::vector<ChainLink> preset(std::string_view name, std::optional<ActivationKind> activation);

}  // namespace privgrad::cnn
