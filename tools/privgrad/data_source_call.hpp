#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/value.hpp"

namespace privgrad::tool {

/// A data source made outside of a manifest.
struct OpenedSource {
  std::string kind;
  ComponentPtr<DataSource> source;

  /// \returns the files it reads; none if it does not tell.
  std::vector<std::filesystem::path> files() const;
};

/// \param params  an object, without `kind`.
/// \throws ConfigError naming the parameters that do not fit.
OpenedSource open_source(const Catalog& catalog, const std::string& kind, const Value& params);

}  // namespace privgrad::tool
