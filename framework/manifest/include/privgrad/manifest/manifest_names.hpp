// Names of runs: the default name, and the rule for allowed names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace privgrad::core {

/// The file's name without its extension, with '-' for characters that a name must not contain.
std::string default_name(const std::filesystem::path& file);

/// Letters, digits, '.', '_' and '-', at most 64, beginning with a letter or a digit.
bool is_name(std::string_view text);

}  // namespace privgrad::core
