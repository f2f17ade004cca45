// The state of a component in checkpoints, by the list that it gives.
#pragma once

#include <optional>

#include "privgrad/component_state.hpp"
#include "privgrad/trust/slice.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Writes the state of a component, by its list.
/// \param slice  the elements of its vectors that it has, where processes share a component; nothing:
///   all.
void save_component(StateWriter& out, Stateful& component, const std::optional<Slice>& slice = {});
/// The way back. Vectors that start() has made keep their length.
/// \throws IoError if the state is another component's.
void restore_component(StateReader& in, Stateful& component,
                       const std::optional<Slice>& slice = {});

}  // namespace privgrad::core
