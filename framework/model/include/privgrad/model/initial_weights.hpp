// The pretrained weights with which a model begins, and the origin that vouches for their privacy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

/// The unsigned statement of origin in a model file by PrivGrad.
struct WeightsOrigin {
  /// Each as a text that can be shown on one line.
  std::string name, mode, epsilon, delta, unit, adjacency;
  std::vector<std::string> unaccounted;
  std::optional<std::string> account;  ///< The hash of the first line of the account that paid.

  bool operator==(const WeightsOrigin&) const = default;
};

/// The public facts about a model's initial weights: a part of facts.json.
struct WeightsFacts {
  std::string sha256;                   ///< The hash of the file.
  std::vector<std::string> loaded;      ///< The model's tensors that are in the file.
  std::vector<std::string> begun_anew;  ///< Tensors that the model initializes itself.
  std::uint64_t unused = 0;             ///< Tensors of the file that the model does not have.
  std::optional<WeightsOrigin> origin;  ///< For a model that PrivGrad has trained.

  bool operator==(const WeightsFacts&) const = default;
};

nlohmann::json to_json(const WeightsFacts& weights);
/// \throws nlohmann::json::exception for JSON that to_json() does not make.
WeightsFacts weights_from_json(const nlohmann::json& json);

/// The values of a tensor, and their place in the parameters of the whole model.
struct LoadedBlock {
  std::size_t offset = 0;
  std::vector<float> values;
};

/// The weights that a manifest names, matched to a model.
struct InitialWeights {
  WeightsFacts facts;
  std::vector<LoadedBlock> blocks;
  std::vector<std::string> unused;  ///< The tensors of the file that the model does not have.

  /// \param parameters  the parameters of the whole model; the loaded ones are replaced.
  void put_into(std::span<float> parameters) const;
};

/// The facts that a weights file states about itself, whatever model uses it.
WeightsFacts facts_of(const TensorFile& file);

/// Matches the weights of model.weights to a model, tensor by tensor: by name, by the model's own
/// list (Model::sources()), or by model.weights.map.
/// \param network  the whole model.
/// \throws ManifestError with a table of all tensors if shapes differ, or nothing matches; for
///   names that neither side has; IoError for a tensor that cannot be read.
InitialWeights fit_weights(const Manifest& manifest, const Network& network,
                           const std::vector<TensorSource>& sources, const TensorFile& file);

/// Who vouches for the data on which the weights were trained.
enum class WeightsClaim {
  declared_public = 1,  ///< The manifest.
  charged_in_account,   ///< A run that was charged to the same account as this run.
  unaccounted,          ///< Nobody.
};

/// The claim's name in statements: "declared_public", "charged_in_account", "unaccounted".
std::string_view to_text(WeightsClaim claim);

/// Whether a model trained by PrivGrad states that its rows were protected, or that its initial
/// weights were trained on protected rows. A model makes no such statement if it was trained
/// without noise, from scratch or from weights that were declared public.
bool saw_protected_rows(const WeightsOrigin& origin);

/// The claim that applies to a manifest's weights. Weights of a model trained by PrivGrad are
/// charged_in_account if the run's account paid for them, and their parameters depend on no
/// uncharged use of data. Weights that saw protected rows are not public, even if the manifest says
/// so.
WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights);

/// The number of frozen layers, that is, of layers before the first trained layer.
/// \param loaded  the model's tensors with pretrained values.
/// \throws ManifestError if a pattern of model.train names no layer, or only a part of one; if a
///   frozen or adapted layer, at any place, has a tensor without pretrained values.
std::size_t frozen_layers(const Manifest& manifest, const Network& network,
                          const std::vector<std::string>& loaded);

/// Which outputs of the first `layers` nodes, or their inputs, later nodes use; ascending. In a
/// chain this is only the output of the last of these nodes. A value that depends on no parameters
/// is recomputed from the features, which are then listed instead. For the loss next_token, whose
/// tokens are features, the features are always listed.
std::vector<std::size_t> values_behind(const Network& network, std::size_t layers);

/// The nodes that make a value, as a network with the same names. Its loss is meaningless.
/// \param value  not the features.
Network part_up_to(const Network& network, std::size_t value);

/// The nodes after the first `layers`, as a network with the same loss and names. Its features are
/// the values of values_behind(), side by side if there are several.
Network last_part(const Network& network, std::size_t layers);

}  // namespace privgrad::core
