#include "elf_note.hpp"

#include <elf.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "privgrad/error.hpp"

namespace privgrad::host {
namespace {

constexpr char kSection[] = ".privgrad.abi";

template <class T>
T read_at(std::ifstream& in, std::uint64_t offset) {
  T value;
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  if (!in) throw PluginError("file ends too early");
  return value;
}

}  // namespace

// Boost.DLL 1.74's library_info is not used: with binutils >= 2.40 it takes .shstrtab for the
// symbol names, and it finds nothing in a stripped library.
AbiNote read_abi_note(const std::filesystem::path& file) try {
  std::ifstream in(file, std::ios::binary);
  const auto header = read_at<Elf64_Ehdr>(in, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_shentsize != sizeof(Elf64_Shdr)) {
    throw PluginError("not a 64-bit ELF shared object");
  }
  const auto section = [&](std::size_t i) {
    return read_at<Elf64_Shdr>(in, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (std::size_t i = 1; i < header.e_shnum; ++i) {
    const Elf64_Shdr candidate = section(i);
    if (candidate.sh_name + sizeof kSection > names.sh_size) continue;
    const auto name =
        read_at<std::array<char, sizeof kSection>>(in, names.sh_offset + candidate.sh_name);
    if (std::memcmp(name.data(), kSection, sizeof kSection) != 0) continue;
    if (candidate.sh_size < sizeof(AbiNote)) throw PluginError("its plugin note is too short");
    const auto note = read_at<AbiNote>(in, candidate.sh_offset);
    if (std::memcmp(note.magic, AbiNote{}.magic, sizeof note.magic) != 0 ||
        note.abi_tag[sizeof note.abi_tag - 1] != 0 ||
        note.plugin_name[sizeof note.plugin_name - 1] != 0 ||
        note.plugin_version[sizeof note.plugin_version - 1] != 0) {
      throw PluginError("its plugin note is malformed");
    }
    return note;
  }
  throw PluginError(
      "not a privgrad plugin: it has no section .privgrad.abi (is PRIVGRAD_PLUGIN in one of its "
      "sources?)");
} catch (const PluginError& problem) {
  throw PluginError(file.string() + ": " + problem.what());
}

}  // namespace privgrad::host
