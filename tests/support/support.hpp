// The basics of almost every test: Catch2, paths of the build, temporary folders and files.
#pragma once

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "places.hpp"

// For our purposes, Catch2 v2 (Debian 12) and v3 differ only in headers.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

inline const std::filesystem::path kSource = privgrad::places::kSource;
inline const std::filesystem::path kBuild = privgrad::places::kBuild;
inline const std::filesystem::path kPlugins = privgrad::places::plugins();
inline const std::filesystem::path kFixtures = kBuild / "tests/fixtures";
inline const std::string kProgram = kBuild / "bin/privgrad";

/// The place of a test's folder.
enum class On {
  /// In memory, where a test does not wait for the disk; on disk if the machine has little such
  /// memory (containers often have 64 MB), or does not allow loading plugins from there.
  memory,
  /// In memory, even if there is little room: for data files of a few kilobytes.
  little_memory,
  /// A folder on disk, for tests of written files.
  disk
};

/// A new directory that only this user may write, deleted with the object.
class TempDir {
 public:
  explicit TempDir(On where = On::memory) {
    std::string name = (place(where) / "privgrad-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::filesystem::path place(On where) {
    // The usual folder for temporary files may be in memory too.
    if (where == On::disk) return kBuild;
    const char* memory = "/dev/shm";
    struct statvfs room {};
    if (::access(memory, W_OK | X_OK) == 0 && ::statvfs(memory, &room) == 0) {
      const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
      const bool loads = (room.f_flag & ST_NOEXEC) == 0;
      if (where == On::little_memory ? free >= 16 << 20 : loads && free >= 1 << 30) return memory;
    }
    return std::filesystem::temp_directory_path();
  }

  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the text of every file below a folder, by its relative path.
inline std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      all[std::filesystem::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return all;
}
