#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "account_waits.hpp"
#include "command.hpp"
#include "companion.hpp"
#include "exit_code.hpp"
#include "last_words.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/abi.hpp"
#include "privgrad/error.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"
#include "standard_streams.hpp"

namespace privgrad::tool {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& name) {
  const std::size_t space = name.find(' ');
  if (space == name.npos) return {name};
  return {name.substr(0, space), name.substr(space + 1)};
}

bool begins_with(const Words& given, const Words& name) {
  return given.size() >= name.size() && std::equal(name.begin(), name.end(), given.begin());
}

std::string overview() {
  std::string text =
      "usage: privgrad COMMAND ...\n\n"
      "Trains models under differential privacy, with plugins that a manifest combines.\n\n"
      "commands:\n";
  for (const Command& command : commands()) {
    std::string summary = command.usage.summary;
    std::ranges::replace(summary, '\n', ' ');
    summary.resize(std::min(summary.find_first_of(".:"), summary.size()));
    text += "  " + command.usage.name + std::string(18 - command.usage.name.size(), ' ') + summary +
            "\n";
  }
  return text +
         "\noptions:\n"
         "  --help            Print this page; after a command, the command's.\n"
         "  --version         Print the version, the ABI that plugins need and the\n"
         "                    instructions in use (PRIVGRAD_INSTRUCTIONS).\n"
         "  --prefix          Print where PrivGrad is installed, for CMAKE_PREFIX_PATH.\n"
         "\nexamples:\n"
         "  privgrad run examples/manifests/quickstart.yaml\n"
         "  privgrad plan examples/manifests/quickstart.yaml --set privacy.target_epsilon=1\n"
         "  privgrad plugins describe optimizer/momentum\n";
}

[[noreturn]] void fail_unknown(const Words& given) {
  // The distance counts per word: "plugins lst" is as near to "plugins list" as "pln" is to "plan".
  std::vector<std::string> names;
  const bool is_group = std::ranges::any_of(commands(), [&](const Command& c) {
    const Words name = words_of(c.usage.name);
    return name.size() > 1 && name.front() == given.front();
  });
  for (const Command& command : commands()) names.push_back(command.usage.name);
  const std::string called =
      is_group && given.size() > 1 ? given[0] + " " + given[1] : given.front();
  std::string nearest = did_you_mean(called, names);
  if (nearest.empty() && !is_group) {
    for (std::string& name : names) name = words_of(name).front();
    nearest = did_you_mean(called, names);
  }
  if (is_group && given.size() == 1) {
    std::vector<std::string> members;
    for (const Command& command : commands()) {
      const Words name = words_of(command.usage.name);
      if (name.size() > 1 && name.front() == called) members.push_back(name.back());
    }
    throw UsageError("privgrad " + called + " needs one of " + listed(members) +
                     "; see privgrad --help");
  }
  throw UsageError("there is no command '" + called + "'" + nearest + "; see privgrad --help");
}

bool asks_for_help(const Words& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find_if(arguments.begin(), end, [](const std::string& word) {
           return word == "--help" || word == "-h";
         }) != end;
}

int dispatch(const Words& given) {
  if (given.empty()) throw UsageError("which command? see privgrad --help");
  for (const Command& command : commands()) {
    const Words name = words_of(command.usage.name);
    if (!begins_with(given, name)) continue;
    const Words arguments(given.begin() + static_cast<std::ptrdiff_t>(name.size()), given.end());
    if (asks_for_help(arguments)) {
      print(help_text(command.usage));
      return 0;
    }
    return command.run(parse(command.usage, arguments));
  }
  if (asks_for_help(given) || given.front() == "help") {
    print(overview());
    return 0;
  }
  if (given.front() == "--version") {
    print("privgrad " PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
        PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH) "\nABI " PRIVGRAD_ABI_TAG
                                                                          "\ninstructions " +
          std::string(name_of(instruction_set())) + "\n");
    return 0;
  }
  if (given.front() == "--prefix") {
    print(installation().string() + "\n");
    return 0;
  }
  fail_unknown(given);
}

/// Other threads get the stack size that is allowed for the first thread. A stack that is too small
/// leads to a crash, so it is refused.
void check_stack() {
  constexpr rlim_t kLeast = 1 << 20;
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeast) return;
  throw ConfigError("the stack may have " + std::to_string(stack.rlim_cur >> 10) +
                    " KiB, expected at least " + std::to_string(kLeast >> 10) +
                    " KiB; say ulimit -s 8192 first");
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> all{run_command(),
                                        plan_command(),
                                        ablate_command(),
                                        validate_command(),
                                        account_command(),
                                        calibrate_command(),
                                        noise_error_command(),
                                        bound_command(),
                                        influence_command(),
                                        falsify_command(),
                                        audit_command(),
                                        plugins_list_command(),
                                        plugins_describe_command(),
                                        plugins_new_command(),
                                        plugins_test_command(),
                                        plugins_sign_command(),
                                        plugins_install_command(),
                                        plugins_remove_command(),
                                        plugins_docs_command(),
                                        report_command(),
                                        predict_command(),
                                        evaluate_command(),
                                        export_command(),
                                        verify_command(),
                                        schema_command(),
                                        data_list_command(),
                                        data_fetch_command(),
                                        data_describe_command(),
                                        policy_check_command(),
                                        cache_list_command(),
                                        cache_delete_command(),
                                        gpu_check_command(),
                                        completion_command(),
                                        man_command()};
  return all;
}

}  // namespace privgrad::tool

int main(int argc, char** argv) {
  privgrad::tool::open_standard_streams();
  // If a file exceeds the size limit, the write fails, as on a full disk, instead of ending the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  // Each step allocates and frees the same hundreds of megabytes. Without these settings, the
  // kernel takes the pages back and clears them in every step: a tenth of a transformer's step.
  constexpr int kKept = 1 << 30;  // bytes
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
  privgrad::tool::watch_for_the_end();
  privgrad::tool::say_waits_for_accounts();
  const int code = privgrad::tool::with_exit_code([&] {
    privgrad::tool::check_stack();
    privgrad::instruction_set();  // refuse a wrong PRIVGRAD_INSTRUCTIONS before anything else
    return privgrad::tool::dispatch({argv + 1, argv + argc});
  });
  if (code == 0) privgrad::tool::warn_of_refused();
  privgrad::tool::conclude();
  return code;
}
