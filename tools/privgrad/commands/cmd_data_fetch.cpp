#include "command.hpp"
#include "companion.hpp"
#include "data_fetch_usage.hpp"
#include "known_datasets.hpp"

namespace privgrad::tool {
namespace {

/// A separate program downloads, because libcurl depends on some thirty libraries, which would
/// delay the start of every other command by 35 ms.
int do_data_fetch(const Arguments& arguments) {
  // Reports a wrong call before the other program is started.
  find_dataset(known_datasets(), arguments.operand(0));
  std::vector<std::string> words;
  if (arguments.has("timeout")) {
    whole_number("timeout", arguments.text("timeout"), 1, kMostTimeout);
    words.push_back("--timeout=" + arguments.text("timeout"));
  }
  for (const char* option : {"json", "quiet"}) {
    if (arguments.has(option)) words.push_back(std::string("--") + option);
  }
  words.insert(words.end(), {"--", arguments.operand(0)});
  become_companion("privgrad-fetch", std::move(words));
}

}  // namespace

Command data_fetch_command() { return {.usage = data_fetch_usage(), .run = do_data_fetch}; }

}  // namespace privgrad::tool
