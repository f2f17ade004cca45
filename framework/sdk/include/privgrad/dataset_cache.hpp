// The folder of downloaded data sets, for data sources that look there.
#pragma once

#include <filesystem>
#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The folder in which `privgrad data fetch` stores data sets, each in a folder with its name:
/// PRIVGRAD_CACHE_DIR, or else XDG_CACHE_HOME/privgrad/datasets, or else
/// ~/.cache/privgrad/datasets. The folder need not exist.
/// \returns an empty path if the environment does not define a home directory either.
PRIVGRAD_API std::filesystem::path dataset_cache();

/// The file that is written last to a data set's folder, in the format of sha256sum. A data set
/// without this file is incomplete.
inline constexpr std::string_view kChecksumFile = "SHA256SUMS";

}  // namespace privgrad
