#include "version_needs.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>

#include "elf_sections.hpp"
#include "privgrad/error.hpp"
#include "text.hpp"

namespace privgrad::host {
namespace {

constexpr const char* kMalformed = "its list of library versions is malformed";

template <class T>
T record_at(const std::string& bytes, std::size_t at) {
  if (at > bytes.size() || sizeof(T) > bytes.size() - at) throw PluginError(kMalformed);
  T record;
  std::memcpy(&record, bytes.data() + at, sizeof record);
  return record;
}

std::string text_at(const std::string& texts, std::size_t at) {
  const std::string text = at < texts.size() ? texts.c_str() + at : "";
  if (!is_plain_text(text)) throw PluginError(kMalformed);
  return text;
}

/// Returns the versions that a shared object provides.
std::vector<std::string> versions_in(const OpenFile& file) {
  const Sections sections(file);
  const Elf64_Shdr* const section = sections.find(SHT_GNU_verdef);
  if (section == nullptr) return {};
  const std::string bytes = content_of(file, *section);
  const std::string texts = content_of(file, sections.linked(*section));
  std::vector<std::string> versions;
  for (std::size_t at = 0;;) {
    const auto one = record_at<Elf64_Verdef>(bytes, at);
    versions.push_back(text_at(texts, record_at<Elf64_Verdaux>(bytes, at + one.vd_aux).vda_name));
    if (one.vd_next == 0) return versions;
    at += one.vd_next;
  }
}

/// Returns the versions that a loaded library provides; none if it is not loaded, or unreadable.
const std::vector<std::string>& versions_here(const std::string& library) {
  static std::map<std::string, std::vector<std::string>> known;
  const auto [place, is_new] = known.try_emplace(library);
  void* const handle = is_new ? ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  if (handle == nullptr) return place->second;
  link_map* map = nullptr;
  try {
    if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
      place->second = versions_in(OpenFile(std::filesystem::canonical(map->l_name)));
  } catch (const std::exception&) {
    place->second.clear();
  }
  ::dlclose(handle);
  return place->second;
}

}  // namespace

std::vector<VersionNeed> read_version_needs(const OpenFile& file) {
  constexpr std::size_t kMost = 1000;
  const Sections sections(file);
  const Elf64_Shdr* const section = sections.find(SHT_GNU_verneed);
  if (section == nullptr) return {};
  const std::string bytes = content_of(file, *section);
  const std::string texts = content_of(file, sections.linked(*section));
  std::vector<VersionNeed> needs;
  for (std::size_t at = 0;;) {
    const auto library = record_at<Elf64_Verneed>(bytes, at);
    for (std::size_t of_one = at + library.vn_aux;;) {
      const auto version = record_at<Elf64_Vernaux>(bytes, of_one);
      if (needs.size() == kMost) throw PluginError(kMalformed);
      if ((version.vna_flags & VER_FLG_WEAK) == 0)
        needs.push_back({text_at(texts, library.vn_file), text_at(texts, version.vna_name)});
      if (version.vna_next == 0) break;
      of_one += version.vna_next;
    }
    if (library.vn_next == 0) return needs;
    at += library.vn_next;
  }
}

void check_version_needs(const OpenFile& file) {
  for (const auto& [library, version] : read_version_needs(file)) {
    const std::vector<std::string>& here = versions_here(library);
    if (here.empty() || std::ranges::find(here, version) != here.end()) continue;
    const std::string_view series = std::string_view(version).substr(0, version.find('_') + 1);
    std::string newest;
    for (const std::string& other : here) {
      if (other.starts_with(series) && ::strverscmp(other.c_str(), newest.c_str()) > 0)
        newest = other;
    }
    std::string why = "needs ";
    why.append(version).append(" of ").append(library).append(", which on this machine ");
    why.append(newest.empty() ? "has no such version" : "goes up to ").append(newest);
    throw PluginError(why + "; build the plugin here, or with an older compiler");
  }
}

}  // namespace privgrad::host
