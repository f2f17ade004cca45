// The table of the layers that the processor executes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <variant>

#include "layers/step.hpp"
#include "privgrad/network.hpp"

namespace privgrad::cpu {

/// The place of a layer in its network.
struct Place {
  std::span<const Shape> entering;  ///< The input shapes of the layers up to this one.
  const Shape& out;
  const Shape& in() const { return entering.back(); }
  /// The input shape of the layer `over` layers before this one.
  const Shape& earlier(std::size_t over) const { return entering[entering.size() - 1 - over]; }
};

// One for each kind of Layer, in the file of its name.
std::unique_ptr<Step> step_of(const Activation& layer, const Place& place);
std::unique_ptr<Step> step_of(const Conv2d& layer, const Place& place);
std::unique_ptr<Step> step_of(const Dense& layer, const Place& place);
std::unique_ptr<Step> step_of(const Embedding& layer, const Place& place);
std::unique_ptr<Step> step_of(const Flatten& layer, const Place& place);
std::unique_ptr<Step> step_of(const GroupNorm& layer, const Place& place);
std::unique_ptr<Step> step_of(const LayerNorm& layer, const Place& place);
std::unique_ptr<Step> step_of(const Pool& layer, const Place& place);
std::unique_ptr<Step> step_of(const Shortcut& layer, const Place& place);

inline std::unique_ptr<Step> make_step(const Layer& layer, const Place& place) {
  return std::visit([&](const auto& one) { return step_of(one, place); }, layer);
}

}  // namespace privgrad::cpu
