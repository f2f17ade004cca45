#include "privgrad/clipping.hpp"

#include "privgrad/dataset.hpp"

namespace privgrad {

std::vector<ParameterGroup> parameter_groups(const Network& network) {
  std::vector<ParameterGroup> groups;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const std::string node = name_of(network, block.node);
    if (groups.empty() || groups.back().name != node) groups.push_back({node, block.offset, 0});
    groups.back().size += element_count(block.shape);
  }
  return groups;
}

}  // namespace privgrad
