// Makes the HTML page of a study from the files in its directory.
#pragma once

#include <filesystem>

#include "document.hpp"

namespace privgrad::report {

/// Whether the directory contains a study, or the beginning of a study.
bool is_study(const std::filesystem::path& directory);

/// The page of a study, which may be interrupted, from the files that docs/studies.md describes.
/// \throws IoError for the same faults as read_run().
Page study_page(const std::filesystem::path& directory);

}  // namespace privgrad::report
