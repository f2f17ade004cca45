// Where this build and its sources lie. The tests, the fuzzers and the benches get every path of this machine from
// here, so that one small object holds them all and a compiler cache serves the others to every checkout.
#pragma once

#include <filesystem>

namespace privgrad::places {

extern const char* const kBuild;   ///< The build folder, absolute.
extern const char* const kSource;  ///< The root of the sources, absolute.
/// The Python environment of the tests, below the user's cache (scripts/environment.sh).
extern const char* const kTestPython;

/// The built-in plugins of this build, a folder for each kind.
inline std::filesystem::path plugins() {
  return std::filesystem::path(kBuild) / "lib/privgrad/plugins";
}

}  // namespace privgrad::places
