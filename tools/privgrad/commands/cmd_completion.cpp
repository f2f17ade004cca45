#include "command.hpp"
#include "completion.hpp"
#include "output.hpp"

namespace privgrad::tool {
namespace {

int do_completion(const Arguments& arguments) {
  const std::string& shell = arguments.operand(0);
  if (shell == "bash") {
    print(bash_completion(commands()));
  } else if (shell == "zsh") {
    print(zsh_completion(commands()));
  } else {
    throw UsageError("SHELL is '" + shell + "', allowed are bash and zsh");
  }
  return 0;
}

}  // namespace

Command completion_command() {
  return {.usage = {.name = "completion",
                    .summary = "Prints a script with which the shell completes commands, options, "
                               "components and files.",
                    .operands = {"SHELL"},
                    .options = {},
                    .details = "SHELL is bash or zsh. make install puts both scripts where the "
                               "shells look for them.",
                    .examples = {"privgrad completion bash > "
                                 "~/.local/share/bash-completion/completions/privgrad",
                                 "privgrad completion zsh > ~/.zsh/completions/_privgrad",
                                 "source <(privgrad completion bash)"}},
          .run = do_completion};
}

}  // namespace privgrad::tool
