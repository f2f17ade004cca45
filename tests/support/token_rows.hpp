// Rows of tokens, and small transformers of them, for tests of whole runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "npy_file.hpp"
#include "support.hpp"

/// Writes tokens.npy, sequences of 1 to 6 of the tokens 0 to 5 in 6 places, and labels.npy, whether
/// a sequence begins with an odd token.
inline void write_tokens(const std::filesystem::path& folder, std::size_t rows = 60) {
  std::vector<std::int8_t> tokens(rows * 6, -1), labels(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t t = 0; t < 1 + row % 6; ++t)
      tokens[6 * row + t] = static_cast<std::int8_t>((row / 2 + t * t) % 6);
    labels[row] = static_cast<std::int8_t>(tokens[6 * row] % 2);
  }
  write_file(folder / "tokens.npy", array_file("|i1", std::to_string(rows) + ", 6", tokens));
  write_file(folder / "labels.npy", array_file("|i1", std::to_string(rows) + ",", labels));
}

/// Overrides of a manifest's data and model: an encoder that classifies the sequences.
inline const std::vector<std::string> kEncoder{
    "data={kind: npy, train: {features: tokens.npy, targets: labels.npy}, "
    "test: {features: tokens.npy, targets: labels.npy}, classes: 2, target_fill: 0}",
    "model={kind: transformer, preset: encoder, vocabulary: 6, layers: 1, width: 8, heads: 2}"};

/// A decoder that predicts their next tokens.
inline const std::vector<std::string> kDecoder{
    "data={kind: npy, train: {features: tokens.npy}, test: {features: tokens.npy}}",
    "model={kind: transformer, preset: decoder, vocabulary: 6, loss: next_token, layers: 1, "
    "width: 8, heads: 2}"};
