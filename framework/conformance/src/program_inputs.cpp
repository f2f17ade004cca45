#include "program_inputs.hpp"

#include <algorithm>
#include <limits>

#include "checker.hpp"
#include "inputs.hpp"

namespace privgrad::testing {
Examples examples_for(const Network& network, std::size_t rows) {
  Examples examples;
  examples.row_size = element_count(network.input.features);
  examples.features = normal_values(31, rows * examples.row_size);
  if (const std::size_t vocabulary = vocabulary_of(network); vocabulary > 0) {
    for (std::size_t i = 0; i < examples.features.size(); ++i)
      examples.features[i] = static_cast<float>(i * i % vocabulary);
    // Puts empty places after the tokens of examples: the third example has one empty place, the
    // seventh has only empty places.
    for (std::size_t row = 2; row < rows; ++row) {
      const std::size_t empty = row % 7 == 6 ? examples.row_size : row % 7 / 2 % examples.row_size;
      std::fill_n(examples.features.begin() +
                      static_cast<std::ptrdiff_t>((row + 1) * examples.row_size - empty),
                  empty, kEmptyPlace);
    }
  }
  examples.targets = normal_values(32, rows);
  if (const std::size_t classes = network.input.classes; classes > 0) {
    for (std::size_t row = 0; row < rows; ++row) {
      examples.targets[row] = static_cast<float>(row % classes);
    }
  }
  return examples;
}

std::vector<float> parameters_for(const Network& network, std::uint64_t seed) {
  return normal_values(seed, parameter_count(network), 0.5);
}

std::vector<std::size_t> layer_parameters(const Network& network) {
  std::vector<std::size_t> counts(network.nodes.size(), 0);
  for (const ParameterBlock& block : parameter_blocks(network))
    counts[block.node] += element_count(block.shape);
  return counts;
}

std::string text_of(const ExampleShape& shape) {
  return "examples of " + to_text(shape.features) + " with " +
         (shape.classes == 0 ? "real targets" : std::to_string(shape.classes) + " classes");
}

std::string text_of(const Network& network) {
  std::string text = "the network " + to_text(network.input.features);
  for (const Node& node : network.nodes) {
    text += " > " + std::string(node.is_frozen ? "frozen " : "") + to_text(node.layer);
    for (std::size_t i = 0; i < node.from.size(); ++i)
      text += (i == 0 ? " of " : ", ") + std::to_string(node.from[i]);
    if (node.shares) text += " with the parameters of node " + std::to_string(*node.shares);
  }
  return text + " > " + std::string(to_text(network.loss));
}

std::vector<float> gradients(const Program& program, const Batch& batch) {
  std::vector<float> rows(batch.rows() * program.parameter_count(),
                          std::numeric_limits<float>::quiet_NaN());
  program.gradient_rows(batch, rows);
  return rows;
}

std::vector<float> row_of(const std::vector<float>& rows, std::size_t row, std::size_t size) {
  const auto first = rows.begin() + static_cast<std::ptrdiff_t>(row * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

}  // namespace privgrad::testing
