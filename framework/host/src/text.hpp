// Decides which texts from plugins and lock files may be used in messages and as names.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::host {

/// The suffix of every plugin file's name.
inline constexpr std::string_view kPluginSuffix = ".privgrad.so";

/// True for 1 or more printable ASCII characters without '"' and '\\': such a text can be used
/// unchanged in a message or between the quotes of a lock file.
bool is_plain_text(std::string_view text) noexcept;

/// True for 1 or more letters, digits, '.', '_' and '-'; ':' would make "plugin:name" ambiguous.
bool is_plugin_name(std::string_view text) noexcept;

/// Returns the text with each control character replaced by a space, so that errors are one line.
std::string one_line(std::string text);

}  // namespace privgrad::host
