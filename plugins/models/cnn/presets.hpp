#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/network.hpp"

namespace privgrad::cnn {

/// The networks that papers compare on, by name.
std::vector<std::string> preset_names();

/// \param activation  instead of the preset's own.
/// \returns its layers without the output layer.
std::vector<Layer> preset(std::string_view name, std::optional<ActivationKind> activation);

}  // namespace privgrad::cnn
