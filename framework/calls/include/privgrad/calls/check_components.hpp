#pragma once

#include <exception>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::calls {

/// Makes every component of a manifest once: what their parameters say together is checked by their
/// constructors. Opens no data.
/// \throws core::ManifestError with what all of them find.
void check_components(const core::Manifest& manifest);

/// The lines of an error: one problem each.
std::vector<std::string> lines_of(const std::exception& problem);

}  // namespace privgrad::calls
