// Reads the table of influences for the schedule `dynamic`.
#pragma once

#include <filesystem>
#include <vector>

#include "privgrad/influence.hpp"

/// The influence of steps as a table, the file that `privgrad influence` writes:
///
///     step,influence,standard_error
///     0,0.00031,0.00002
///     10,0.00052,0.00003
///
/// Steps count from 0 and increase; the third column may be missing. Empty lines and lines that
/// begin with '#' are ignored, except "# unaccounted", a note that the influence was measured on
/// private rows without a charge.
struct InfluenceFile {
  std::vector<privgrad::InfluenceEstimate> rows;  ///< At least one row.
  bool is_unaccounted = false;
};

/// \throws IoError that names the file, and for a bad row also the line.
InfluenceFile read_influence_file(const std::filesystem::path& file);
