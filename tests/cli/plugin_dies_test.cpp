// A plugin that takes the whole command with it: who did it is said, and it is no success.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// A folder with one plugin of the tests in it.
Words with_fixture(const Cli& cli, const std::string& name) {
  const std::string file = "test_" + name + ".privgrad.so";
  fs::create_directories(cli.out("plugins"));
  fs::copy_file(kFixtures / file, cli.out("plugins") / file);
  fs::permissions(cli.out("plugins") / file, fs::perms::owner_all);
  return {"--plugin-dir", cli.out("plugins"), "--quiet", "--out", "run"};
}

/// A run with the optimizer of this name, which dies in its first step.
Outcome run_with(const std::string& optimizer) {
  const Cli cli;
  Words more = with_fixture(cli, "dies_in_a_rule");
  more.insert(more.end(), {"--set", "optimizer=" + optimizer});
  return cli.on_manifest("run", more);
}

}  // namespace

TEST_CASE("run: a crash in a plugin ends as the crash that it is, and names the plugin") {
  for (const auto& [optimizer, signal, says] :
       {std::tuple("crash", SIGSEGV, "Segmentation fault in plugin test.dies_in_a_rule"),
        std::tuple("overflow_the_stack", SIGSEGV,
                   "Segmentation fault in plugin test.dies_in_a_rule"),
        std::tuple("abort_it", SIGABRT, "Aborted in what plugin test.dies_in_a_rule had called")}) {
    INFO(optimizer);
    const Outcome outcome = run_with(optimizer);
    CHECK(outcome.signal == signal);
    CHECK(outcome.out == "");
    CHECK(outcome.err == "privgrad: error: " + std::string(says) + "\n");
  }
}

TEST_CASE("run: a plugin that ends the process has not made the run succeed") {
  for (const char* optimizer : {"exit_0", "exit_at_once", "exit_quickly"}) {
    INFO(optimizer);
    const Outcome outcome = run_with(optimizer);
    check_one_error_line(outcome, 1);
    CHECK_THAT(outcome.err,
               ContainsSubstring("the process was ended in what plugin test.dies_in_a_rule had "
                                 "called, before the command was done"));
  }
}

TEST_CASE("a plugin that ends the process while it is loaded is named by its file") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", with_fixture(cli, "dies_when_loaded"));
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("the process was ended"));
  CHECK_THAT(outcome.err, ContainsSubstring("test_dies_when_loaded.privgrad.so was loaded"));
}

TEST_CASE("run: an exception without a message names its type and who threw it") {
  const Outcome outcome = run_with("throw_silence");
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("test.dies_in_a_rule:throw_silence: threw (anonymous "
                                            "namespace)::Silent without a message"));
}

TEST_CASE("run: a ConfigError of a step is the plugin's breach, and not the manifest's fault") {
  const Outcome outcome = run_with("blames_the_manifest");
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("test.dies_in_a_rule:blames_the_manifest: lr is bad"));
}
