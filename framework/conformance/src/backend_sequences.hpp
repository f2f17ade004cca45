// Networks of sequences, and the rules that empty places, and later places, change nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/network.hpp"
#include "rules.hpp"

namespace privgrad::testing {

/// \returns a network whose frozen parameters, if any, are drawn.
Network network_of(Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss);

/// A block of attention and one of dense layers, as in an encoder, for sequences of this length.
/// Classifies the mean over the places with tokens.
Network encoder_of(std::size_t length);

/// Like encoder_of(), with rotary positions, fewer key heads, gates and RMS norms, where places see
/// only earlier places. Classifies the last place with a token.
Network decoder_of(std::size_t length);

/// Like decoder_of(), but each place predicts the next token.
Network speaker_of(std::size_t length);

/// The rules of sequences, unless `make` refuses their networks.
void check_sequences(Checker& checker, const ProgramMaker& make);

}  // namespace privgrad::testing
