#include "command.hpp"
#include "companion.hpp"
#include "plugins_test_usage.hpp"

namespace privgrad::tool {
namespace {

/// A separate program examines plugins, because the examination must create released values without
/// paying for them. The command itself must not have that ability.
int do_plugins_test(const Arguments& arguments) {
  std::vector<std::string> words;
  for (const std::string& params : arguments.texts("params")) {
    words.insert(words.end(), {"--params", params});
  }
  for (const std::string& rule : arguments.texts("rule"))
    words.insert(words.end(), {"--rule", rule});
  if (arguments.has("time-limit"))
    words.insert(words.end(), {"--time-limit", arguments.text("time-limit")});
  if (arguments.has("memory-limit"))
    words.insert(words.end(), {"--memory-limit", arguments.text("memory-limit")});
  if (arguments.has("quiet")) words.push_back("--quiet");
  if (arguments.has("json")) words.push_back("--json");
  words.insert(words.end(), {"--", arguments.operand(0)});
  become_companion("privgrad-conformance", std::move(words));
}

}  // namespace

Command plugins_test_command() { return {.usage = plugins_test_usage(), .run = do_plugins_test}; }

}  // namespace privgrad::tool
