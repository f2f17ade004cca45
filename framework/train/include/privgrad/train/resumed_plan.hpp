// Recreates the plan of a resumed run, with the order, clients and numbers with which it began.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The same as make_plan(), with the order of examples, the clients and the numbers with which the
/// run began.
/// \param directory  the run's directory, with its facts.json.
/// \param state  contains the run's private folder, with the key from which the order and the
///   clients were drawn.
/// \throws as make_plan(); PrivacyError if the data's headers differ from the recorded facts;
///   IoError if the run's record or its private folder cannot be read.
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
