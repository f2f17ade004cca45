// What the builders of all families have in common.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "builders.hpp"

namespace pretrained {

/// \returns the layer for a name of transformers' activations.
/// \throws ConfigError for another name.
privgrad::Layer activation_of(Folder& folder, const std::string& name);

/// A dense layer at each place.
inline privgrad::Dense dense(std::size_t units, bool no_bias = false) {
  return {.units = units, .per_place = true, .no_bias = no_bias};
}

/// \returns the number of layers that a member of config.json says, at most 1000.
std::size_t layers_of(Folder& folder, const std::string& name);

/// \throws ConfigError unless the number of heads divides the width of the values.
void check_heads(const Folder& folder, std::size_t heads, std::size_t width);

/// Appends nodes, whose names begin as those of the folder's tensors do.
class Builder {
 public:
  Builder(Folder& folder, std::string prefix) : folder_(folder), prefix_(std::move(prefix)) {}

  /// \returns the value that the node makes.
  std::size_t add(privgrad::Layer layer, const std::string& name = "",
                  std::vector<std::size_t> from = {});
  std::size_t last() const { return body_.nodes.size(); }

  /// Says where a tensor of the last node is in the file. The names of the source have no prefix.
  void store_as(privgrad::TensorSource source, const std::string& tensor = "weight");

  /// Tokens with their mask.
  /// \throws ConfigError if the examples are not sequences, or longer than `places`, if that is
  ///   not 0.
  void add_tokens(const privgrad::Shape& features, std::size_t places, std::size_t width,
                  const std::string& table);

  /// Attention among the places of `seen`; with the mask, if there is one.
  /// \param names  of q, k, v and the output.
  std::size_t attention(std::size_t width, std::size_t heads, std::size_t seen,
                        const std::array<std::string, 4>& names);

  Body& body() { return body_; }

 private:
  Folder& folder_;
  std::string prefix_;
  Body body_;
};

}  // namespace pretrained
