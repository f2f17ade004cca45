// Saves the state of a component in checkpoints, by the list that the component provides.
#pragma once

#include <optional>

#include "privgrad/component_state.hpp"
#include "privgrad/trust/slice.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Writes the state of a component, as its Stateful::state() lists it.
/// \param slice  the elements of the vectors in this process, if processes share a component; if
///   absent: all.
void save_component(StateWriter& out, Stateful& component, const std::optional<Slice>& slice = {});
/// Reads the state. Vectors that start() has made keep their length.
/// \throws IoError if the state belongs to another component.
void restore_component(StateReader& in, Stateful& component,
                       const std::optional<Slice>& slice = {});

}  // namespace privgrad::core
