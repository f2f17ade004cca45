// Suggests the column declarations for CSV files that one is allowed to look at.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/value.hpp"
#include "table.hpp"

/// Declarations that a manifest could make for files that one may look at: for each column the
/// narrowest type that fits every value, with its range or its values and a fill for values that do
/// not fit; for the target its labels, its number of classes, or that it is a real.
/// \returns parameters: columns, and labels and other_label, classes and target_fill, or task and
///   target_fill.
/// \throws ConfigError  there is no such target.
/// \throws IoError  as read_table(), except for values that do not fit.
privgrad::Value suggest_params(const std::vector<std::filesystem::path>& files,
                               const TableForm& form, const std::string& target);
