// Networks written as chains of layers with shortcuts, as residual networks are.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "privgrad/export.hpp"
#include "privgrad/network.hpp"

namespace privgrad {

/// y = x + P(e), where e is the input of the link `over` links before this one: the end of a
/// residual block of that many layers. He, Zhang, Ren and Sun 2016.
///
/// P(e) is e if both have the same shape and stride is 1. Otherwise it is a Conv2d with kernel 1,
/// this stride and as many channels as x; both must then be images with extents that fit.
struct Shortcut {
  std::size_t over = 0;  ///< At least 1, and at most the number of links before this one.
  std::size_t stride = 1;
};

using ChainLink = std::variant<Layer, Shortcut>;

/// \returns the nodes of a chain: each layer becomes a node, and each shortcut an Add, after a
///   Conv2d if it projects. The parameters of link number N are named "layers.N".
/// \throws ConfigError that names the first link that cannot process its input.
PRIVGRAD_API std::vector<Node> nodes_of(const ExampleShape& input,
                                        const std::vector<ChainLink>& chain);

}  // namespace privgrad
