// Compares the files that runs store for later runs, and the notes about them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "support.hpp"

using Notes = std::vector<std::string>;

/// Compares files of two runs, by name.
inline void check_same(const std::map<std::string, std::string>& a,
                       const std::map<std::string, std::string>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, content] : a) {
    INFO(name);
    REQUIRE(b.contains(name));
    CHECK(content == b.at(name));
  }
}

inline std::size_t count_of(const Notes& notes, const std::string& beginning) {
  return static_cast<std::size_t>(
      std::count_if(notes.begin(), notes.end(),
                    [&](const std::string& note) { return note.starts_with(beginning); }));
}
