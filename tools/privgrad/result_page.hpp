#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::tool {

/// Writes report.html into the directory of a run or a study that is done and recorded: that its
/// page could not be made does not undo it, and is a warning.
/// \param what  "run" or "study", for the warning.
void write_result_page(const std::filesystem::path& directory, std::string_view what);

}  // namespace privgrad::tool
