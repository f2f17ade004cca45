// Plugin files and hosts for tests of finding, trusting and loading plugins.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/value.hpp"
#include "support.hpp"

namespace fs = std::filesystem;

inline const fs::path kConstant = kPlugins / "schedules/constant.privgrad.so";

inline fs::path fixture(const std::string& name) {
  return kFixtures / ("test_" + name + ".privgrad.so");
}

/// Returns a host that trusts the built-in plugins and the fixtures.
inline privgrad::host::PluginHost make_host() {
  return privgrad::host::PluginHost({.directories = {kPlugins, kFixtures}, .pins = {}});
}

/// Makes a copy with explicit permissions, because tests must not depend on the build's umask.
inline fs::path copy_plugin(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  fs::copy_file(from, to);
  fs::permissions(to, fs::perms(0644));
  return to;
}

/// Writes a new file, because ext4 waits for the disk when a file is truncated and rewritten.
inline void replace_file(const fs::path& file, const std::string& text) {
  fs::remove(file);
  write_file(file, text);
}

/// Returns the exception of a call as text; "" if there is none.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

/// Sets the environment variable during the object's lifetime.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : Environment(name) {
    ::setenv(name, value.c_str(), 1);
  }
  explicit Environment(const char* name) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};
