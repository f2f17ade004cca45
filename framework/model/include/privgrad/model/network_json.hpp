// Networks as JSON: written to saved models, and read from files of unknown origin.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "privgrad/network.hpp"

namespace privgrad::core {

/// Returns a network as a saved model describes it: {"input", "classes", "loss", "layers"} and
/// possibly "class_weights". Each layer is an object with its kind as "layer", its members under
/// their names in network.hpp, and what the node has of "from", "name", "frozen" and "shares".
nlohmann::json to_json(const Network& network);

/// \returns the format of model files that can describe the network: "1" for an unnamed chain
///   without class weights whose layers and loss format 1 knows; otherwise "2".
std::string_view model_format_of(const Network& network);

/// The inverse of to_json(), for networks without frozen nodes. Also reads format 1, in which the
/// layer "shortcut" ends residual blocks (chain.hpp).
/// \param json  not trusted.
/// \throws ConfigError for invalid JSON; also for a network that check_network() refuses, or that
///   has more than 2^26 numbers in an example or in a layer's outputs, more than 2^28 in all of
///   these together, or more than 2^32 parameters.
Network network_from_json(const nlohmann::json& json);

}  // namespace privgrad::core
