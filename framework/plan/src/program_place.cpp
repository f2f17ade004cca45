#include "program_place.hpp"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMaps = "/proc/self/maps";

/// The file that is mapped at an address of this process.
fs::path file_mapped_at(std::uintptr_t address) {
  std::ifstream maps(kMaps);
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    std::string rights, offset, device, inode, path;
    char dash = '-';
    words >> std::hex >> begin >> dash >> end >> rights >> offset >> device >> inode;
    std::getline(words >> std::ws, path);
    if (begin <= address && address < end && path.starts_with('/')) return path;
  }
  throw IoError(std::string(kMaps) +
                ": does not say from which file this program runs, so the site's policy cannot be "
                "found");
}

}  // namespace

fs::path program_prefix() {
  const fs::path file = file_mapped_at(reinterpret_cast<std::uintptr_t>(&program_prefix));
  const fs::path folder = file.parent_path();
  if (folder.filename() == "bin") return folder.parent_path();
  return fs::weakly_canonical(folder / "_home");
}

}  // namespace privgrad::core
