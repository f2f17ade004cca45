#include "command.hpp"
#include "companion.hpp"
#include "export_folder.hpp"
#include "export_usage.hpp"

namespace privgrad::tool {
namespace {

int do_export(const Arguments& arguments) {
  // Reports a wrong call before another program is started.
  check_export_call(arguments);
  const std::string format = export_format(arguments);
  if (format != "onnx") {
    (format == "huggingface" ? export_folder : export_state_dict)(arguments);
    return 0;
  }
  std::vector<std::string> words{"--out=" + arguments.text("out")};
  for (const std::string& directory : arguments.texts("plugin-dir"))
    words.push_back("--plugin-dir=" + directory);
  if (arguments.has("estimator")) words.push_back("--estimator=" + arguments.text("estimator"));
  words.insert(words.end(), {"--", arguments.operand(0)});
  become_companion("privgrad-export", std::move(words),
                   "build or install PrivGrad where libonnx-dev and libprotobuf-dev are installed "
                   "(scripts/install-dependencies.sh installs them)");
}

}  // namespace

Command export_command() { return {.usage = export_usage(), .run = do_export}; }

}  // namespace privgrad::tool
