#include <sys/stat.h>

#include "privgrad/data_files.hpp"

namespace privgrad {

std::string file_identity(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path.string();
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

}  // namespace privgrad
