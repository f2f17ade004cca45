// Runs a function in a child process with limits, so that a plugin's crash does no harm.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace privgrad::tool {

/// The resources that a process may use.
struct Limits {
  std::chrono::seconds time{60};  ///< Wall-clock time.
  /// Bytes of address space; no limit if a sanitizer needs all of it.
  std::uint64_t memory = std::uint64_t{4} << 30;
};

/// Sends a line to the parent process; lines arrive in the order in which they were sent.
using Say = std::function<void(std::string_view line)>;

/// How a process ended.
struct Ending {
  std::string said;        ///< All complete lines that were sent, each with its line break.
  bool concluded = false;  ///< Whether the process finished.
  /// The cause of death if the process did not finish, as one line: "it crashed: Segmentation
  /// fault" and the last output on standard error.
  std::string death;
};

/// Calls `body` in a child process, which starts with a copy of the caller's memory. This call
/// reads the child's standard output and standard error. The child has an empty standard input, and
/// never outlives the caller. When the child has ended, this call kills the other processes of the
/// child's group. The child has finished only if `body` returns, not if `body` calls exit() or
/// throws.
/// \pre the caller has one thread.
/// \throws IoError if no process can be created.
Ending in_sandbox(const Limits& limits, const std::function<void(const Say&)>& body);

}  // namespace privgrad::tool
