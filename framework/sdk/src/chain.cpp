#include "privgrad/chain.hpp"

#include <string>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

/// Appends nodes, and keeps the shape of each value.
class Nodes {
 public:
  explicit Nodes(const ExampleShape& input) : shapes_{input.features} {}

  std::size_t last() const { return nodes_.size(); }  ///< The last value.
  const Shape& shape(std::size_t value) const { return shapes_[value]; }

  /// \param link  the number of the link that the node belongs to.
  void add(Layer layer, std::vector<std::size_t> from, std::size_t link) {
    std::vector<Shape> in;
    for (const std::size_t value : from) in.push_back(shapes_[value]);
    try {
      shapes_.push_back(output_shape(layer, in));
    } catch (const ConfigError& problem) {
      throw ConfigError("layer " + std::to_string(link) + ", " + problem.what());
    }
    Node node(std::move(layer));
    if (from.size() > 1 || from.front() != last()) node.from = std::move(from);
    if (link != last() && !std::holds_alternative<Add>(node.layer))
      node.name = "layers." + std::to_string(link);
    nodes_.push_back(std::move(node));
  }

  std::vector<Node> take() && { return std::move(nodes_); }

 private:
  std::vector<Node> nodes_;
  std::vector<Shape> shapes_;
};

}  // namespace

std::vector<Node> nodes_of(const ExampleShape& input, const std::vector<ChainLink>& chain) {
  Nodes nodes(input);
  std::vector<std::size_t> entering;  // the value that enters each link
  for (std::size_t i = 0; i < chain.size(); ++i) {
    entering.push_back(nodes.last());
    const auto* shortcut = std::get_if<Shortcut>(&chain[i]);
    if (shortcut == nullptr) {
      nodes.add(std::get<Layer>(chain[i]), {nodes.last()}, i);
      continue;
    }
    if (shortcut->over == 0 || shortcut->over > i) {
      throw ConfigError("layer " + std::to_string(i) + ", shortcut over " +
                        std::to_string(shortcut->over) +
                        ", reaches back over no layer, or over more than there are before it");
    }
    const std::size_t x = nodes.last();
    std::size_t earlier = entering[i - shortcut->over];
    if (shortcut->stride != 1 || nodes.shape(earlier) != nodes.shape(x)) {
      nodes.add(Conv2d{.channels = nodes.shape(x).back(), .kernel = 1, .stride = shortcut->stride},
                {earlier}, i);
      earlier = nodes.last();
    }
    nodes.add(Add{}, {x, earlier}, i);
  }
  return std::move(nodes).take();
}

}  // namespace privgrad
