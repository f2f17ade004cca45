#include "privgrad/record/scratch_folder.hpp"

#include <stdlib.h>  // mkdtemp is not in <cstdlib>

#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::core {

ScratchFolder::ScratchFolder(const std::string& purpose) {
  namespace fs = std::filesystem;
  for (const fs::path& place : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
    std::string name = (place / ("privgrad-" + purpose + "-XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) continue;
    path_ = name;
    return;
  }
  throw IoError("cannot make a temporary directory in " + fs::temp_directory_path().string());
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace privgrad::core
