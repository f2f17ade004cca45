// Makes the plan of a resumed run again, with the order, clients and numbers that it began with.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// As make_plan(), with the order of examples, the clients and the numbers that the run began with.
/// \param directory  of the run, with its facts.json.
/// \param state  holds the run's private folder, with the key that these were drawn with.
/// \throws as make_plan(); PrivacyError if the data's headers differ from the recorded facts;
///   IoError if the run's record, or its private folder, cannot be read.
Plan make_resumed_plan(const Manifest& manifest, const std::filesystem::path& directory,
                       const std::filesystem::path& state);

/// Calls `make`, which reads the files of a run that goes on: an error of one that was damaged or
/// lost then says what can be done.
template <class Make>
decltype(auto) with_own_files(const Make& make) {
  constexpr const char* kRemedy = "; the run can go on once the file is as it was";
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
