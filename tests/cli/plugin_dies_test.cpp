// A plugin that ends the whole command: the message names it, and the exit code is not success.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// A folder that contains one of the test plugins.
Words with_fixture(const Cli& cli, const std::string& name) {
  const std::string file = "test_" + name + ".privgrad.so";
  fs::create_directories(cli.out("plugins"));
  fs::copy_file(kFixtures / file, cli.out("plugins") / file);
  fs::permissions(cli.out("plugins") / file, fs::perms::owner_all);
  return {"--plugin-dir", cli.out("plugins"), "--quiet", "--out", "run"};
}

/// Runs with an optimizer that dies in its first step.
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
        std::tuple("abort_it", SIGABRT,
                   "Aborted in code that plugin test.dies_in_a_rule had called")}) {
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
               ContainsSubstring("the process was ended in code that plugin test.dies_in_a_rule "
                                 "had called, before the command was done"));
  }
}

TEST_CASE("run: plugins that nobody names are not loaded, whatever they would do") {
  const Cli cli;
  Words words;
  for (const char* name : {"dies_when_loaded", "crashes_when_loaded", "hangs_when_loaded"})
    words = with_fixture(cli, name);
  const Outcome outcome = cli.on_manifest("run", words);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
}

TEST_CASE("an accountant that cannot be loaded is warned about where all of them are asked") {
  const Cli cli;
  const Words words = with_fixture(cli, "needs_newer_library");
  write_file(cli.out("event.json"), R"({"event": "gaussian", "noise_multiplier": 1})");
  const Outcome outcome =
      cli({"account", "--event", "event.json", "--delta", "1e-5", words[0], words[1]});
  CHECK(outcome.exit_code == 0);
  CHECK(line_count(outcome.err) == 1);
  CHECK_THAT(outcome.err, Catch::Matchers::StartsWith(
                              "privgrad: warning: " +
                              cli.out("plugins/test_needs_newer_library.privgrad.so").string() +
                              ": not loaded: needs GLIBCXX_9.4.21 of libstdc++.so.6"));
}

TEST_CASE("a plugin that does not come back from being loaded is named, and the command ends") {
  const Cli cli;
  Words words = with_fixture(cli, "hangs_when_loaded");
  words.insert(words.end(), {"--set", "schedules.learning_rate=hangs_when_loaded"});
  words.insert(words.begin(), {"run", cli.manifest().string()});
  Call asked = cli.prepare(words);
  asked.environment["PRIVGRAD_LOADING_SECONDS"] = "1";
  const Outcome outcome = call(asked);
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring(
                              "test_hangs_when_loaded.privgrad.so has been loading for 1 seconds"));
}

TEST_CASE("what lists every plugin continues without one that does not come back from loading") {
  const auto [command, shows] =
      GENERATE(table<Words, std::string>({{{"plugins", "list"}, "privgrad.zcdp"},
                                          {{"schema"}, "zcdp"},
                                          {{"plugins", "docs", "d"}, ""}}));
  const Cli cli;
  const Words words = with_fixture(cli, "hangs_when_loaded");
  Words called = command;
  called.insert(called.end(), {words[0], words[1]});
  Call asked = cli.prepare(called);
  asked.environment["PRIVGRAD_LOADING_SECONDS"] = "1";
  const Outcome outcome = call(asked);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring(shows));
  CHECK((shows != "" || fs::exists(cli.out("d/accountant.zcdp.md"))));
  CHECK(outcome.err ==
        "privgrad: warning: " + cli.out("plugins/test_hangs_when_loaded.privgrad.so").string() +
            ": not loaded: it did not finish loading in time\n");
}

TEST_CASE("a plugin that ends the process while it is loaded is named by its file") {
  const Cli cli;
  Words words = with_fixture(cli, "dies_when_loaded");
  words.insert(words.end(), {"--set", "schedules.learning_rate=dies_when_loaded"});
  const Outcome outcome = cli.on_manifest("run", words);
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("the process was ended"));
  CHECK_THAT(outcome.err, ContainsSubstring("test_dies_when_loaded.privgrad.so was loaded"));
}

TEST_CASE("plugins list: a plugin that dies while it is loaded is one of those that are not") {
  const Cli cli;
  for (const std::string name : {"dies_when_loaded", "crashes_when_loaded"}) {
    with_fixture(cli, name);
  }
  const Words words{"plugins", "list", "--plugin-dir", cli.out("plugins")};
  const Outcome outcome = cli(words);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("privgrad.momentum"));
  CHECK_THAT(outcome.err, ContainsSubstring("test_dies_when_loaded.privgrad.so: not loaded: it "
                                            "ended the process when it was loaded\n"));
  CHECK_THAT(outcome.err, ContainsSubstring("test_crashes_when_loaded.privgrad.so: not loaded: it "
                                            "crashed when it was loaded: Segmentation fault\n"));
  CHECK(line_count(outcome.err) == 2);
  CHECK(printed_json(cli, words).at("refused").size() == 2);
}

TEST_CASE("run: an exception without a message names its type and who threw it") {
  const Outcome outcome = run_with("throw_silence");
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("test.dies_in_a_rule:throw_silence: threw (anonymous "
                                            "namespace)::Silent without a message"));
}

TEST_CASE("what a plugin throws that is not an exception names its type and who threw it") {
  const Outcome in_run = run_with("throw_a_number");
  check_one_error_line(in_run, 1);
  CHECK_THAT(in_run.err,
             ContainsSubstring(
                 "test.dies_in_a_rule:throw_a_number: threw int, which is not a std::exception"));
  const Cli cli;  // plans call schedules
  Words words = with_fixture(cli, "dies_in_a_rule");
  words.resize(2);
  words.insert(words.end(), {"--set", "schedules.learning_rate=throw_a_number"});
  const Outcome in_plan = cli.on_manifest("plan", words);
  check_one_error_line(in_plan, 1);
  CHECK_THAT(
      in_plan.err,
      ContainsSubstring("plugin test.dies_in_a_rule threw int, which is not a std::exception"));
}

TEST_CASE("run: a ConfigError of a step is the plugin's breach, and not the manifest's fault") {
  const Outcome outcome = run_with("blames_the_manifest");
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("test.dies_in_a_rule:blames_the_manifest: lr is bad"));
}
