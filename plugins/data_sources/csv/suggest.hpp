#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/value.hpp"
#include "table.hpp"

/// What a manifest could declare of files that one may look at: for each column the narrowest type
/// that fits every value, with its range or its values and something for a value that does not fit;
/// of the target its labels, its number of classes, or that it is a real.
/// \returns parameters: columns, and labels and other_label, classes and target_fill, or task and
///   target_fill.
/// \throws ConfigError  there is no such target.
/// \throws IoError  as read_table(), but for values that do not fit.
privgrad::Value suggest_params(const std::vector<std::filesystem::path>& files,
                               const TableForm& form, const std::string& target);
