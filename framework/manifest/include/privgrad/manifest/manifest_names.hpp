// Names of runs: the default name, and the rule for allowed names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace privgrad::core {

/// Returns the file's name without its extension, made a valid name: '-' replaces characters that
/// are not allowed, and "run" is prepended if necessary.
std::string default_name(const std::filesystem::path& file);

/// Whether a text is at most 64 letters, digits, '.', '_' and '-', the first a letter or a digit.
bool is_name(std::string_view text);

}  // namespace privgrad::core
