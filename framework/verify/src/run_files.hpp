// Reads the files of a run that verification needs.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/record/record_directory.hpp"

namespace privgrad::core {

// The most bytes of a JSON file; the files of real runs are far smaller.
inline constexpr std::size_t kMostDocument = std::size_t{64} << 20;
inline constexpr int kDeepest = 64;  // the nesting limit of JSON

/// The problem reported for a run without noise.
inline constexpr const char* kNoNoise =
    "manifest.yaml: noise is off: there is no guarantee to verify";

/// \param overrides  the same as for parse_manifest().
/// \throws IoError, ConfigError
Manifest manifest_of(const RecordDirectory& directory, const Catalog& catalog, DataFiles files,
                     const std::vector<std::string>& overrides = {});

/// \throws IoError "NAME: what is wrong" if the file does not contain a JSON object.
nlohmann::json object_of(const RecordDirectory& directory, const std::string& name);

/// The path of a client's ledger in a run's directory.
std::string ledger_of_client(std::size_t client);

/// The metadata of a model file, with residual blocks described as in format 2. In format 1, a
/// residual block was a kind of layer ("shortcut").
std::map<std::string, std::string> in_todays_form(std::map<std::string, std::string> metadata);

std::string first_line(const std::string& text);

}  // namespace privgrad::core
