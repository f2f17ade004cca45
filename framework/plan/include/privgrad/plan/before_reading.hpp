// Refusals that come before any row of a source is read.
#pragma once

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// Refuses everything that must be refused because of the manifest, parameters and headers, as far
/// as the source reports it (DataSource::foreseen_info()): message and exit code are then the same
/// for rows that could not even be read.
/// \param data  the source to be read next: the manifest's, or a client's own.
/// \throws PrivacyError; ManifestError if a file is absent or its header is broken.
void refuse_before_reading(const Manifest& manifest, const ComponentUse& data);

}  // namespace privgrad::core
