// Networks of sequences, and the rules of empty places and of places that come later.
#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/network.hpp"
#include "rules.hpp"

namespace privgrad::testing {

/// \returns a network whose frozen parameters, if any, are drawn.
Network network_of(Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss);

/// A block of attention and one of dense layers, as in an encoder, of sequences of this length: the
/// mean over the places with tokens is what is classified.
Network encoder_of(std::size_t length);

/// The same with rotations, fewer key heads, gates and norms of the mean square, where places see
/// only earlier ones: the last place with a token is classified.
Network decoder_of(std::size_t length);

/// The rules of sequences, unless `make` refuses their networks.
void check_sequences(Checker& checker, const ProgramMaker& make);

}  // namespace privgrad::testing
