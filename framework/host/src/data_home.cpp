#include "data_home.hpp"

#include <stdlib.h>  // secure_getenv is not in <cstdlib>

namespace privgrad::host {

namespace fs = std::filesystem;

std::string_view environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr ? value : "";
}

fs::path data_home() {
  // The XDG base directory specification requires that relative paths be ignored.
  if (fs::path given = environment("XDG_DATA_HOME"); given.is_absolute()) return given;
  if (const fs::path home = environment("HOME"); home.is_absolute()) return home / ".local/share";
  return {};
}

}  // namespace privgrad::host
