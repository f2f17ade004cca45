// Runs Python with packages whose results some tests compare with PrivGrad's.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "process.hpp"

/// Calls the Python into which `scripts/install-dependencies.sh --test` installs packages that
/// Debian lacks; the PATH's python3 if there is none.
inline Outcome python(std::vector<std::string> words, const std::filesystem::path& directory) {
  const auto variable = [](const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? std::string(value) : otherwise;
  };
  const std::string cache =
      variable("XDG_CACHE_HOME", variable("HOME", "/nonexistent") + "/.cache");
  const std::string made = cache + "/" + privgrad::places::kTestPython + "/bin/python3";
  if (std::filesystem::exists(made)) {
    words.insert(words.begin(), made);
  } else {
    words.insert(words.begin(), {"/usr/bin/env", "python3"});
  }
  return call({.words = std::move(words),
               .environment = {{"PATH", variable("PATH", "/usr/bin")}},
               .directory = directory});
}

/// \param packages  such as "numpy, safetensors".
inline bool python_has(const std::string& packages) {
  return python({"-c", "import " + packages}, std::filesystem::temp_directory_path()).exit_code ==
         0;
}
