// Files without an end, or without a writer.
#include <sys/stat.h>

#include <sstream>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Makes the call with little address space: a program that reads all of a device runs out of
/// memory, which is a different failure from the expected one.
Outcome with_little_memory(const Cli& cli, const std::string& words) {
  Call call = cli.prepare({});
  call.words = {"/bin/sh", "-c", std::string("ulimit -v 1000000; exec ") + kProgram + " " + words};
  return ::call(call);
}

std::string make_fifo(const Cli& cli, const std::string& name) {
  REQUIRE(::mkfifo(cli.out(name).c_str(), 0600) == 0);
  return name;
}

/// Counts the lines without warnings about plugins for which there was no memory.
std::size_t lines_of_errors(const std::string& text) {
  std::size_t count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    count += line.starts_with("privgrad: warning: ") ? 0u : 1u;
  return count;
}

}  // namespace

TEST_CASE("a device or a pipe is not an input, and nothing is read of it") {
  const Cli cli;
  make_fifo(cli, "pipe");
  const std::string account = "account --accountant zcdp --delta 1e-5 --event ";
  for (const std::string file : {"/dev/zero", "pipe"}) {
    for (const std::string& words :
         {account + file, "run " + file, "plan " + file, "validate " + file, "ablate " + file,
          "run small.yaml --locked=" + file, "report " + file, "plugins test " + file}) {
      const Outcome outcome = with_little_memory(cli, words);
      INFO(words);
      CHECK((outcome.exit_code == 2 || outcome.exit_code == 4));
      check_one_error_line(outcome, outcome.exit_code);
    }
    for (const std::string& words :
         {"plan small.yaml --set \"data={kind: csv, train: '" + file + "', label: y}\"",
          "plan small.yaml --set \"schedules.noise_multiplier={kind: dynamic, influence: '" + file +
              "'}\"",
          "data describe " + file}) {
      const Outcome outcome = with_little_memory(cli, words);
      INFO(words << "\n" << outcome.err);
      CHECK((outcome.exit_code == 2 || outcome.exit_code == 4));
      CHECK(line_count(outcome.err) >= 1);
    }
  }
}

TEST_CASE("the files of a run directory are files") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "out", "--quiet"}).exit_code == 0);
  for (const char* name : {"manifest.yaml", "metrics.jsonl", "ledger.jsonl", "summary.json",
                           "statement.json", "schedules.json"}) {
    for (const bool zeros : {false, true}) {
      fs::rename(cli.out("out") / name, cli.out("kept"));
      if (zeros) {
        fs::create_symlink("/dev/zero", cli.out("out") / name);
      } else {
        make_fifo(cli, std::string("out/") + name);
      }
      const Outcome outcome = with_little_memory(cli, "report out");
      INFO(name);
      check_one_error_line(outcome, 4);
      fs::remove(cli.out("out") / name);
      fs::rename(cli.out("kept"), cli.out("out") / name);
    }
  }
}

TEST_CASE("an event of standard input has its limit while it is read") {
  const Cli cli;
  const Outcome outcome =
      with_little_memory(cli, "account --accountant zcdp --delta 1e-5 --event - < /dev/zero");
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("standard input: is longer than 64 MiB"));
}

TEST_CASE("an event may come through a pipe") {
  const Cli cli;
  Call call = cli.prepare({});
  call.words = {"/bin/sh", "-c",
                std::string("echo '{\"event\": \"gaussian\", \"noise_multiplier\": 2}' | ") +
                    kProgram + " account --accountant zcdp --delta 1e-5 --event - --json"};
  const Outcome outcome = ::call(call);
  CHECK(outcome.exit_code == 0);
  CHECK(Json::parse(outcome.out).at("epsilon") > 0.0);
}

TEST_CASE("short of memory, a run says what is wrong, and ends") {
  const Cli cli;
  for (const char* kilobytes : {"20000", "40000", "60000", "80000", "120000", "240000"}) {
    Call call = cli.prepare({});
    const std::string out = std::string("out-") + kilobytes;
    call.words = {"/bin/sh", "-c",
                  std::string("ulimit -v ") + kilobytes + "; exec timeout 60 " + kProgram +
                      " run small.yaml --quiet --threads 2 --out " + out};
    const Outcome outcome = ::call(call);
    INFO(kilobytes << " kB: " << outcome.exit_code << " " << outcome.signal << "\n" << outcome.err);
    CHECK(outcome.signal == 0);
    CHECK(outcome.exit_code != 124);  // timeout ended it
    if (outcome.exit_code == 0) continue;
    // Several lines if the manifest names plugins for which there was no memory.
    CHECK(lines_of_errors(outcome.err) >= 1);
    CHECK(outcome.out == "");
  }
}

TEST_CASE("a stack that is too small is said, and crashes nothing") {
  const Cli cli;
  Call what = cli.prepare({"plan", "small.yaml"});
  what.words.insert(what.words.begin(), {"/bin/sh", "-c", "ulimit -s 64; exec \"$@\"", "sh"});
  const Outcome outcome = call(what);
  check_one_error_line(outcome, 2);
  CHECK_THAT(outcome.err,
             ContainsSubstring("the stack may have 64 KiB, expected at least 1024 KiB"));
}

TEST_CASE("tensors that do not fit stand on lines of their own") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--quiet", "--out", "base"}).exit_code == 0);
  const Outcome outcome =
      cli.on_manifest("plan", {"--set", "data.dimensions=5", "--set",
                               "model={kind: linear, weights: {file: base/model.safetensors}}"});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("1 tensor(s) of the file do not fit the model"));
  CHECK_THAT(outcome.err, ContainsSubstring("\n  layers.0.weight, 2 x 5: 'layers.0.weight', 2 x 4, "
                                            "which does not fit\n"));
  CHECK(line_count(outcome.err) == 3);
}
