// The note of a plugin, read from a file that is not trusted yet.
#include "elf_note.hpp"

#include "harness/fuzz.hpp"
#include "text.hpp"

void read_input(std::string_view input) {
  using namespace privgrad;
  const host::OpenFile file(fuzz::scratch_file("plugin.privgrad.so", input));
  const AbiNote note = host::read_plugin_note(file).abi;
  fuzz::require(host::is_plugin_name(note.plugin_name),
                "the name in a note is fit for messages and lock files");
  fuzz::require(host::is_plain_text(note.plugin_version) && host::is_plain_text(note.abi_tag),
                "the texts of a note are printable");
}
