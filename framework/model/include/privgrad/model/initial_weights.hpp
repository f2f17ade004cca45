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
#include "privgrad/network.hpp"

namespace privgrad::core {

/// What a model that a run of PrivGrad has left says of itself in its file. Nobody has signed it.
struct WeightsOrigin {
  std::string name, mode, epsilon, delta, unit, adjacency;  ///< As texts, shown on one line.
  std::vector<std::string> unaccounted;
  std::optional<std::string> account;  ///< The hash of the first line of the account that paid.

  bool operator==(const WeightsOrigin&) const = default;
};

/// What is public about the weights that a model begins from: a part of facts.json.
struct WeightsFacts {
  std::string sha256;                   ///< Of the file.
  std::vector<std::string> loaded;      ///< The model's tensors that are in the file.
  std::vector<std::string> begun_anew;  ///< Those that begin as the model says.
  std::uint64_t unused = 0;             ///< Tensors of the file that the model does not have.
  std::optional<WeightsOrigin> origin;  ///< Of a model of PrivGrad's own.

  bool operator==(const WeightsFacts&) const = default;
};

nlohmann::json to_json(const WeightsFacts& weights);
/// \throws nlohmann::json::exception for what to_json() does not make.
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

/// Reads model.weights. Tensors belong together by name, or as model.weights.map says.
/// \param network  the whole model.
/// \throws ManifestError with a table of all tensors if shapes differ, or nothing belongs together;
///   for names that neither side has; IoError if the file is none.
InitialWeights load_weights(const Manifest& manifest, const Network& network);

/// Who answers for what the weights have seen.
enum class WeightsClaim {
  declared_public = 1,  ///< The manifest does.
  charged_in_account,   ///< A run that was paid from the account that this run is paid from.
  unaccounted,          ///< Nobody.
};

/// As statements write it: "declared_public", "charged_in_account", "unaccounted".
std::string_view to_text(WeightsClaim claim);

/// Whether a model of PrivGrad's own says that rows were protected when it was trained, or that what it
/// began from saw such rows: all but those that were trained without noise, from nothing or from what
/// was declared public, which say nothing of their rows.
bool saw_protected_rows(const WeightsOrigin& origin);

/// Of a model of PrivGrad's own that is charged, the account must be that of the run, and nothing that
/// its parameters depend on may be uncharged. One that saw protected rows is not public because a
/// manifest says so.
WeightsClaim claim_of(const Manifest& manifest, const WeightsFacts& weights);

/// The number of layers before the first one that is trained: they are frozen. 0: none is.
/// \param loaded  the model's tensors that have been trained before.
/// \throws ManifestError if a pattern of model.train names no layer or a part of one; if a frozen
///   layer, here or behind one that is trained, has nothing trained in it.
std::size_t frozen_layers(const Manifest& manifest, const Network& network,
                          const std::vector<std::string>& loaded);

/// The first layers of a network as one of its own, whose outputs are what enters the next layer.
/// Its loss means nothing.
Network first_part(const Network& network, std::size_t layers);

/// The other layers, with the network's loss.
Network last_part(const Network& network, std::size_t layers);

}  // namespace privgrad::core
