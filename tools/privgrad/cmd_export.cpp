#include "command.hpp"
#include "companion.hpp"
#include "export_usage.hpp"

namespace privgrad::tool {
namespace {

int do_export(const Arguments& arguments) {
  // A wrong call is told before anything is started.
  check_export_call(arguments);
  std::vector<std::string> words{"--out=" + arguments.text("out")};
  for (const std::string& directory : arguments.texts("plugin-dir"))
    words.push_back("--plugin-dir=" + directory);
  words.insert(words.end(), {"--", arguments.operand(0)});
  become_companion("privgrad-export", std::move(words),
                   "build all of PrivGrad (make build) where libonnx-dev and libprotobuf-dev are "
                   "installed (scripts/install-dependencies.sh does that)");
}

}  // namespace

Command export_command() { return {.usage = export_usage(), .run = do_export}; }

}  // namespace privgrad::tool
