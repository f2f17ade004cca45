// Lists of layers in the manifest: chains, and graphs, in which layers name their inputs.
#pragma once

#include <string>
#include <vector>

#include "privgrad/chain.hpp"
#include "privgrad/params.hpp"

namespace privgrad::layer_list {

/// The kind of network that a list describes: a chain of layers, with shortcuts, or a graph of
/// named nodes that name their inputs.
enum class Form { chain = 1, graph };

/// Returns a parameter that is a list of objects, each with its kind and the keys of that kind.
/// \param name  the parameter's name, such as "layers".
ParamSpec parameter(Form form, const std::string& name, const std::string& doc);

/// \returns the layers of a chain as the manifest lists them.
/// \throws ConfigError naming the first layer that lacks a key, or has a key that its kind does not
///   have.
std::vector<ChainLink> chain_from(const std::vector<Params>& given);

/// \returns the nodes of a graph as the manifest lists them.
/// \throws ConfigError as chain_from() does; also for an input that no earlier node makes, or a
///   repeated name.
std::vector<Node> graph_from(const std::vector<Params>& given);

}  // namespace privgrad::layer_list
