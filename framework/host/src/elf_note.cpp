#include "elf_note.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "elf_sections.hpp"
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

constexpr const char* kMalformedList =
    "its list of components is malformed; expected \"KIND/NAME KIND/NAME\" in PRIVGRAD_PLUGIN";

std::vector<OfferedComponent> read_components(const OpenFile& file, const Elf64_Shdr& section) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 16;
  if (section.sh_type != SHT_PROGBITS || section.sh_size == 0 || section.sh_size > kMostBytes)
    throw PluginError(kMalformedList);
  std::string text = content_of(file, section);
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

// Does not use Boost.DLL's library_info (1.74): with binutils >= 2.40 it mistakes .shstrtab for the
// symbol names, and in stripped libraries it finds nothing.
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
  // In other versions of the ABI, the notes may have a different form.
  if (std::string_view(note.abi.abi_tag) != PRIVGRAD_ABI_TAG) return note;
  const Elf64_Shdr* const components = sections.find(".privgrad.components");
  if (components == nullptr)
    throw PluginError("does not list its components; rebuild the plugin against this framework");
  note.components = read_components(file, *components);
  return note;
}

}  // namespace privgrad::host
