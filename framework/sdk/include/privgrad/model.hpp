// The interface of models: the network for a shape of examples, and its initial parameters.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/export.hpp"
#include "privgrad/network.hpp"
#include "privgrad/random.hpp"
#include "privgrad/tensor_source.hpp"

namespace privgrad {

/// Describes a network for examples of a given shape, and its initial parameters.
///
/// Privacy: receives the shape of examples, never examples. Threads: const functions may run
/// concurrently.
///
/// Example: one hidden layer:
///
///     Network network(const ExampleShape& input) const override {
///       const Network network{.input = input,
///                             .nodes = {Dense{16}, Activation{}, Dense{input.classes}},
///                             .loss = Loss::cross_entropy};
///       check_network(network);
///       return network;
///     }
///     void initialise(const Network& network, RandomStream& random,
///                     std::span<float> parameters) const override {
///       for (const ParameterBlock& block : parameter_blocks(network)) {
///         const auto values = parameters.subspan(block.offset, element_count(block.shape));
///         std::fill(values.begin(), values.end(), block.initial);
///         if (block.fan_in == 0) continue;
///         random.fill_normal(values);
///         for (float& value : values) value /= std::sqrt(static_cast<float>(block.fan_in));
///       }
///     }
class PRIVGRAD_API Model {
 public:
  static constexpr std::string_view kKind = "model";
  static constexpr int kInterfaceVersion = 8;
  static constexpr std::string_view kSees = "public values";

  virtual ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// \throws ConfigError if the model cannot be used for such examples.
  virtual Network network(const ExampleShape& input) const = 0;

  /// \param parameters  out: float32, in the layout of parameter_blocks(network).
  virtual void initialise(const Network& network, RandomStream& random,
                          std::span<float> parameters) const = 0;

  /// \returns the tensors that the file of model.weights stores under another name or in another
  ///   order; the file stores all other tensors under the model's names. Leading extents of 1 are
  ///   ignored. If a table in the file is longer than the tensor, only its first rows are used.
  virtual std::vector<TensorSource> sources(const Network& network) const;

  /// \returns for each file from which the network was made its name, "PARAMETER/FILE", and exactly
  ///   the bytes that were read. The files are public, and the ledger has their hashes.
  virtual std::map<std::string, std::string> files() const;

 protected:
  Model() = default;
};

}  // namespace privgrad
