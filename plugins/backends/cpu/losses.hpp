// The losses of a network: the loss of one example, whether it is classified correctly, and the
// derivative.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "privgrad/network.hpp"

namespace privgrad::cpu {

/// The loss of one example and whether the outputs name its class.
struct Judgement {
  double loss = std::numeric_limits<double>::quiet_NaN();
  bool correct = false;
};

/// Computes one example's loss and correctness. In double, without overflow for finite outputs.
/// \param outputs  [output_count(network)].
/// \param target  as in a Batch. A value that is not a class index gives NaN: such an example can
///   only come from corrupted memory, and must not stop the others.
/// \returns correct if the largest output is at the target's class; ties count for the lowest
///   class, and non-finite losses and real targets are never correct.
Judgement judge(const Network& network, std::span<const float> outputs, float target);

/// The derivative of the loss with respect to the outputs.
/// \param gradient  out: like outputs.
void loss_gradient(const Network& network, std::span<const float> outputs, float target,
                   std::span<float> gradient);

}  // namespace privgrad::cpu
