// Refusals before any row of a source is read.
#pragma once

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// In release mode, or with data.test_is_public, makes the refusals that follow from the manifest,
/// the parameters and DataSource::foreseen_info(), without reading rows. The message and the exit
/// code of these refusals then depend on no row, even if the rows cannot be read.
/// \param data  the source to be read next: the manifest's, or a client's own.
/// \throws PrivacyError for a refusal; ManifestError for parameters that the source refuses;
///   IoError if a file is absent or its header is broken.
void refuse_before_reading(const Manifest& manifest, const ComponentUse& data);

}  // namespace privgrad::core
