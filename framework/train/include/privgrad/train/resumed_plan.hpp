// Makes the plan of a resumed run again, with the order, clients and numbers that it began with.
#pragma once

#include <filesystem>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// As make_plan(), with the order of examples, the clients and the numbers that the run began with.
/// \param directory  of the run, with its facts.json.
/// \param state  holds the run's private folder, with the key that these were drawn with.
/// \throws as make_plan(); PrivacyError if the data's headers differ from the recorded facts;
///   IoError if the run's record, or its private folder, cannot be read.
Plan make_resumed_plan(const Manifest& manifest, const std::filesystem::path& directory,
                       const std::filesystem::path& state);

}  // namespace privgrad::core
