// Opens a data source by its kind and parameters, without a manifest.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/value.hpp"

namespace privgrad::tool {

struct OpenedSource {
  std::string kind;
  ComponentPtr<DataSource> source;

  /// \returns the files that the source reads; empty if it does not list them.
  std::vector<std::filesystem::path> files() const;
};

/// \param params  an object without `kind`.
/// \throws ConfigError for an unknown kind, or for parameters that do not fit.
OpenedSource open_source(const Catalog& catalog, const std::string& kind, const Value& params);

}  // namespace privgrad::tool
