// The results of a study as a table for a paper.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::report {

enum class TableForm { latex, markdown, csv };

/// Means with their 95 % intervals: a row for each arm and a column for each metric. A study with
/// levels has one table per metric, with a row for each variant and a column for each level. The
/// best mean of a column is bold if it differs from all others by paired t tests over the seeds, at
/// 0.05 with Holm's correction. A note names the seeds and the guarantee. LaTeX needs the package
/// booktabs; CSV has mean, low and high in separate columns, and no note.
/// \throws ConfigError if the directory contains no finished study; IoError if a file is broken.
std::string paper_table(const std::filesystem::path& directory, TableForm form);

}  // namespace privgrad::report
