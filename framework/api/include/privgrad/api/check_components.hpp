// Checks all component parameters of a manifest by constructing every component once.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::api {

/// Constructs every component of a manifest once, because constructors check combinations of
/// parameters. Opens no data.
/// \throws core::ManifestError with the problems of all components.
void check_components(const core::Manifest& manifest);

/// Returns the problems in an error, one line each.
std::vector<std::string> lines_of(const std::exception& problem);

}  // namespace privgrad::api
