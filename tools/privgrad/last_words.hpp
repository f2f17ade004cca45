#pragma once

#include "privgrad/catalog.hpp"

// A process that dies in a plugin's code says in whose, and one that a plugin ends has not succeeded.
namespace privgrad::tool {

/// From now on:
/// - a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) writes one line to standard error, which
///   names the plugin in whose code it happened, or whose code had called what crashed; the process
///   then ends as by that signal;
/// - exit(), quick_exit() and _exit() end the process with code 1, after a line that names the plugin
///   that called it, until conclude() is called. Processes that this one starts are not concerned.
/// What nobody can notice from within: a plugin that makes the system call itself. What dies without
/// a line: a stack that overflows on another than the main thread.
void watch_for_the_end();

/// The command has come to its end: exit codes are its own again.
void conclude() noexcept;

/// Remembers where the code of a loaded plugin is.
void name_code_of(const PluginIdentity& plugin);

}  // namespace privgrad::tool
