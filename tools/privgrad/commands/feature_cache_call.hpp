// The folder of computed features (options --cache and --dir), and the list of its files.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "arguments.hpp"
#include "privgrad/data/feature_cache.hpp"

namespace privgrad::tool {

/// Returns --cache, for every subcommand that makes runs.
Option cache_option();

/// Returns --dir, for the subcommands about stored features.
Option cache_folder_option();

/// \param option  "cache" or "dir".
/// \returns the absolute path of the folder that the option names; without the option or its value,
///   the path of the user's cache folder (XDG Base Directory Specification).
/// \throws UsageError if no folder is named and the user has no cache folder.
std::filesystem::path feature_folder(const Arguments& arguments, const std::string& option);

/// Returns the feature cache of a run, whose notes go to standard error; null without --cache.
std::unique_ptr<const core::FeatureCache> requested_cache(const Arguments& arguments);

/// Returns text like "3 files, 12.3 MB".
std::string features_words(std::span<const core::KeptFeatures> kept);

/// Returns {"folder", "bytes", "features": [{"rows", "row_size", "bytes", "used"}]}; rows and
/// row_size are null if the file lacks them.
nlohmann::json features_json(const std::filesystem::path& folder,
                             std::span<const core::KeptFeatures> kept);

/// Returns text like "2026-01-31 12:34", in UTC.
std::string time_words(std::time_t time);

}  // namespace privgrad::tool
