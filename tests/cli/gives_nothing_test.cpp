// Plugins that return nothing instead of a program, its memory or a number of examples: every
// command that would use them prints one line that names them, and never crashes.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

const Words kSteps512 = {"--set", "steps=512"};  // two of the steps are checked

/// Runs COMMAND small.yaml with this change and more, and the plugins of
/// tests/fixtures/gives_nothing.cpp.
Outcome call_with(const std::string& command, const std::string& change, Words more = {}) {
  const Cli cli;
  const std::string file = "test_gives_nothing.privgrad.so";
  fs::create_directories(cli.out("plugins"));
  fs::copy_file(kFixtures / file, cli.out("plugins") / file);
  fs::permissions(cli.out("plugins") / file, fs::perms::owner_all);
  more.insert(more.begin(), {"--plugin-dir", cli.out("plugins"), "--set", change});
  if (command == "run") more.insert(more.end(), {"--quiet", "--out", "run"});
  const Outcome outcome = cli.on_manifest(command, more);
  CHECK_FALSE(fs::exists(cli.out("run") / "model.safetensors"));
  return outcome;
}

void check_refusal(const Outcome& outcome, const std::string& who, const std::string& what) {
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err,
             ContainsSubstring("test.gives_nothing:" + who) && ContainsSubstring(what));
}

}  // namespace

TEST_CASE("a backend that gives no program is named") {
  for (const std::string command : {"plan", "run", "falsify", "audit"}) {
    INFO(command);
    check_refusal(call_with(command, "backend=no_program"), "no_program", "gave no program");
  }
}

TEST_CASE("a program that makes no memory for its passes is named") {
  const std::string what = "the program makes no memory for a pass";
  for (const std::string command : {"run", "falsify", "audit"}) {
    INFO(command);
    check_refusal(call_with(command, "backend=no_memory"), "no_memory", what);
  }
  // The memory for a pass of one example, in a run and in a neighbouring-run test.
  check_refusal(call_with("run", "backend=no_memory_for_one", kSteps512), "no_memory_for_one",
                what);
  check_refusal(call_with("falsify", "backend=no_memory_for_one"), "no_memory_for_one", what);
}

TEST_CASE("a program that takes no examples in a pass is named") {
  for (const std::string command : {"run", "falsify", "audit"}) {
    INFO(command);
    check_refusal(call_with(command, "backend=no_examples"), "no_examples",
                  "the program takes 0 examples in a pass, expected at least 1");
  }
}
