// Recreates the plan of a resumed run, with its original order of examples, clients and numbers.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Does the same as make_plan(), but with the run's original order of examples, clients and
/// numbers.
/// \param directory  the run's directory, with its facts.json.
/// \param state  the user's state folder, with the run's private folder.
/// \throws as make_plan(); PrivacyError if the new plan's facts differ from facts.json; IoError if
///   facts.json or the private folder cannot be read.
Plan make_resumed_plan(const Manifest& manifest, const std::filesystem::path& directory,
                       const std::filesystem::path& state);

/// Calls `make`, which reads the files of a resumed run, and adds a remedy to errors about damaged
/// or missing files.
template <class Make>
decltype(auto) with_own_files(const Make& make) {
  constexpr const char* kRemedy = "; restore the file, and the run can be resumed";
  try {
    return make();
  } catch (const ManifestError& problem) {
    std::vector<std::string> lines = problem.lines();
    lines.back() += kRemedy;
    throw ManifestError(std::move(lines));
  } catch (const IoError& problem) {
    throw IoError(problem.what() + std::string(kRemedy));
  }
}

}  // namespace privgrad::core
