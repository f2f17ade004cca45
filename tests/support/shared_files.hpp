// Finds data sets outside the repository, and skips tests that lack them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support.hpp"

/// Ends a test that needs something outside the repository that is missing. CTest lists the test as
/// skipped, by its name, because it looks for this word in the output (SKIP_REGULAR_EXPRESSION in
/// tests/CMakeLists.txt).
#define PRIVGRAD_SKIP(why)    \
  do {                        \
    WARN("SKIPPED: " << why); \
    return;                   \
  } while (false)

/// The folder of the image data sets: PRIVGRAD_DATA_DIR, or the folder beside the repository.
/// \returns an empty path if `file` is in neither.
inline std::filesystem::path data_folder_with(const std::string& file) {
  const char* named = std::getenv("PRIVGRAD_DATA_DIR");
  for (const std::filesystem::path& folder :
       {std::filesystem::path(named != nullptr ? named : ""), kSource / "../shared/data"}) {
    if (!folder.empty() && std::filesystem::exists(folder / file)) return folder;
  }
  return {};
}
