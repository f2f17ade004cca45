#include "elf_note.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "privgrad/error.hpp"
#include "text.hpp"

namespace privgrad::host {
namespace {

constexpr std::array<char, 14> kNoteSection{".privgrad.abi"};

template <class T>
T read_at(const OpenFile& file, std::uint64_t offset) {
  T value;
  file.read(offset, &value, sizeof value);
  return value;
}

Elf64_Ehdr read_header(const OpenFile& file) {
  constexpr const char* kNoPlugin = "not a 64-bit ELF shared object";
  if (file.size() < sizeof(Elf64_Ehdr)) throw PluginError(kNoPlugin);
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  constexpr unsigned char kOrder =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != kOrder || header.e_type != ET_DYN) {
    throw PluginError(kNoPlugin);
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) {
    throw PluginError("its ELF section table is malformed");
  }
  return header;
}

template <std::size_t N>
std::string_view terminated_text(const char (&field)[N]) {
  const auto* end = std::find(field, field + N, '\0');
  if (end == field + N) throw PluginError("its plugin note is malformed: a text has no end");
  return {field, end};
}

void check(const AbiNote& note) {
  if (std::memcmp(note.magic, AbiNote{}.magic, sizeof note.magic) != 0 ||
      note.size < sizeof(AbiNote)) {
    throw PluginError("its plugin note is malformed: wrong magic or size");
  }
  if (!is_plain_text(terminated_text(note.abi_tag)) ||
      !is_plugin_name(terminated_text(note.plugin_name)) ||
      !is_plain_text(terminated_text(note.plugin_version))) {
    throw PluginError(
        "its plugin note is malformed: name (letters, digits, '.', '_', '-'), version and ABI "
        "must be printable and not empty");
  }
}

}  // namespace

// Boost.DLL 1.74's library_info is not used: with binutils >= 2.40 it takes .shstrtab for the
// symbol names, and it finds nothing in a stripped library.
AbiNote read_abi_note(const OpenFile& file) {
  const Elf64_Ehdr header = read_header(file);
  // At most 65535 sections (e_shnum has 16 bits), and read() refuses what the file does not hold.
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  file.read(header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr));
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  for (const Elf64_Shdr& section : sections) {
    // Only this long a name can match; the sums below cannot overflow once these hold.
    if (names.sh_size < kNoteSection.size() ||
        section.sh_name > names.sh_size - kNoteSection.size() || names.sh_offset > file.size()) {
      continue;
    }
    const auto name =
        read_at<std::array<char, kNoteSection.size()>>(file, names.sh_offset + section.sh_name);
    if (name != kNoteSection) continue;
    if (section.sh_type != SHT_PROGBITS || section.sh_size < sizeof(AbiNote)) {
      throw PluginError("its plugin note is malformed: too short");
    }
    const auto note = read_at<AbiNote>(file, section.sh_offset);
    check(note);
    return note;
  }
  throw PluginError(
      "not a privgrad plugin: it has no section .privgrad.abi (is PRIVGRAD_PLUGIN in one of its "
      "sources?)");
}

}  // namespace privgrad::host
