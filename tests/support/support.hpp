#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "places.hpp"

// Catch2 v2 (Debian 12) and v3 differ in headers only for what we use.
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

/// A fresh directory that only we may write, deleted with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "privgrad-test-XXXXXX").string();
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
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
