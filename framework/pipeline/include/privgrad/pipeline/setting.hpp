#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "privgrad/clipping.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/network.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// What a manifest trains on what: known from headers and counts, before a row is looked at, and
/// the same for all owners of data.
struct Setting {
  ComponentPtr<DataSource> data;  ///< Opened.
  ComponentPtr<Model> model;
  DataInfo info;
  std::vector<Statistic> statistics;  ///< One per transform: what it learns from private rows.
  std::uint64_t dataset_size = 0;     ///< Public.
  Network network;
  std::size_t parameters = 0;
  std::vector<ParameterGroup> groups;  ///< Of the parameters, for clipping.
};

/// \throws ManifestError for what does not fit together; IoError if the data's headers cannot be
/// read, or there are no training examples.
std::shared_ptr<const Setting> make_setting(const Manifest& manifest);

/// Training and test examples, as the model sees them.
struct RunData {
  Dataset train, test;
};

/// \throws IoError if there are not as many examples as planned.
RunData read_data(const Manifest& manifest, const Setting& setting);

}  // namespace privgrad::core
