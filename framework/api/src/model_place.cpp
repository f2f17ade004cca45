#include "privgrad/api/model_place.hpp"

#include <system_error>

#include "privgrad/error.hpp"
#include "privgrad/train/run.hpp"

namespace privgrad::api {

std::filesystem::path model_file_of(const std::string& operand) {
  std::error_code absent;
  std::filesystem::path path = operand;
  if (!std::filesystem::is_directory(path, absent)) return path;
  std::filesystem::path file = path / "model.safetensors";
  if (!std::filesystem::exists(file, absent)) {
    throw IoError(operand + ": contains no model.safetensors; an interrupted run has no model");
  }
  return file;
}

void check_is_over(const std::filesystem::path& model) {
  const std::filesystem::path sign =
      std::filesystem::absolute(model).parent_path() / core::kResumeFile;
  if (!std::filesystem::exists(std::filesystem::symlink_status(sign))) return;
  throw PrivacyError(model.string() +
                     ": its run is not finished (resume.json), and its keys still exist; resume "
                     "it, or finish it with privgrad run --resume DIR --finish");
}

}  // namespace privgrad::api
