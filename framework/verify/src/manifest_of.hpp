// The manifest of a run, from its directory.
#pragma once

#include "privgrad/catalog.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/record/record_directory.hpp"

namespace privgrad::core {

inline Manifest manifest_of(const RecordDirectory& directory, const Catalog& catalog,
                            DataFiles files) {
  const std::string text = directory.read("manifest.yaml", kMaxYamlBytes);
  return parse_manifest(text, directory.path() / "manifest.yaml", {}, catalog, files);
}

}  // namespace privgrad::core
