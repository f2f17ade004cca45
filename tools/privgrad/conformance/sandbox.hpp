#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace privgrad::tool {

/// What a process may use.
struct Limits {
  std::chrono::seconds time{60};  ///< By the clock on the wall.
  /// Bytes of address space; not set where a sanitizer needs all of it.
  std::uint64_t memory = std::uint64_t{4} << 30;
};

/// Says something to the process outside; in the order in which it is said.
using Say = std::function<void(std::string_view line)>;

/// What became of a process.
struct Ending {
  std::string said;  ///< All whole lines that were said, each with its end.
  bool concluded = false;
  /// How it ended, if it did not conclude: "it crashed: Segmentation fault", and what was last
  /// written to standard error; one line.
  std::string death;
};

/// Calls `body` in a process of its own, with the caller's memory as it is now. Standard output and
/// standard error of that process go nowhere else; its standard input is empty; it ends with the
/// caller at the latest, and so do processes that it started. It concludes by `body` returning: not
/// by exit(), whatever the code, nor by an exception.
/// \pre the caller has one thread.
/// \throws IoError if no process can be had.
Ending in_sandbox(const Limits& limits, const std::function<void(const Say&)>& body);

}  // namespace privgrad::tool
