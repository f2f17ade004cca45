#include "manifest_paths.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "privgrad/manifest/yaml.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

class Resolver {
 public:
  Resolver(const std::vector<fs::path>& folders, ManifestProblems& problems)
      : folders_(folders), problems_(problems) {}

  void object(const std::vector<ParamSpec>& specs, Value& value, const std::string& where) {
    for (const ParamSpec& spec : specs) {
      if (Value* member = value.find(spec.name)) one(spec, *member, where + "." + spec.name);
    }
  }

 private:
  void one(const ParamSpec& spec, Value& value, const std::string& where) {
    if (spec.type == ParamType::object) {
      object(spec.fields, value, where);
    } else if (auto* items = std::get_if<Value::List>(&value.data());
               items != nullptr && spec.type == ParamType::list) {
      for (std::size_t i = 0; i < items->size(); ++i) {
        one(spec.element.front(), (*items)[i], where + "." + std::to_string(i));
      }
    } else if (auto* text = std::get_if<std::string>(&value.data());
               text != nullptr && !text->empty() && spec.type == ParamType::path) {
      *text = find(*text, value.mark, where, spec);
    }
  }

  static fs::path here() {
    std::error_code failure;
    const fs::path folder = fs::current_path(failure);
    return failure ? fs::path(".") : folder;
  }

  /// Whether the pattern's folder contains a file whose name matches the pattern's last part.
  static bool fits_some(const fs::path& pattern) {
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(pattern.parent_path(), failure)) {
      std::error_code unknown;
      if (entry.is_regular_file(unknown) &&
          ::fnmatch(pattern.filename().c_str(), entry.path().filename().c_str(), FNM_PERIOD) == 0)
        return true;
    }
    return false;
  }

  std::string find(const std::string& given, Mark mark, const std::string& where,
                   const ParamSpec& spec) {
    const bool is_pattern =
        spec.takes_pattern && fs::path(given).filename().string().find_first_of("*?") != given.npos;
    std::vector<std::string> tried;
    std::vector<fs::path> folders = folders_;
    // A path on the command line is relative to the current directory, like all other arguments.
    if (problems_.position(mark).starts_with("--set ")) folders.insert(folders.begin(), here());
    for (const fs::path& folder : folders) {
      const fs::path candidate = (folder / given).lexically_normal();
      std::error_code error;
      const fs::file_status status = fs::status(candidate, error);
      const bool is_folder = fs::is_directory(status);
      if (is_folder && !spec.is_folder)
        return refuse(given, mark, where, candidate.string() + " is a directory");
      if (fs::exists(status) && spec.is_folder && !is_folder)
        return refuse(given, mark, where, candidate.string() + " is not a directory");
      if (fs::exists(status) && !is_folder && !fs::is_regular_file(status))
        return refuse(given, mark, where, candidate.string() + " is a device or a pipe");
      if (fs::exists(status) || (is_pattern && fits_some(candidate))) {
        // Absolute paths become part of the resolved manifest, which is UTF-8 text.
        if (!find_bad_character(candidate.string())) return candidate.string();
        return refuse(given, mark, where, "its folder has a name that is not plain UTF-8 text");
      }
      const bool absent = status.type() == fs::file_type::not_found;
      const std::string place = candidate.string() + (absent ? "" : " (" + error.message() + ")");
      // Two folders may be the same.
      if (std::ranges::find(tried, place) == tried.end()) tried.push_back(place);
      if (fs::path(given).is_absolute()) break;
    }
    std::string hint, places;
    for (const std::string& place : tried) places += (places.empty() ? "" : " and ") + place;
    if (folders_.size() == 1 && fs::path(given).is_relative()) {
      hint =
          "; the environment variable PRIVGRAD_DATA_DIR, which may name a second folder to look "
          "in, is not set";
    }
    return refuse(given, mark, where,
                  std::string(is_pattern       ? "no file matches"
                              : spec.is_folder ? "there is no such folder"
                                               : "there is no such file") +
                      ": looked for " + places + hint);
  }

  std::string refuse(const std::string& given, Mark mark, const std::string& where,
                     const std::string& why) {
    problems_.add(mark, where, "is '" + one_line(given, 200) + "', but " + why,
                  Fault::missing_file);
    return given;
  }

  const std::vector<fs::path>& folders_;
  ManifestProblems& problems_;
};

}  // namespace

std::vector<fs::path> data_folders(const fs::path& manifest) {
  std::vector<fs::path> folders{fs::absolute(manifest).parent_path()};
  const char* data = std::getenv("PRIVGRAD_DATA_DIR");
  if (data != nullptr && *data != '\0') folders.push_back(fs::absolute(data));
  return folders;
}

void resolve_paths(const std::vector<ParamSpec>& specs, Value& value, const std::string& where,
                   const std::vector<fs::path>& folders, ManifestProblems& problems) {
  if (folders.empty()) return;
  Resolver(folders, problems).object(specs, value, where);
}

}  // namespace privgrad::core
