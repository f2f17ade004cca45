#include "plugins_test_usage.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::tool {

Usage plugins_test_usage() {
  return {
      .name = "plugins test",
      .summary = "Checks that the components of a plugin keep every promise of their interface.",
      .operands = {"FILE"},
      .options = {{.name = "params",
                   .value = "NAME=YAML",
                   .doc = "Parameters to make the component NAME with, in place of its declared "
                          "examples and defaults.",
                   .repeatable = true},
                  {.name = "rule",
                   .value = "NAME",
                   .doc =
                       "Check only this rule and the rules that prepare it; nothing is recorded.",
                   .repeatable = true},
                  {"time-limit", "SECONDS", "How long a rule may take; default 60."},
                  {"memory-limit", "MIB",
                   "How much memory a rule may map; default 4096. 0 means no limit, which "
                   "drivers of GPUs need."},
                  {"quiet", "", "Print only what is broken."},
                  {"json", "", "Print the findings as JSON."}},
      .details =
          "Each rule has its own process, with limits on time and memory: a rule "
          "that crashes, does\nnot end or ends the process is broken, and the others continue. "
          "Rules that were not checked are listed as\nskipped, with the reason.\n\n"
          "A plugin that breaks no rule is recorded as tested, by the hash of its file: "
          "beside it\n(FILE.tested.json) or, where that cannot be written, in "
          "~/.local/share/privgrad/tested/. Release mode\nasks for that record.\n\n"
          "exit codes: 0 done, 1 a "
          "promise is broken or the file is not a plugin, 2 the call is wrong or the "
          "file\nis not named like a plugin, 4 there is no such file",
      .examples = {"privgrad plugins test "
                   "build/lib/privgrad/plugins/schedules/warm_up.privgrad.so",
                   "privgrad plugins test idx.privgrad.so --params 'idx={train: {images: i.gz, "
                   "labels: l.gz}}'"}};
}

void check_plugin_file(const std::string& given) {
  std::error_code failure;
  if (!std::filesystem::exists(given, failure)) {
    throw IoError(given + ": " + (failure ? failure.message() : "there is no such file"));
  }
  const std::string name = std::filesystem::path(given).filename().string();
  const bool is_plain = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  if (!is_plain || !name.ends_with(".privgrad.so")) {
    throw UsageError(given +
                     ": not named like a plugin; expected NAME.privgrad.so in printable ASCII");
  }
}

}  // namespace privgrad::tool
