// The folder where downloaded data sets are kept, for data sources that look there.
#pragma once

#include <filesystem>
#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The folder where `privgrad data fetch` keeps data sets, each in a folder of its name:
/// PRIVGRAD_CACHE_DIR, else XDG_CACHE_HOME/privgrad/datasets, else ~/.cache/privgrad/datasets. It
/// need not exist.
/// \returns an empty path if the environment names no home either.
PRIVGRAD_API std::filesystem::path dataset_cache();

/// The last file to appear in a folder of the cache; without it a data set is not complete. Its
/// lines are those of sha256sum.
inline constexpr std::string_view kChecksumFile = "SHA256SUMS";

}  // namespace privgrad
