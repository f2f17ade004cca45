// The pretrained weights that a model begins from: reading them, and who answers for their privacy.
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
#include "privgrad/model/safetensors.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

/// The origin that a model trained by PrivGrad states in its file. Nobody has signed it.
struct WeightsOrigin {
  std::string name, mode, epsilon, delta, unit, adjacency;  ///< As texts, shown on one line.
  std::vector<std::string> unaccounted;
  std::optional<std::string> account;  ///< The hash of the first line of the account that paid.

  bool operator==(const WeightsOrigin&) const = default;
};

/// The public facts about the weights that a model begins from: a part of facts.json.
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

/// The values of a tensor, and where they belong in the parameters of the whole model.
struct LoadedBlock {
  std::size_t offset = 0;
  std::vector<float> values;
};

/// The weights that a manifest names, fitted to a model.
struct InitialWeights {
  WeightsFacts facts;
  std::vector<LoadedBlock> blocks;

  /// \param parameters  of the whole model; those that were loaded are replaced.
  void put_into(std::span<float> parameters) const;
};

/// What a file of weights says of itself, whatever model begins from it.
WeightsFacts facts_of(const TensorFile& file);

/// Fits the weights of model.weights to a model. Tensors belong together by name, or as
/// model.weights.map says.
/// \param network  the whole model.
/// \throws ManifestError with a table of all tensors if shapes differ, or nothing belongs together;
///   for names that neither side has; IoError for a tensor that cannot be read.
InitialWeights fit_weights(const Manifest& manifest, const Network& network,
                           const TensorFile& file);

/// Who answers for the data that the weights were trained on.
enum class WeightsClaim {
  declared_public = 1,  ///< The manifest.
  charged_in_account,   ///< A run that was paid from the account that this run is paid from.
  unaccounted,          ///< Nobody.
};

/// As statements write it: "declared_public", "charged_in_account", "unaccounted".
std::string_view to_text(WeightsClaim claim);

/// Whether a model that PrivGrad has trained says that its rows were protected, or that the weights
/// that it began from saw such rows: true for all models but those that were trained without noise,
/// from nothing or from weights that were declared public, which say nothing about their rows.
bool saw_protected_rows(const WeightsOrigin& origin);

/// The claim that holds for a manifest's weights. Those of a model that PrivGrad has trained are
/// charged_in_account if the account is that of the run, and nothing that their parameters depend
/// on is uncharged. Weights that saw protected rows are not public because a manifest says so.
WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights);

/// The number of layers before the first one that is trained, which are frozen. 0: none.
/// \param loaded  the model's tensors that have been trained before.
/// \throws ManifestError if a pattern of model.train names no layer or a part of one; if a layer
///   that is frozen or adapted, wherever it is, has a tensor that was not trained before.
std::size_t frozen_layers(const Manifest& manifest, const Network& network,
                          const std::vector<std::string>& loaded);

/// The first layers as a network of their own, whose outputs enter the next layer. Its loss means
/// nothing.
Network first_part(const Network& network, std::size_t layers);

/// The other layers, with the network's loss.
Network last_part(const Network& network, std::size_t layers);

}  // namespace privgrad::core
