#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/network.hpp"
#include "privgrad/pipeline/public_facts.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// What a program promises about the bits of what it computes.
struct ExactAbilities {
  bool clipping = false;  ///< ExactClipping.
  bool rows = false;      ///< ReproducibleRows.
};

/// What a manifest trains on what: known from headers and counts, before a row is looked at, and
/// the same for all owners of data.
struct Setting {
  ComponentPtr<DataSource> data;  ///< Opened; null if it was made from recorded facts.
  ComponentPtr<Model> model;
  DataInfo info;
  std::vector<Statistic> statistics;  ///< One per transform: what it learns from private rows.
  std::vector<bool> by_row;           ///< One per transform: whether it is a RowTransform.
  std::uint64_t dataset_size = 0;     ///< Public.
  Network network;
  std::size_t parameters = 0;
  std::vector<ParameterGroup> groups;  ///< Of the parameters, for clipping.
  ExactAbilities program;              ///< Of the program that will run; nothing without noise.
  /// What it was made from, if that was not the data.
  std::optional<PublicFacts> recorded;
  /// Of a run that goes on: what its public order of examples was drawn with.
  std::optional<std::string> order_key;
};

/// \throws ManifestError for what does not fit together; IoError if the data's headers cannot be
/// read, or there are no training examples.
std::shared_ptr<Setting> make_setting(const Manifest& manifest);

/// The same from what a run has recorded, without the data: for plans that nobody runs.
/// \throws ManifestError
std::shared_ptr<const Setting> make_setting(const Manifest& manifest, const PublicFacts& recorded);

/// The program that executes the setting's network: the model's own (SelfExecuting), or the
/// backend's.
/// \param backend  made if one is needed and it is null; must outlive the program.
/// \throws ManifestError if the backend cannot execute the network; PluginError for a program that
///   is none.
std::unique_ptr<Program> compile_program(const Manifest& manifest, const Setting& setting,
                                         ComponentPtr<Backend>& backend, Executor& executor);

/// Training and test examples, as the model sees them.
struct RunData {
  Dataset train, test;
};

/// \throws IoError if there are not as many examples as planned; PluginError if a transform changed
///   which examples there are (apply_transform.hpp).
RunData read_data(const Manifest& manifest, const Setting& setting);

/// The two halves of it: examples as the source has them, and as the transforms leave them.
RunData read_rows(const Manifest& manifest, const Setting& setting);
void apply_transforms(const Manifest& manifest, RunData& data);

}  // namespace privgrad::core
