#include <filesystem>

#include "command.hpp"
#include "man_page.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

int do_man(const Arguments& arguments) {
  const fs::path folder = arguments.operand(0);
  core::make_directories(folder);
  core::write_atomically(folder / "privgrad.1", man_page(commands()));
  for (const Command& command : commands())
    core::write_atomically(folder / (man_name(command.usage) + ".1"), man_page(command.usage));
  return 0;
}

}  // namespace

Command man_command() {
  return {.usage = {.name = "man",
                    .summary = "Writes the manual pages of all commands into a folder: what --help "
                               "says, for man(1).",
                    .operands = {"DIR"},
                    .options = {},
                    .details = "make install puts them where man looks for them.",
                    .examples = {"privgrad man ~/.local/share/man/man1",
                                 "privgrad man pages && man pages/privgrad-run.1"}},
          .run = do_man};
}

}  // namespace privgrad::tool
