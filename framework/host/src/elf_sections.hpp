// Reads the sections of an ELF file; checks all sizes and offsets, because the file may be hostile.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "open_file.hpp"

namespace privgrad::host {

/// The names and places of a file's sections.
class Sections {
 public:
  /// \throws PluginError if the file is not a 64-bit ELF shared object.
  explicit Sections(const OpenFile& file);

  /// \returns null if no section has this name.
  const Elf64_Shdr* find(std::string_view name) const;
  /// \returns null if no section has this type (SHT_...).
  const Elf64_Shdr* find(std::uint32_t type) const;
  /// Returns the section that `section` refers to, such as its string table.
  /// \throws PluginError if there is no such section.
  const Elf64_Shdr& linked(const Elf64_Shdr& section) const;

 private:
  std::vector<Elf64_Shdr> all_;
  std::string names_;
};

/// \throws PluginError if the section is not in the file, or is larger than 1 MiB.
std::string content_of(const OpenFile& file, const Elf64_Shdr& section);

}  // namespace privgrad::host
