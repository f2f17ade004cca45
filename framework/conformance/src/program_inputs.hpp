// Examples and parameters with which to try programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/network.hpp"

namespace privgrad::testing {

/// The largest allowed length of an example's cells.
inline constexpr std::uint64_t kMost = std::uint64_t{1} << 26;

/// Examples for a network. They own the memory of all batches made from them.
struct Examples {
  std::size_t row_size = 0;
  std::vector<float> features;
  std::vector<float> targets;

  std::size_t rows() const { return targets.size(); }
  Batch all() const { return {.features = features, .targets = targets}; }
  Batch one(std::size_t row) const {
    return {.features = std::span(features).subspan(row * row_size, row_size),
            .targets = std::span(targets).subspan(row, 1)};
  }
};

Examples examples_for(const Network& network, std::size_t rows);

std::vector<float> parameters_for(const Network& network, std::uint64_t seed = 33);

/// The number of parameters of each layer: [layers].
std::vector<std::size_t> layer_parameters(const Network& network);

std::string text_of(const ExampleShape& shape);
std::string text_of(const Network& network);

std::vector<float> gradients(const Program& program, const Batch& batch);

std::vector<float> row_of(const std::vector<float>& rows, std::size_t row, std::size_t size);

}  // namespace privgrad::testing
