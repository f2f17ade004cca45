#include "privgrad/dataset_cache.hpp"

#include <cstdlib>

namespace privgrad {
namespace {

std::filesystem::path environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::filesystem::path dataset_cache() {
  if (const auto given = environment("PRIVGRAD_CACHE_DIR"); !given.empty()) {
    return std::filesystem::absolute(given);
  }
  // The XDG base directory specification requires that relative paths be ignored.
  if (const auto cache = environment("XDG_CACHE_HOME"); cache.is_absolute()) {
    return cache / "privgrad/datasets";
  }
  if (const auto home = environment("HOME"); home.is_absolute()) {
    return home / ".cache/privgrad/datasets";
  }
  return {};
}

}  // namespace privgrad
