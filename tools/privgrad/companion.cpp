#include "companion.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

std::string path_of(const std::string& name, const std::string& remedy) {
  std::error_code unknown;
  const fs::path command = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path companion = command.parent_path().parent_path() / "lib/privgrad" / name;
  if (unknown || !fs::exists(companion, unknown)) {
    throw IoError(companion.string() + ": is missing; " + remedy);
  }
  return companion.string();
}

}  // namespace

void become_companion(const std::string& name, std::vector<std::string> words,
                      const std::string& remedy) {
  words.insert(words.begin(), path_of(name, remedy));
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  throw IoError(words.front() + ": cannot be started: " + std::generic_category().message(errno));
}

}  // namespace privgrad::tool
