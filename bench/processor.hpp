#pragma once

#include <fstream>
#include <string>

/// The processor's name, which goes with every figure; "unknown" where the system does not say.
inline std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}
