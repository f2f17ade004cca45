// The results of a study as a table for a paper.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::report {

enum class TableForm { latex, markdown, csv };

/// Means with their 95 % intervals: a row for each arm and a column for each metric, or, in a study
/// with levels, a row for each variant and a column for each level, in one table per metric. The
/// best mean of a column is in bold if it differs from all others: paired t tests over the seeds,
/// Holm's correction, at 0.05. A note names the seeds and the guarantee. LaTeX needs the package
/// booktabs; CSV has mean, low and high in separate columns, and no note.
/// \throws ConfigError if the directory contains no finished study; IoError if a file is broken.
std::string paper_table(const std::filesystem::path& directory, TableForm form);

}  // namespace privgrad::report
