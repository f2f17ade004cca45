#include "privgrad/api/model_place.hpp"

#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::api {

std::filesystem::path model_file_of(const std::string& operand) {
  std::error_code absent;
  std::filesystem::path path = operand;
  if (!std::filesystem::is_directory(path, absent)) return path;
  std::filesystem::path file = path / "model.safetensors";
  if (!std::filesystem::exists(file, absent)) {
    throw IoError(operand + ": holds no model.safetensors; a run that was cut off has no model");
  }
  return file;
}

}  // namespace privgrad::api
