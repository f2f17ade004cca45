// Networks for sequences, and the rules that empty places and later places have no effect.
#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/network.hpp"
#include "rules.hpp"

namespace privgrad::testing {

/// \returns a network; frozen parameters are drawn at random.
Network network_of(Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss);

/// An encoder for sequences of this length: a block of attention and a block of dense layers.
/// It classifies the mean over the places with tokens.
Network encoder_of(std::size_t length);

/// Like encoder_of(), but with rotary positions, fewer key heads, gates and RMS norms, and each
/// place sees only itself and earlier places. It classifies the last place with a token.
Network decoder_of(std::size_t length);

/// Like decoder_of(), but each place predicts the next token.
Network speaker_of(std::size_t length);

/// Checks the rules of sequences, unless `make` refuses networks for sequences.
void check_sequences(Checker& checker, const ProgramMaker& make);

}  // namespace privgrad::testing
