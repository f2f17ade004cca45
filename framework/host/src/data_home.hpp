// Reads the environment and finds the user's data folder, only where they can be trusted.
#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::host {

/// Returns a variable of the environment; empty in a set-user-id program, whose caller must not
/// choose its code.
std::string_view environment(const char* name);

/// Returns the user's data folder: XDG_DATA_HOME, or ~/.local/share; empty if neither is known.
std::filesystem::path data_home();

}  // namespace privgrad::host
