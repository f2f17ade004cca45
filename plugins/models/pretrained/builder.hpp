// Helpers for the builders of all families of models.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "builders.hpp"

namespace pretrained {

/// \returns the layer for an activation's name in the library transformers.
/// \throws ConfigError for an unknown name.
privgrad::Layer activation_of(Folder& folder, const std::string& name);

/// Returns a dense layer that is applied at each place.
inline privgrad::Dense dense(std::size_t units, bool no_bias = false) {
  return {.units = units, .per_place = true, .no_bias = no_bias};
}

/// \returns the number of layers in a member of config.json, which is at most 1000.
std::size_t layers_of(Folder& folder, const std::string& name);

/// \throws ConfigError unless the number of heads divides the width of the values.
void check_heads(const Folder& folder, std::size_t heads, std::size_t width);

/// Appends nodes, whose names have the prefix of the folder's tensors.
class Builder {
 public:
  Builder(Folder& folder, std::string prefix) : folder_(folder), prefix_(std::move(prefix)) {}

  /// \returns the value that the node makes.
  std::size_t add(privgrad::Layer layer, const std::string& name = "",
                  std::vector<std::size_t> from = {});
  std::size_t last() const { return body_.nodes.size(); }

  /// Sets which tensor of the file belongs to the last node. The source's names have no prefix.
  void store_as(privgrad::TensorSource source, const std::string& tensor = "weight");

  /// Adds the table of tokens, and the mask of the tokens.
  /// \param places  the longest sequence; 0: any length.
  /// \throws ConfigError if the examples are not sequences, or are longer than `places`.
  void add_tokens(const privgrad::Shape& features, std::size_t places, std::size_t width,
                  const std::string& table);

  /// Adds attention among the places of `seen`, with the mask if the body has one.
  /// \param names  the names of q, k, v and the output.
  std::size_t attention(std::size_t width, std::size_t heads, std::size_t seen,
                        const std::array<std::string, 4>& names);

  Body& body() { return body_; }

 private:
  Folder& folder_;
  std::string prefix_;
  Body body_;
};

}  // namespace pretrained
