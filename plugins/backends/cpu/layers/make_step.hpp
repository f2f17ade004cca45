// Makes the steps of the layers that the processor executes.
#pragma once

#include <memory>
#include <vector>

#include "layers/step.hpp"
#include "privgrad/network.hpp"

namespace privgrad::cpu {

/// The shapes of a layer's values.
struct Place {
  std::vector<Shape> entering;  ///< Shapes of the inputs.
  Shape out;
  const Shape& in() const { return entering.front(); }
};

/// Makes the step of one kind of layer. Defined in the file with the layer's name (kind.hpp).
template <class Kind>
std::unique_ptr<Step> step_of_kind(const Kind& layer, const Place& place);

std::unique_ptr<Step> make_step(const Layer& layer, const Place& place);

}  // namespace privgrad::cpu
