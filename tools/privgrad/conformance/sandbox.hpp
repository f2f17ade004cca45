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
  /// Bytes of address space; not set where a sanitizer needs all of it.
  std::uint64_t memory = std::uint64_t{4} << 30;
};

/// Sends a line to the process outside; lines arrive in the order in which they are sent.
using Say = std::function<void(std::string_view line)>;

/// How a process ended.
struct Ending {
  std::string said;  ///< All whole lines that were said, each with its end.
  bool concluded = false;
  /// The cause of death, if it did not conclude: "it crashed: Segmentation fault", and the last
  /// output on standard error; one line.
  std::string death;
};

/// Calls `body` in a process of its own, with the caller's memory as it is now. Standard output and
/// standard error of that process go nowhere else; its standard input is empty; it ends with the
/// caller at the latest. When it has ended, this call ends the other processes of its group. It
/// concludes when `body` returns: not by exit(), whatever the code, nor by an exception.
/// \pre the caller has one thread.
/// \throws IoError if no process can be created.
Ending in_sandbox(const Limits& limits, const std::function<void(const Say&)>& body);

}  // namespace privgrad::tool
