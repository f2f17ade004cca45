// If a process dies in a plugin's code, names that plugin and prevents exit code 0.
#pragma once

#include <string>

#include "privgrad/catalog.hpp"

namespace privgrad::tool {

/// The exit code of a process with Silence::while_loading in which loading a plugin took more than
/// ten seconds, or more than PRIVGRAD_LOADING_SECONDS.
inline constexpr int kNotLoadedInTime = 124;

/// Whether lines are suppressed while a plugin is being loaded.
enum class Silence { never, while_loading };
/// From now on:
/// - a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) writes one line to standard error, which
///   names the plugin whose code crashed or had called the code that crashed; the process then ends
///   by that signal;
/// - until conclude() is called, exit(), quick_exit() and _exit() end the process with code 1,
///   after a line that names the plugin that called the function. Child processes are not affected;
/// - if loading a plugin takes more than a minute (PRIVGRAD_LOADING_SECONDS), the process ends with
///   code 1, after a line that names the plugin's file. With Silence::while_loading, the limit is
///   ten seconds, and the code kNotLoadedInTime.
/// A direct system call to exit, and a stack overflow on a thread other than the main one, end the
/// process without a line.
void watch_for_the_end(Silence silence = Silence::never);

/// Marks the end of the command: from now on exit codes are no longer changed.
void conclude() noexcept;

/// Remembers the addresses of a loaded plugin's code.
void name_code_of(const PluginIdentity& plugin);

/// Returns the last plugin whose code threw something other than a std::exception, or had called
/// code that threw it; "" if there is none.
std::string plugin_that_threw();

}  // namespace privgrad::tool
