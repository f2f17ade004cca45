// The section of a study's page about the privacy cost of choosing among its arms.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::report {

/// The section of a study's page on the privacy cost of choosing among many arms.
/// \param results  results.json; an empty object if there is none yet.
/// \param source  the name of the file, for errors.
/// \throws IoError if a member has the wrong type.
std::string choice_section(const nlohmann::json& results, const std::string& source);

}  // namespace privgrad::report
