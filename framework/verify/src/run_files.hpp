// The files of a run that verification reads, from any source.
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

// real documents are far smaller
inline constexpr std::size_t kMostDocument = std::size_t{64} << 20;
inline constexpr int kDeepest = 64;  // the nesting limit of JSON

/// The problem of a run that promises no privacy.
inline constexpr const char* kNoNoise =
    "manifest.yaml: noise is off: there is no guarantee to verify";

/// \param overrides  the same as for parse_manifest().
/// \throws IoError, ConfigError
Manifest manifest_of(const RecordDirectory& directory, const Catalog& catalog, DataFiles files,
                     const std::vector<std::string>& overrides = {});

/// \throws IoError "NAME: what is wrong" if the file does not contain a JSON object.
nlohmann::json object_of(const RecordDirectory& directory, const std::string& name);

/// The name of the ledger of a client, in the directory of a run.
std::string ledger_of_client(std::size_t client);

/// The metadata of a model file in the current form: residual blocks, which are a kind of layer in
/// format 1, are described as in format 2.
std::map<std::string, std::string> in_todays_form(std::map<std::string, std::string> metadata);

/// The first line of a text.
std::string first_line(const std::string& text);

}  // namespace privgrad::core
