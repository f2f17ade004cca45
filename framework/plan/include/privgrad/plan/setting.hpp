// The task of a run: its data, model and network, known from headers before any row is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/bounded_statistic.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/model/lora.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/network.hpp"
#include "privgrad/plan/kept_numbers.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/transform.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// A program's promises about the exact bits of its results.
struct ExactAbilities {
  bool clipping = false;  ///< ExactClipping.
  bool rows = false;      ///< ReproducibleRows.
};

/// The memory that a step needs, for users who plan a run.
struct PassFacts {
  std::size_t rows = 0;     ///< The most examples of one pass; 0 if the program has no passes.
  std::uint64_t bytes = 0;  ///< Their approximate memory; 0 if the program does not report it.
};

/// The data, model and network of a manifest: known from headers and counts before any row is read,
/// and the same for all owners of data.
struct Setting {
  /// The opened source; null if the setting was made from recorded facts.
  ComponentPtr<DataSource> data;
  ComponentPtr<Model> model;
  DataInfo info;
  std::vector<Statistic> statistics;  ///< One per transform: how it learns from private rows.
  std::vector<bool> by_row;           ///< One per transform: Transform::is_by_row().
  /// For each transform: whether it can be applied again later, because it has learnt no numbers,
  /// or returns the numbers that it has learnt (Transform::is_restorable()).
  std::vector<bool> is_restorable;
  /// One per transform: the statistic that it requests, or nothing.
  std::vector<std::optional<StatisticRequest>> requests;
  bool has_costly_rows = false;         ///< Whether a transform's outputs are worth storing.
  std::uint64_t dataset_size = 0;       ///< Public.
  Network whole;                        ///< The model, including frozen layers.
  std::size_t frozen_layers = 0;        ///< The number of leading layers that are not trained.
  std::size_t frozen_parameters = 0;    ///< Number of parameters of the frozen layers.
  std::optional<WeightsFacts> weights;  ///< Facts about the model's initial weights.
  /// hashes_of_files() of the model.
  std::map<std::string, std::string> model_files;
  /// The initial weights; null without weights, or if the setting was made from recorded facts.
  std::shared_ptr<const InitialWeights> initial;
  /// The trained layers. Programs, sums, noise and optimizers receive no others. Their input is the
  /// data's features, or the outputs of the frozen layers.
  Network network;
  /// Adapters of these layers, and which of their tensors are trained; if absent: all are trained,
  /// without adapters.
  std::optional<LoraLayout> lora;
  std::size_t parameters = 0;          ///< Number of trained parameters.
  std::vector<ParameterGroup> groups;  ///< Groups of the parameters, for clipping.
  /// Whether the clipping shifts and scales the coordinates of gradients (CoordinateScaling).
  bool scales_coordinates = false;
  /// Promises of the program that the run will use; all false without noise. `clipping` is false if
  /// coordinates are scaled, because a program cannot compute the cells of scaled gradient rows.
  ExactAbilities program;
  PassFacts pass;
  /// The recorded facts from which the setting was made, if not from the data.
  std::optional<PublicFacts> recorded;
  /// The key for the plan's draws: public orders of examples, and the assignment of examples to
  /// clients. It comes from the seed or the operating system; a resumed run uses its original key.
  /// Always set.
  std::optional<RandomKey> plan_key;
  /// The numbers that this plan computes, or that the plan computed when the run began. Always set.
  std::shared_ptr<KeptNumbers> kept = std::make_shared<KeptNumbers>();
};

/// \throws ManifestError for parts that do not fit together; IoError if the data's headers cannot
///   be read, or if there are no training examples (not if their number is private and a size is
///   declared, because an error would reveal it).
std::shared_ptr<Setting> make_setting(const Manifest& manifest);

/// Makes the setting from the facts that a run has recorded, without the data, for plans that are
/// not run.
/// \throws ManifestError if the manifest does not fit the facts.
std::shared_ptr<Setting> make_setting(const Manifest& manifest, const PublicFacts& recorded);

/// The backend's program for the setting's network.
/// \param backend  created if null; must outlive the program.
/// \param class_weights  for model.class_weights: balanced, one per class; empty: the network's.
/// \throws ManifestError if the backend cannot execute the network; PluginError for a broken
///   program.
std::unique_ptr<Program> compile_program(const Manifest& manifest, const Setting& setting,
                                         ComponentPtr<Backend>& backend, Executor& executor,
                                         const std::vector<double>& class_weights = {});

/// \returns the SHA-256 hashes, by name, of the files that determine the model's networks
///   (Model::files()).
std::map<std::string, std::string> hashes_of_files(const Model& model);

/// The declared number of training rows: data.size, or the sum of federated.sizes.
std::optional<std::uint64_t> declared_size(const Manifest& manifest);

PrivacyUnit unit_of(const std::optional<Federated>& federated);

/// Whether neighbouring data sets have the same number of rows, so that the number may be stated. A
/// client that replaces another may have a different number of rows.
bool size_is_public(const Manifest& manifest);

/// \returns whether a cache is useful: for outputs of frozen layers, or of a costly transform.
inline bool has_features_to_keep(const Setting& setting) {
  return setting.frozen_layers > 0 || setting.has_costly_rows;
}

/// The number of parameters of the whole model that are not trained themselves: the frozen layers'
/// parameters, and the weights that have adapters.
std::size_t untrained_parameters(const Setting& setting);

/// The initial parameters of the network's layers in a run with adapters; zeros if the setting was
/// made from recorded facts, because its programs are never run.
std::vector<float> network_before_training(const Setting& setting);

/// The parameters of the whole model, including frozen ones, with adapters merged.
/// \param trained  parameters of the trained layers.
std::vector<float> whole_parameters(const Setting& setting, std::span<const float> trained);

}  // namespace privgrad::core
