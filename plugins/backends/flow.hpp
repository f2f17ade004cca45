// How values flow through a network: the common basis of the backends' plans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "privgrad/network.hpp"

namespace privgrad {

/// The values that nodes use and make, and the values with respect to which derivatives are needed.
///
/// The derivatives of a value that several nodes use are added in descending order of its users.
/// This order follows from the network alone, so bits do not depend on threads.
struct Flow {
  explicit Flow(const Network& network)
      : trains(network.nodes.size(), false),
        needs_derivative(network.nodes.size() + 1, false),
        users(network.nodes.size() + 1, 0),
        last_user(network.nodes.size() + 1, 0) {
    for (const ParameterBlock& block : parameter_blocks(network)) trains[block.node] = true;
    for (std::size_t s = 0; s < network.nodes.size(); ++s) {
      inputs.push_back(inputs_of(network, s));
      const std::size_t owner = owner_of(network, s);
      last_sharer.push_back(s);
      last_sharer[owner] = s;
      is_trained.push_back(trains[owner]);
      needs_derivative[s + 1] = is_trained[s];
      for (const std::size_t value : inputs[s]) {
        if (needs_derivative[value]) needs_derivative[s + 1] = true;
        ++users[value];
        last_user[value] = s;
      }
    }
  }

  /// Whether input i of node s is the first use, in the backward pass, that adds to the derivatives
  /// of the input's value.
  bool hands_down_first(std::size_t s, std::size_t i) const {
    const auto& values = inputs[s];
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(i);
    return last_user[values[i]] == s && std::find(values.begin(), end, values[i]) == end;
  }

  /// Whether node s passes derivatives to any of its inputs.
  bool hands_down(std::size_t s) const {
    return std::any_of(inputs[s].begin(), inputs[s].end(),
                       [&](std::size_t value) { return bool(needs_derivative[value]); });
  }

  std::vector<std::vector<std::size_t>> inputs;  ///< The input values of each node.
  std::vector<bool> trains;                      ///< Whether each node has trained parameters.
  /// Whether each node uses trained parameters, either its own or shared ones.
  std::vector<bool> is_trained;
  std::vector<std::size_t> last_sharer;  ///< The last node that uses each node's own parameters.
  /// Whether the maker of each value, or a node before it, uses trained parameters.
  std::vector<bool> needs_derivative;
  std::vector<std::size_t> users;      ///< The number of uses of each value.
  std::vector<std::size_t> last_user;  ///< The last node that uses each value.
};

}  // namespace privgrad
