// Reads only the section `data` of a manifest, for commands that need only the data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/streaming.hpp"

namespace privgrad::core {

struct DataSection {
  ComponentUse data;
  std::vector<ComponentUse> transforms;  ///< The transforms, in the order of the section.
  std::optional<std::uint64_t> size;     ///< The declared number of training examples.
  bool test_is_public = false;
  std::optional<Streaming> streaming;
};

/// The parameters in a model file with which a source reads its files: DataInfo::reading.
struct KnownReading {
  std::string source;  ///< The full name of the source.
  Value params;        ///< An object.
};

/// Reads a section `data` in YAML: the section's object, or a manifest with the section.
/// \param name  the text's name in errors: a file, or a name from the user.
/// \param folder  the folder in which relative paths are looked up, before PRIVGRAD_DATA_DIR.
/// \param known  nullptr, or parameters that the section need not repeat.
/// \throws ManifestError, with one line for each problem; IoError if a named file is missing.
DataSection parse_data_section(std::string_view text, const std::filesystem::path& name,
                               const std::filesystem::path& folder, const Catalog& catalog,
                               const KnownReading* known = nullptr);

}  // namespace privgrad::core
