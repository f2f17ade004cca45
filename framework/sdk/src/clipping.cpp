#include "privgrad/clipping.hpp"

#include "privgrad/dataset.hpp"

namespace privgrad {

std::vector<ParameterGroup> parameter_groups(const Network& network) {
  std::vector<ParameterGroup> groups;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    // "layers.0.weight" belongs to "layers.0".
    const std::size_t end = block.name.find('.', std::string_view("layers.").size());
    const std::string layer = block.name.substr(0, end);
    if (groups.empty() || groups.back().name != layer) groups.push_back({layer, block.offset, 0});
    groups.back().size += element_count(block.shape);
  }
  return groups;
}

}  // namespace privgrad
