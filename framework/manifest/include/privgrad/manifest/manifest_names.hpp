// Names of runs: the default, and which are allowed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace privgrad::core {

/// The file's name without extension, with '-' for what may not be in a name of a run.
std::string default_name(const std::filesystem::path& file);

/// Letters, digits, '.', '_' and '-', at most 64, beginning with a letter or a digit.
bool is_name(std::string_view text);

}  // namespace privgrad::core
