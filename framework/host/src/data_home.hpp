// Reads environment variables and finds the user's data folder, except in set-user-id programs.
#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::host {

/// Returns an environment variable; empty in a set-user-id program, because its caller must not
/// choose the code that it loads.
std::string_view environment(const char* name);

/// Returns the user's data folder: XDG_DATA_HOME, or ~/.local/share; empty if neither is known.
std::filesystem::path data_home();

}  // namespace privgrad::host
