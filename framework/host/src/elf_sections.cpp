#include "elf_sections.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "privgrad/error.hpp"

namespace privgrad::host {
namespace {

constexpr const char* kMalformed = "its ELF section table is malformed";

Elf64_Ehdr read_header(const OpenFile& file) {
  constexpr const char* kNoPlugin = "not a 64-bit ELF shared object";
  if (file.size() < sizeof(Elf64_Ehdr)) throw PluginError(kNoPlugin);
  Elf64_Ehdr header;
  file.read(0, &header, sizeof header);
  constexpr unsigned char kOrder =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != kOrder || header.e_type != ET_DYN) {
    throw PluginError(kNoPlugin);
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) {
    throw PluginError(kMalformed);
  }
  return header;
}

}  // namespace

Sections::Sections(const OpenFile& file) {
  const Elf64_Ehdr header = read_header(file);
  // There are fewer than 2^16 sections (e_shnum has 16 bits), and read() refuses sections that are
  // not in the file.
  all_.resize(header.e_shnum);
  file.read(header.e_shoff, all_.data(), all_.size() * sizeof(Elf64_Shdr));
  names_ = content_of(file, all_[header.e_shstrndx]);
}

const Elf64_Shdr* Sections::find(std::string_view name) const {
  const auto is_it = [&](const Elf64_Shdr& section) {
    return section.sh_name < names_.size() && names_.c_str() + section.sh_name == name;
  };
  const auto found = std::ranges::find_if(all_, is_it);
  return found == all_.end() ? nullptr : &*found;
}

const Elf64_Shdr* Sections::find(std::uint32_t type) const {
  const auto found =
      std::ranges::find_if(all_, [&](const Elf64_Shdr& one) { return one.sh_type == type; });
  return found == all_.end() ? nullptr : &*found;
}

const Elf64_Shdr& Sections::linked(const Elf64_Shdr& section) const {
  if (section.sh_link >= all_.size()) throw PluginError(kMalformed);
  return all_[section.sh_link];
}

std::string content_of(const OpenFile& file, const Elf64_Shdr& section) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;
  if (section.sh_size > kMostBytes) throw PluginError(kMalformed);
  std::string content(section.sh_size, '\0');
  file.read(section.sh_offset, content.data(), content.size());
  return content;
}

}  // namespace privgrad::host
