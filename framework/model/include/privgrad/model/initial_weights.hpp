// The pretrained weights with which a model begins: reading them, and who vouches for their
// privacy.
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

/// The origin that a model trained by PrivGrad states in its file, unsigned.
struct WeightsOrigin {
  std::string name, mode, epsilon, delta, unit, adjacency;  ///< As texts, shown on one line.
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

  /// \param parameters  of the whole model; the loaded ones are replaced.
  void put_into(std::span<float> parameters) const;
};

/// What a weights file states about itself, independent of the model that uses it.
WeightsFacts facts_of(const TensorFile& file);

/// Matches the weights of model.weights to a model, tensor by tensor: by name, where the model says
/// that they are (Model::sources()), or according to model.weights.map.
/// \param network  the whole model.
/// \throws ManifestError with a table of all tensors if shapes differ, or nothing matches; for
///   names that neither side has; IoError for a tensor that cannot be read.
InitialWeights fit_weights(const Manifest& manifest, const Network& network,
                           const std::vector<TensorSource>& sources, const TensorFile& file);

struct ModelFile;

/// The inverse: a weights file with the values of a trained model in the places of those from which
/// it was begun. Tensors that have not changed, and those of the file alone, keep their bytes. If
/// one has changed, the metadata are the model's, so that its origin is known to later runs.
/// \param bytes  of the file from which the model was begun, untrusted.
/// \throws IoError if a tensor that has changed does not fit, or is not F32 in the file.
std::string weights_with(std::string bytes, const ModelFile& model,
                         const std::vector<TensorSource>& sources);

/// Who vouches for the data on which the weights were trained.
enum class WeightsClaim {
  declared_public = 1,  ///< The manifest.
  charged_in_account,   ///< A run that was paid from the same account as this run.
  unaccounted,          ///< Nobody.
};

/// As statements write it: "declared_public", "charged_in_account", "unaccounted".
std::string_view to_text(WeightsClaim claim);

/// Whether a model trained by PrivGrad states that its rows were protected, or that its initial
/// weights were trained on protected rows. Only models that were trained without noise, and from
/// scratch or from weights declared public, say nothing about their rows.
bool saw_protected_rows(const WeightsOrigin& origin);

/// The claim that applies to a manifest's weights. Weights of a model trained by PrivGrad are
/// charged_in_account if they were paid from the run's account, and nothing on which their
/// parameters depend is uncharged. Weights that saw protected rows are not public, even if the
/// manifest says so.
WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights);

/// The number of frozen layers, that is, of layers before the first trained one; 0 if none.
/// \param loaded  the model's tensors with pretrained values.
/// \throws ManifestError if a pattern of model.train names no layer, or only a part of one; if a
///   frozen or adapted layer, at any place, has a tensor without pretrained values.
std::size_t frozen_layers(const Manifest& manifest, const Network& network,
                          const std::vector<std::string>& loaded);

/// The values that the first `layers` nodes make or receive and that later nodes use; ascending. In
/// a chain this is only the output of the last of these nodes. A value that depends on no
/// parameters is recomputed from the features, which are then listed instead. For the loss
/// next_token, whose tokens are features, the features are always listed.
std::vector<std::size_t> values_behind(const Network& network, std::size_t layers);

/// The nodes that make a value, as a network with the same names. Its loss is meaningless.
/// \param value  not the features.
Network part_up_to(const Network& network, std::size_t value);

/// The nodes after the first `layers`, as a network with the same loss and names. Its features are
/// the values of values_behind(), side by side if there are several.
Network last_part(const Network& network, std::size_t layers);

}  // namespace privgrad::core
