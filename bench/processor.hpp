// The name of the processor, which the benchmarks print beside every figure.
#pragma once

#include <fstream>
#include <string>

/// Returns the processor's name; "unknown" if the system does not provide it.
inline std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}
