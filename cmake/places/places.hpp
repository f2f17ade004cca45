// The folders of this build and its sources. Tests, fuzzers and benches take all machine-specific
// paths from here, so that only one small object contains such paths, and a compiler cache can
// share all others among checkouts.
#pragma once

#include <filesystem>

namespace privgrad::places {

extern const char* const kBuild;   ///< The build folder, absolute.
extern const char* const kSource;  ///< The root of the sources, absolute.
/// The Python environment of the tests, below the user's cache (scripts/environment.sh).
extern const char* const kTestPython;

/// The built-in plugins of this build, one folder per kind.
inline std::filesystem::path plugins() {
  return std::filesystem::path(kBuild) / "lib/privgrad/plugins";
}

}  // namespace privgrad::places
