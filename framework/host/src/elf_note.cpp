#include "elf_note.hpp"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/error.hpp"
#include "text.hpp"

namespace privgrad::host {
namespace {

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

/// The names and places of a file's sections.
class Sections {
 public:
  explicit Sections(const OpenFile& file) {
    const Elf64_Ehdr header = read_header(file);
    // At most 65535 sections (e_shnum has 16 bits), and read() refuses any that are not in the
    // file.
    all_.resize(header.e_shnum);
    file.read(header.e_shoff, all_.data(), all_.size() * sizeof(Elf64_Shdr));
    const Elf64_Shdr& names = all_[header.e_shstrndx];
    if (names.sh_size > kMostNames) throw PluginError("its ELF section table is malformed");
    names_.resize(names.sh_size);
    file.read(names.sh_offset, names_.data(), names_.size());
  }

  /// \returns null if there is none of this name.
  const Elf64_Shdr* find(std::string_view name) const {
    const auto is_it = [&](const Elf64_Shdr& section) {
      return section.sh_name < names_.size() && names_.c_str() + section.sh_name == name;
    };
    const auto found = std::find_if(all_.begin(), all_.end(), is_it);
    return found == all_.end() ? nullptr : &*found;
  }

 private:
  static constexpr std::uint64_t kMostNames = std::uint64_t{1} << 20;
  std::vector<Elf64_Shdr> all_;
  std::string names_;
};

constexpr const char* kMalformedList =
    "its list of components is malformed; expected \"KIND/NAME KIND/NAME\" in PRIVGRAD_PLUGIN";

std::vector<OfferedComponent> read_components(const OpenFile& file, const Elf64_Shdr& section) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 16;
  if (section.sh_type != SHT_PROGBITS || section.sh_size == 0 || section.sh_size > kMostBytes)
    throw PluginError(kMalformedList);
  std::string text(section.sh_size, '\0');
  file.read(section.sh_offset, text.data(), text.size());
  text.resize(std::strlen(text.c_str()));
  std::vector<OfferedComponent> components;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t slash = word.find('/');
    if (slash == word.npos || !is_plugin_name(word.substr(0, slash)) ||
        !is_plugin_name(word.substr(slash + 1))) {
      throw PluginError(kMalformedList);
    }
    components.push_back({word.substr(0, slash), word.substr(slash + 1)});
  }
  return components;
}

}  // namespace

// Does not use library_info of Boost.DLL 1.74: with binutils >= 2.40 it takes .shstrtab for the
// symbol names, and it finds nothing in a stripped library.
PluginNote read_plugin_note(const OpenFile& file) {
  const Sections sections(file);
  const Elf64_Shdr* const abi = sections.find(".privgrad.abi");
  if (abi == nullptr) {
    throw PluginError(
        "not a privgrad plugin: it has no section .privgrad.abi (is PRIVGRAD_PLUGIN in one of its "
        "sources?)");
  }
  if (abi->sh_type != SHT_PROGBITS || abi->sh_size < sizeof(AbiNote))
    throw PluginError("its plugin note is malformed: too short");
  PluginNote note{.abi = read_at<AbiNote>(file, abi->sh_offset), .components = {}};
  check(note.abi);
  // The notes of another version may have other contents in another form.
  if (std::string_view(note.abi.abi_tag) != PRIVGRAD_ABI_TAG) return note;
  const Elf64_Shdr* const components = sections.find(".privgrad.components");
  if (components == nullptr)
    throw PluginError("does not list its components; rebuild the plugin against this framework");
  note.components = read_components(file, *components);
  return note;
}

}  // namespace privgrad::host
