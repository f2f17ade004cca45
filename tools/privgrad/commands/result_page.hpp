// Writes report.html when a run or a study is finished.
#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::tool {

/// Writes report.html into the directory of a finished and recorded run or study. A failure only
/// leads to a warning, because the record is complete without the page.
/// \param what  "run" or "study", for the warning.
void write_result_page(const std::filesystem::path& directory, std::string_view what);

}  // namespace privgrad::tool
