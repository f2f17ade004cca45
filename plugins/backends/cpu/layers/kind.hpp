// The template through which the file of each kind of layer makes the steps of that kind.
#pragma once

#include "layers/make_step.hpp"

namespace privgrad::cpu {

/// For each of its kinds, a file defines a function step_of(const Kind&, const Place&), followed by
/// the line `template std::unique_ptr<Step> step_of_kind(const Kind&, const Place&);`.
template <class Kind>
std::unique_ptr<Step> step_of_kind(const Kind& layer, const Place& place) {
  return step_of(layer, place);
}

}  // namespace privgrad::cpu
