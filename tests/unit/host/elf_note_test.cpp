// The reader accepts untrusted bytes: whatever they are, it returns a note or throws PluginError.
#include "elf_note.hpp"

#include <elf.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>

#include "elf_sections.hpp"
#include "host_support.hpp"
#include "trials.hpp"
#include "version_needs.hpp"

using privgrad::AbiNote;
using privgrad::PluginError;
using privgrad::host::OpenFile;
using privgrad::host::read_plugin_note;

namespace {

/// A scratch file for the next bytes to read.
class Subject {
 public:
  /// \returns whether a note was read; any result except a note or a PluginError ends the test.
  bool survives(const std::string& bytes) {
    replace_file(file_, bytes);
    try {
      const AbiNote note = read_plugin_note(OpenFile(file_)).abi;
      // An accepted note can be printed.
      REQUIRE(std::memchr(note.plugin_name, 0, sizeof note.plugin_name) != nullptr);
      REQUIRE(std::memchr(note.abi_tag, 0, sizeof note.abi_tag) != nullptr);
      privgrad::host::check_version_needs(OpenFile(file_));
      return true;
    } catch (const PluginError& problem) {
      return false;
    }
  }
  std::string refusal(const std::string& bytes) {
    replace_file(file_, bytes);
    return message_of([&] { read_plugin_note(OpenFile(file_)); });
  }

 private:
  TempDir dir_;
  fs::path file_ = dir_.path() / "subject";
};

Elf64_Ehdr header_of(const std::string& bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

std::string with_header(std::string bytes, const Elf64_Ehdr& header) {
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::size_t offset_of_note(const std::string& bytes) {
  const std::size_t at = bytes.find(std::string("PRVGNOT1"));
  REQUIRE(at != bytes.npos);
  return at;
}

}  // namespace

TEST_CASE("the note of a plugin is read from its file", "[elf]") {
  const AbiNote note = read_plugin_note(OpenFile(kConstant)).abi;
  CHECK(std::string(note.plugin_name) == "privgrad.constant");
  CHECK(std::string(note.abi_tag) == PRIVGRAD_ABI_TAG);
}

TEST_CASE("the versions of libraries that a plugin needs are read from its file", "[elf]") {
  const auto needs = privgrad::host::read_version_needs(OpenFile(fixture("needs_newer_library")));
  const auto has = [&](const char* library, const char* version) {
    return std::any_of(needs.begin(), needs.end(), [&](const auto& need) {
      return need.library == library && need.version == version;
    });
  };
  CHECK(has("libstdc++.so.6", "GLIBCXX_9.4.21"));
  CHECK(has("libstdc++.so.6", "CXXABI_1.3"));
  CHECK_FALSE(has("libc.so.6", "GLIBCXX_9.4.21"));
}

TEST_CASE("files that are not plugins say what they lack", "[elf]") {
  Subject subject;
  CHECK_THAT(subject.refusal(""), ContainsSubstring("not a 64-bit ELF shared object"));
  CHECK_THAT(subject.refusal("hello"), ContainsSubstring("not a 64-bit ELF shared object"));
  CHECK_THAT(subject.refusal(std::string(4096, 'x')), ContainsSubstring("not a 64-bit ELF"));
  // An ordinary shared object: this test's own framework library has no note.
  CHECK_THAT(subject.refusal(read_file(kPlugins / "../../libprivgrad_sdk.so")),
             ContainsSubstring("no section .privgrad.abi") && ContainsSubstring("PRIVGRAD_PLUGIN"));
}

TEST_CASE("hostile headers are refused", "[elf][security]") {
  Subject subject;
  const std::string good = read_file(kConstant);
  REQUIRE(subject.survives(good));
  Elf64_Ehdr header = header_of(good);
  SECTION("no sections") {
    header.e_shnum = 0;
    CHECK_THAT(subject.refusal(with_header(good, header)), ContainsSubstring("malformed"));
  }
  SECTION("more sections than the file holds") {
    header.e_shnum = 0xffff;
    CHECK_THAT(subject.refusal(with_header(good, header)), ContainsSubstring("ends too early"));
  }
  SECTION("sections of another size") {
    header.e_shentsize = 1;
    CHECK_THAT(subject.refusal(with_header(good, header)), ContainsSubstring("malformed"));
  }
  SECTION("a table whose offset overflows when its size is added") {
    header.e_shoff = std::numeric_limits<std::uint64_t>::max() - 64;
    CHECK_THAT(subject.refusal(with_header(good, header)), ContainsSubstring("ends too early"));
  }
  SECTION("names in a section that does not exist") {
    header.e_shstrndx = header.e_shnum;
    CHECK_THAT(subject.refusal(with_header(good, header)), ContainsSubstring("malformed"));
  }
  SECTION("an executable, a 32-bit file, the other byte order") {
    header.e_type = ET_EXEC;
    CHECK_FALSE(subject.survives(with_header(good, header)));
    header = header_of(good);
    header.e_ident[EI_CLASS] = ELFCLASS32;
    CHECK_FALSE(subject.survives(with_header(good, header)));
    header = header_of(good);
    header.e_ident[EI_DATA] = ELFDATA2MSB;
    CHECK_FALSE(subject.survives(with_header(good, header)));
  }
}

TEST_CASE("hostile notes are refused", "[elf][security]") {
  Subject subject;
  std::string bytes = read_file(kConstant);
  const std::size_t at = offset_of_note(bytes);
  const auto put = [&](std::size_t offset, const std::string& text) {
    bytes.replace(at + offset, text.size(), text);
  };
  SECTION("another magic") { put(0, "PRVGNOT2"); }
  SECTION("a size that is too small") { put(offsetof(AbiNote, size), std::string(4, '\0')); }
  SECTION("a name without end") { put(offsetof(AbiNote, plugin_name), std::string(64, 'a')); }
  SECTION("a name that would be two") { put(offsetof(AbiNote, plugin_name), "a:b"); }
  SECTION("no name") { put(offsetof(AbiNote, plugin_name), std::string(64, '\0')); }
  SECTION("a version that moves the cursor") { put(offsetof(AbiNote, plugin_version), "\x1b[2J"); }
  SECTION("a tag of two lines") { put(offsetof(AbiNote, abi_tag), "privgrad=0\n1"); }
  CHECK_THAT(subject.refusal(bytes), ContainsSubstring("its plugin note is malformed"));
}

TEST_CASE("no truncation of a plugin crashes the reader", "[elf][security]") {
  Subject subject;
  const std::string good = read_file(kConstant);
  // The section table is at the end of the file, so no truncated file contains all of it.
  const std::size_t whole = header_of(good).e_shoff + header_of(good).e_shnum * sizeof(Elf64_Shdr);
  for (std::size_t size = 0; size < whole; size += size < 128 ? 1 : 97) {
    INFO("size " << size);
    REQUIRE_FALSE(subject.survives(good.substr(0, size)));
  }
}

TEST_CASE("no extreme value in the header or the section table crashes the reader",
          "[elf][security]") {
  Subject subject;
  const std::string good = read_file(kConstant);
  const Elf64_Ehdr header = header_of(good);
  constexpr std::array<std::uint64_t, 6> kExtremes{
      0, 1, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffff00, 0xffffffffffffffff};
  std::vector<std::size_t> places;
  for (std::size_t at = 16; at < sizeof header; at += 2) places.push_back(at);
  for (std::size_t i = 0; i < header.e_shnum * sizeof(Elf64_Shdr); i += 8) {
    places.push_back(header.e_shoff + i);
  }
  for (const std::size_t place : places) {
    for (const std::uint64_t extreme : kExtremes) {
      std::string bytes = good;
      std::memcpy(bytes.data() + place, &extreme, std::min<std::size_t>(8, bytes.size() - place));
      subject.survives(bytes);
    }
  }
}

TEST_CASE("no flipped bytes crash the reader", "[elf][security][long]") {
  Subject subject;
  const std::string good = read_file(kConstant);
  const Elf64_Ehdr header = header_of(good);
  const std::size_t note = offset_of_note(good);
  const Elf64_Shdr needs =
      *privgrad::host::Sections(OpenFile(kConstant)).find(std::uint32_t{SHT_GNU_verneed});
  std::mt19937_64 random(20240229);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  int refused = 0;
  const int count = trials(40'000, "plugin files with flipped bytes");
  for (int round = 0; round < count; ++round) {
    std::string bytes = good;
    for (std::size_t flips = 1 + below(8); flips > 0; --flips) {
      // Mostly in the places that the reader uses (header, section table, note, versions),
      // sometimes anywhere.
      std::size_t at = below(good.size());
      switch (below(5)) {
        case 0:
          at = below(sizeof header);
          break;
        case 1:
          at = header.e_shoff + below(header.e_shnum * sizeof(Elf64_Shdr));
          break;
        case 2:
          at = note + below(sizeof(AbiNote));
          break;
        case 3:
          at = needs.sh_offset + below(needs.sh_size);
          break;
        default:
          break;
      }
      bytes[at] = static_cast<char>(random());
    }
    refused += subject.survives(bytes) ? 0 : 1;
  }
  CHECK(refused > count / 4);  // flips affect bytes that the reader uses
  CHECK(refused < count);      // but not all of them matter
}
