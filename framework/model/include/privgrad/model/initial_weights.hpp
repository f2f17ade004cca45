// The pretrained weights from which training begins, and the origin that vouches for their privacy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/network.hpp"
#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// The values of a tensor, and where they belong in the parameters of the whole model.
struct LoadedBlock {
  std::size_t offset = 0;
  std::vector<float> values;
};

/// The weights that a manifest names, matched to a model's tensors.
struct InitialWeights {
  WeightsFacts facts;
  std::vector<LoadedBlock> blocks;
  std::vector<std::string> unused;  ///< The tensors of the file that the model does not have.

  /// \param parameters  the parameters of the whole model; loaded values replace the values there.
  void put_into(std::span<float> parameters) const;
};

/// Returns the facts that a weights file states about itself, whatever model uses the file.
WeightsFacts facts_of(const TensorFile& file);

/// Matches the weights of model.weights to a model, tensor by tensor: by name, by the model's own
/// list (Model::sources()), or by model.weights.map. Files that PrivGrad wrote need no list.
/// \param network  the whole model.
/// \throws ManifestError, with a table of tensors, if shapes differ or nothing matches; also for an
///   unknown name in the map. IoError for a tensor that cannot be read.
InitialWeights fit_weights(const Manifest& manifest, const Network& network,
                           const std::vector<TensorSource>& sources, const TensorFile& file);

/// Who vouches that the data on which the weights were trained needs no further charge.
enum class WeightsClaim {
  declared_public = 1,  ///< The manifest.
  charged_in_account,   ///< A run that was charged to the same account as this run.
  unaccounted,          ///< Nobody.
};

/// Returns the claim's name in statements: "declared_public", "charged_in_account", "unaccounted".
std::string_view to_text(WeightsClaim claim);

/// Whether, by `origin`, the model's rows were protected, or its initial weights may have been
/// trained on protected rows. Neither is so for a model trained without noise, from scratch or from
/// weights that were declared public.
bool saw_protected_rows(const WeightsOrigin& origin);

/// Returns the claim that applies to a manifest's weights. Weights of a model trained by PrivGrad
/// are charged_in_account if the run's account paid for that model, and if the model's parameters
/// depend on no uncharged use of data. Weights that saw protected rows are not public, even if the
/// manifest says so.
WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights);

/// Returns the number of frozen layers at the beginning: all layers before the first trained or
/// adapted layer, and before the first layer whose parameters others share; 0 if the first layer
/// with parameters is trained or adapted.
/// \param loaded  the model's tensors with pretrained values.
/// \throws ManifestError as trained_layers(); also if a frozen or adapted layer, at any place, has
///   a tensor without pretrained values.
std::size_t frozen_layers(const Manifest& manifest, const Network& network,
                          const std::vector<std::string>& loaded);

/// Returns the values that last_part() needs as its features, ascending: outputs of the first
/// `layers` nodes (in a chain, only of the last of them), or the features. A value that depends on
/// no parameters is recomputed from the features, which are then listed instead. For the loss
/// next_token, whose tokens are features, the features are always listed.
std::vector<std::size_t> values_behind(const Network& network, std::size_t layers);

/// Returns the nodes that compute a value, as a network with the same names. Its loss is unused.
/// \param value  must not be the features.
Network part_up_to(const Network& network, std::size_t value);

/// Returns the nodes after the first `layers`, as a network with the same loss and names. Its
/// features are the values of values_behind(), concatenated if there are several.
Network last_part(const Network& network, std::size_t layers);

}  // namespace privgrad::core
