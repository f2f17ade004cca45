#include <stdlib.h>  // mkdtemp is not in <cstdlib>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <system_error>

#include "command.hpp"
#include "component_kinds.hpp"
#include "output.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommon = "common";

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The name becomes part of file names, C++ identifiers and CMake targets.
void check_name(const std::string& what, const std::string& name, std::string_view also_allowed) {
  constexpr std::size_t kLongest = 31;  // a plugin's note holds 63 characters for "VENDOR.NAME"
  const bool plain = std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || also_allowed.find(c) != also_allowed.npos;
  });
  if (name.empty() || name.size() > kLongest || !is_letter(name.front()) || !plain) {
    throw UsageError(what + " is '" + name + "', allowed are a to z, 0 to 9 and " +
                     std::string(also_allowed) + ", a letter first, at most " +
                     std::to_string(kLongest) + " characters");
  }
}

void check_kind(const std::string& kind) {
  if (std::find(kComponentKinds.begin(), kComponentKinds.end(), kind) != kComponentKinds.end())
    return;
  const std::vector<std::string> kinds(kComponentKinds.begin(), kComponentKinds.end());
  const std::string nearest = nearest_name(kind, kinds);
  std::string all;
  for (const std::string& name : kinds) all += (all.empty() ? "" : ", ") + name;
  throw UsageError("KIND is '" + kind + "', " +
                   (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") + "there are " +
                   all);
}

std::string pascal_case(const std::string& name) {
  std::string out;
  bool begins = true;
  for (const char c : name) {
    if (c == '_') {
      begins = true;
      continue;
    }
    out += begins && is_letter(c) ? static_cast<char>(c - 'a' + 'A') : c;
    begins = false;
  }
  return out;
}

/// share/privgrad/plugin_template below the prefix in which this program is installed.
fs::path template_folder() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  fs::path folder = program.parent_path().parent_path() / "share/privgrad/plugin_template";
  if (unknown || !fs::is_directory(folder / kCommon, unknown)) {
    throw IoError(folder.string() + ": the plugin template is missing; install PrivGrad again");
  }
  return folder;
}

using Tokens = std::map<std::string, std::string>;

std::string filled_in(std::string text, const Tokens& tokens) {
  for (const auto& [token, value] : tokens) {
    for (std::size_t at = text.find(token); at != text.npos; at = text.find(token, at)) {
      text.replace(at, token.size(), value);
      at += value.size();
    }
  }
  return text;
}

std::string content_of(const fs::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  return core::read_whole(file, kMostBytes);
}

/// \returns the new files, by path relative to the new folder.
std::map<fs::path, std::string> instantiate(const fs::path& from, const Tokens& tokens) {
  std::map<fs::path, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const std::string relative = fs::relative(entry.path(), from).string();
    files[filled_in(relative, tokens)] = filled_in(content_of(entry.path()), tokens);
  }
  return files;
}

/// 0777, reduced by the umask.
fs::perms usual_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<fs::perms>(0777 & ~mask);
}

/// \returns the folder's path without a trailing slash.
/// \throws IoError if the path exists.
fs::path free_place(const std::string& folder) {
  fs::path place = fs::absolute(folder).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  std::error_code failure;
  if (fs::exists(place, failure) && !(fs::is_directory(place) && fs::is_empty(place))) {
    throw IoError(folder + ": exists and is not an empty folder; name another with --dir");
  }
  return place;
}

/// Writes all files or none: the files go into a temporary folder, which is then renamed.
void write_folder(const fs::path& folder, const std::map<fs::path, std::string>& files) {
  fs::create_directories(folder.parent_path());
  std::string unfinished = (folder.parent_path() / ".privgrad-new-XXXXXX").string();
  if (::mkdtemp(unfinished.data()) == nullptr) {
    throw IoError(folder.parent_path().string() +
                  ": cannot be written: " + std::generic_category().message(errno));
  }
  try {
    for (const auto& [file, content] : files) {
      fs::create_directories((unfinished / file).parent_path());
      core::write_atomically(unfinished / file, content);
    }
    fs::permissions(unfinished, usual_permissions());  // mkdtemp: for the owner only
    fs::rename(unfinished, folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
}

int do_plugins_new(const Arguments& arguments) {
  const std::string& kind = arguments.operand(0);
  const std::string& name = arguments.operand(1);
  const std::string vendor = arguments.has("vendor") ? arguments.text("vendor") : "example";
  check_kind(kind);
  check_name("NAME", name, "_");
  check_name("--vendor", vendor, "_-");
  const Tokens tokens{{"@NAME@", name},
                      {"@CLASS@", pascal_case(name)},
                      {"@KIND@", kind},
                      {"@ROOM@", kind + "s"},
                      {"@VENDOR@", vendor}};

  const fs::path source = template_folder();
  std::map<fs::path, std::string> files = instantiate(source / kind, tokens);
  files.merge(instantiate(source / kCommon, tokens));

  const std::string folder = arguments.has("dir") ? arguments.text("dir") : name;
  write_folder(free_place(folder), files);
  print("a new " + kind + " is in " + folder + "; its README.md says how to build it\n");
  return 0;
}

}  // namespace

Command plugins_new_command() {
  return {.usage = {.name = "plugins new",
                    .summary = "Writes a small, working plugin with its build files and its test, "
                               "as a start for your own.",
                    .operands = {"KIND", "NAME"},
                    .options = {{.name = "dir",
                                 .value = "DIR",
                                 .doc = "The folder to make, new or empty; default NAME."},
                                {.name = "vendor",
                                 .value = "NAME",
                                 .doc = "Its author, for its full name; default example."}},
                    .details = "KIND is accountant, aggregator, backend, clipping, data_source, "
                               "model, optimizer, sampler,\nschedule or transform.",
                    .examples = {"privgrad plugins new schedule warm_up",
                                 "privgrad plugins new accountant tight --dir plugins/tight "
                                 "--vendor acme"}},
          .run = do_plugins_new};
}

}  // namespace privgrad::tool
