#include "privgrad/api/run_directory.hpp"

#include <cstdlib>
#include <ctime>
#include <string>
#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::api {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 1000;

/// Turns a manifest's name into a single safe path component.
std::string as_file_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::string out(name.substr(0, kLongest));
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) c = '-';
  }
  if (out.empty() || out.front() == '.') out.insert(0, "run");
  return out;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

[[noreturn]] void fail(const fs::path& path, const std::error_code& error) {
  throw IoError(path.string() + ": the run directory could not be made: " + error.message() +
                "; name another with --out");
}

}  // namespace

DefaultRunDirectory::DefaultRunDirectory(std::string_view name) {
  const fs::path parent = "runs";
  std::error_code error;
  made_parent_ = fs::create_directory(parent, error);
  if (error) fail(parent, error);
  const std::string base = as_file_name(name) + "-" + utc_now();
  for (int i = 1; i <= kMostTries; ++i) {
    path_ = parent / (i == 1 ? base : base + "-" + std::to_string(i));
    if (fs::create_directory(path_, error)) return;
    // If the name belongs to a file that is not a directory, the next name is tried, too.
    if (error && error != std::errc::file_exists) fail(path_, error);
  }
  fail(path_, std::make_error_code(std::errc::file_exists));
}

DefaultRunDirectory::~DefaultRunDirectory() {
  // remove() does not remove directories that are not empty.
  std::error_code holds_the_run;
  fs::remove(path_, holds_the_run);
  if (made_parent_) fs::remove("runs", holds_the_run);
}

std::filesystem::path default_state_directory() {
  const auto of_environment = [](const char* name) {
    const char* value = std::getenv(name);
    // The XDG specification requires that relative paths be ignored.
    return value != nullptr && std::filesystem::path(value).is_absolute()
               ? std::filesystem::path(value)
               : std::filesystem::path();
  };
  if (const auto state = of_environment("XDG_STATE_HOME"); !state.empty())
    return state / "privgrad";
  const auto home = of_environment("HOME");
  return home.empty() ? home : home / ".local" / "state" / "privgrad";
}

}  // namespace privgrad::api
