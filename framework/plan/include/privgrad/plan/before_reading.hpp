// The refusals that are made before any row of a source is read.
#pragma once

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// Makes all refusals that follow from the manifest, parameters and headers, as far as the source
/// reports these (DataSource::foreseen_info()). Message and exit code then depend on no row, even
/// if the rows cannot be read.
/// \param data  the source to be read next: the manifest's, or a client's own.
/// \throws PrivacyError; ManifestError if a file is absent or its header is broken.
void refuse_before_reading(const Manifest& manifest, const ComponentUse& data);

}  // namespace privgrad::core
