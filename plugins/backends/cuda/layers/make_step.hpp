// The table of the layers that a device executes.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "layers/step.hpp"
#include "privgrad/network.hpp"

namespace privgrad::cuda {

/// The shapes of a layer's values.
struct Place {
  std::vector<Shape> entering;  ///< Of its inputs.
  Shape out;
  const Shape& in() const { return entering.front(); }
};

// A function for each kind of Layer, defined in the file with the layer's name.
std::unique_ptr<Step> step_of(const Activation& layer, const Place& place);
std::unique_ptr<Step> step_of(const Conv2d& layer, const Place& place);
std::unique_ptr<Step> step_of(const Dense& layer, const Place& place);
std::unique_ptr<Step> step_of(const Embedding& layer, const Place& place);
std::unique_ptr<Step> step_of(const Flatten& layer, const Place& place);
std::unique_ptr<Step> step_of(const GroupNorm& layer, const Place& place);
std::unique_ptr<Step> step_of(const LayerNorm& layer, const Place& place);
std::unique_ptr<Step> step_of(const Pool& layer, const Place& place);
std::unique_ptr<Step> step_of(const Add& layer, const Place& place);
std::unique_ptr<Step> step_of(const ElementwiseProduct& layer, const Place& place);
std::unique_ptr<Step> step_of(const RmsNorm& layer, const Place& place);
std::unique_ptr<Step> step_of(const Scale& layer, const Place& place);
std::unique_ptr<Step> step_of(const PartOf& layer, const Place& place);
std::unique_ptr<Step> step_of(const Reshape& layer, const Place& place);
std::unique_ptr<Step> step_of(const TokenMask& layer, const Place& place);
std::unique_ptr<Step> step_of(const Positions& layer, const Place& place);
std::unique_ptr<Step> step_of(const Prepend& layer, const Place& place);
std::unique_ptr<Step> step_of(const Attention& layer, const Place& place);
std::unique_ptr<Step> step_of(const MeanOfPlaces& layer, const Place& place);
std::unique_ptr<Step> step_of(const PickPlace& layer, const Place& place);

inline std::unique_ptr<Step> make_step(const Layer& layer, const Place& place) {
  return std::visit([&](const auto& one) { return step_of(one, place); }, layer);
}

}  // namespace privgrad::cuda
