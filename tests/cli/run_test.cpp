#include <iterator>
#include <set>
#include <sstream>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

Outcome run_seeded(const Cli& cli, const std::string& name, int threads) {
  return cli.on_manifest("run", {"--set", "seed=7", "--set", "model={kind: mlp, hidden: [16]}",
                                 "--threads", std::to_string(threads), "--out", name, "--quiet"});
}

std::string model_of(const Cli& cli, const std::string& run) {
  return read_file(cli.out(run) / "model.safetensors");
}

/// Returns a call that takes many seconds unless something ends it.
Call endless_run(const Cli& cli) {
  return cli.prepare({"run", "small.yaml", "--set", "steps=200000", "--set", "evaluate_every=10",
                      "--set", "schedules.noise_multiplier=1e6", "--out", "long", "--json"});
}

bool has_begun(const Cli& cli) {
  std::error_code absent;
  return fs::file_size(cli.out("long/metrics.jsonl"), absent) > 0 && !absent;
}

}  // namespace

TEST_CASE("run --json prints the contract's summary and nothing else") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--out", "out", "--threads", "2", "--json"});
  CHECK(outcome.exit_code == 0);
  const Json summary = Json::parse(outcome.out);
  CHECK(summary.at("status") == "completed");
  CHECK(summary.at("steps") == 12);
  CHECK(summary.at("epsilon") <= 1.0);
  CHECK(summary.at("epsilon") > 0.999);
  CHECK(summary.at("delta") == 1e-5);
  CHECK(summary.at("accountant") == "zcdp");
  for (const char* metric : {"train_loss", "train_accuracy", "test_loss", "test_accuracy"}) {
    CHECK(summary.at("metrics").at(metric).is_number());
  }
  CHECK(summary.at("unaccounted") == Json{"training metrics", "test metrics"});
  CHECK(summary.at("mode") == "research");
  CHECK(summary.at("reproducible") == false);
  CHECK(summary.at("seconds") >= 0.0);
  CHECK(summary.at("threads") == 2);
  CHECK(summary.at("run_dir") == "out");
  Json whole = Json::parse(read_file(cli.out("out/summary.json")));
  // too long to print; the file has it, and so does privgrad evaluate
  CHECK(whole.erase("test_evaluation") == 1);
  CHECK(whole == summary);
}

TEST_CASE("the plugins that make run builds first are those that the quickstart uses") {
  const Cli cli;
  const std::string quickstart = kSource / "examples/manifests/quickstart.yaml";
  REQUIRE(cli({"run", quickstart, "--set", "steps=1", "--out", "out", "--quiet"}).exit_code == 0);
  std::set<std::string> used;
  std::istringstream lock(read_file(cli.out("out/privgrad.lock")));
  for (std::string line; std::getline(lock, line);) {
    const std::string begin = "name = \"privgrad.";
    if (line.starts_with(begin))
      used.insert(line.substr(begin.size(), line.size() - begin.size() - 1));
  }
  std::istringstream names(PRIVGRAD_TEST_QUICKSTART);
  const std::set<std::string> built{std::istream_iterator<std::string>(names), {}};
  CHECK(used == built);
}

TEST_CASE("a run leaves its record, and nothing else") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "out"}).exit_code == 0);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cli.out("out"))) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"facts.json", "ledger.jsonl", "manifest.yaml",
                                          "metrics.jsonl", "model.safetensors", "privgrad.lock",
                                          "report.html", "schedules.json", "statement.json",
                                          "summary.json"});
}

TEST_CASE("a page that a kill behind the summary prevented is made by --resume") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "out"}).exit_code == 0);
  const std::string page = read_file(cli.out("out/report.html"));
  fs::remove(cli.out("out/report.html"));
  const Outcome outcome = cli({"run", "--resume", "out"});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("the run is finished"));
  CHECK(read_file(cli.out("out/report.html")) == page);
}

TEST_CASE("the resolved manifest of a run is one that runs") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--set", "seed=7", "--out", "first", "--quiet"}).exit_code == 0);
  REQUIRE(cli({"run", "first/manifest.yaml", "--out", "second", "--quiet"}).exit_code == 0);
  CHECK(model_of(cli, "first") == model_of(cli, "second"));
}

TEST_CASE("progress is one line per measurement on standard error, the table on standard output") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--out", "out"});
  CHECK(outcome.exit_code == 0);
  CHECK(line_count(outcome.err) == 4);  // after 3, 6, 9 and 12 steps
  CHECK(outcome.err.starts_with("step  3/12  loss "));
  CHECK_THAT(outcome.err, ContainsSubstring("accuracy "));
  CHECK_THAT(outcome.err, ContainsSubstring("epsilon 1.0000 of 1\n"));
  CHECK(outcome.out.starts_with("small: completed, 12 of 12 steps in "));
  for (const char* text : {"train ", "test\n", "loss ", "accuracy ", "epsilon ", "zcdp", "delta ",
                           "1e-05", "unaccounted    training metrics, test metrics\n",
                           "reproducible   no", "run directory  out\n"}) {
    CHECK_THAT(outcome.out, ContainsSubstring(text));
  }
  CHECK(outcome.out.find('\033') == std::string::npos);
}

TEST_CASE("progress never shows less epsilon than was spent") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--set", "evaluate_every=1", "--out", "out"});
  std::istringstream shown(outcome.err);
  std::istringstream measured(read_file(cli.out("out/metrics.jsonl")));
  int lines = 0;
  for (std::string line, json; std::getline(shown, line) && std::getline(measured, json); ++lines) {
    const double epsilon = Json::parse(json).at("epsilon").get<double>();
    const std::string label = "  epsilon ";
    const double printed = std::stod(line.substr(line.find(label) + label.size()));
    INFO(line << " for " << epsilon);
    CHECK(printed >= epsilon);
    CHECK(printed < epsilon + 1.01e-4);
  }
  CHECK(lines == 12);
}

TEST_CASE("a run without noise says so wherever epsilon stands") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--set", "privacy.noise=off", "--out", "out"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("epsilon inf\n"));
  CHECK_THAT(outcome.out, ContainsSubstring("epsilon        infinite: no noise\n"));
  CHECK_THAT(outcome.out, ContainsSubstring("unaccounted    everything: noise is off"));
  CHECK(Json::parse(read_file(cli.out("out/summary.json"))).at("epsilon").is_null());
}

TEST_CASE("a run in release mode shows no metrics of private rows") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--set", "mode=release", "--out", "out"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("loss") == std::string::npos);
  CHECK_THAT(outcome.out, ContainsSubstring("no metrics: release mode"));
  CHECK_THAT(outcome.out, ContainsSubstring("unaccounted    nothing that PrivGrad read\n"));
}

TEST_CASE("run --quiet, or -q, shows no progress") {
  const Cli cli;
  CHECK(cli.on_manifest("run", {"--out", "out", "--quiet"}).err == "");
  CHECK(cli.on_manifest("run", {"-q", "--out", "short"}).err == "");
}

TEST_CASE("a dumb terminal, or none, gets plain lines") {
  const Cli cli;
  Call run = cli.prepare({"run", "small.yaml", "--out", "out"});
  run.terminal = true;
  run.environment["TERM"] = "dumb";
  const Outcome outcome = call(run);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find('\033') == std::string::npos);
  CHECK(line_count(outcome.err) == 4);
}

TEST_CASE("errors have colour on a terminal, unless NO_COLOR says otherwise") {
  const Cli cli;
  Call wrong = cli.prepare({"rnu"});
  CHECK(call(wrong).err.starts_with("privgrad: error: "));
  wrong.terminal = true;
  CHECK(call(wrong).err.starts_with("\033[1;31mprivgrad: error:\033[0m there is no command"));
  for (const char* set : {"NO_COLOR", "TERM"}) {
    Call plain = wrong;
    plain.environment[set] = "dumb";  // any value of NO_COLOR counts
    CHECK(call(plain).err.starts_with("privgrad: error: "));
  }
}

TEST_CASE("on a terminal a run shows the time that is left") {
  const Cli cli;
  Call run = endless_run(cli);
  run.terminal = true;
  Process process(run);
  REQUIRE(process.says(" left\033[K"));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  CHECK(outcome.exit_code == 1);
  // "step  12345/200000  loss 0.1  ...  epsilon 0.0001 of 1  1:23 left", cut to the terminal
  CHECK_THAT(outcome.err, ContainsSubstring(" left\033[K"));
  CHECK_THAT(outcome.err, ContainsSubstring(" of 1  "));
  // The line is cleared before the error is printed.
  CHECK_THAT(outcome.err,
             ContainsSubstring("\r\033[K\033[1;31mprivgrad: error:\033[0m interrupted"));
}

TEST_CASE("on a terminal progress is one line that is rewritten and taken away") {
  const Cli cli;
  Call run = cli.prepare({"run", "small.yaml", "--out", "out"});
  run.terminal = true;
  const Outcome outcome = call(run);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("\rstep  3/12  loss "));
  CHECK_THAT(outcome.err, ContainsSubstring("\rstep 12/12  loss "));
  CHECK_THAT(outcome.err, ContainsSubstring("epsilon 1.0000 of 1\033[K"));  // all of it fits
  CHECK(outcome.err.ends_with("\r\033[K"));
  CHECK(line_count(outcome.err) == 0);
}

TEST_CASE("without --out every run gets a directory of its own below runs/") {
  const Cli cli;
  for (int i = 0; i < 3; ++i) REQUIRE(cli.on_manifest("run", {"--quiet"}).exit_code == 0);
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(cli.out("runs"))) {
    ++runs;
    // small-yyyymmddThhmmssZ, with -2 if two runs began in the same second.
    const std::string name = entry.path().filename();
    CHECK(name.starts_with("small-20"));
    CHECK(name.at(14) == 'T');
    CHECK(name.at(21) == 'Z');
    CHECK(fs::exists(entry.path() / "summary.json"));
  }
  CHECK(runs == 3);
}

TEST_CASE("the same seed gives the same model, whatever the number of threads") {
  const Cli cli;
  REQUIRE(run_seeded(cli, "one", 1).exit_code == 0);
  REQUIRE(run_seeded(cli, "two", 2).exit_code == 0);
  REQUIRE(run_seeded(cli, "again", 1).exit_code == 0);
  REQUIRE(run_seeded(cli, "many", 5).exit_code == 0);
  CHECK(model_of(cli, "one") == model_of(cli, "two"));
  CHECK(model_of(cli, "one") == model_of(cli, "again"));
  CHECK(model_of(cli, "one") == model_of(cli, "many"));
  CHECK(Json::parse(read_file(cli.out("one/summary.json"))).at("reproducible") == true);
}

TEST_CASE("without a seed no two runs are the same") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "one", "--quiet"}).exit_code == 0);
  REQUIRE(cli.on_manifest("run", {"--out", "two", "--quiet"}).exit_code == 0);
  CHECK(model_of(cli, "one") != model_of(cli, "two"));
}

TEST_CASE("a budget that runs out ends the run with exit code 0 and a note") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest(
      "run", {"--set", "schedules.noise_multiplier=10", "--out", "out", "--json", "--quiet"});
  CHECK(outcome.exit_code == 0);
  const Json summary = Json::parse(outcome.out);
  CHECK(summary.at("status") == "budget_exhausted");
  CHECK(summary.at("steps") > 0);
  CHECK(summary.at("steps") < 12);
  CHECK(summary.at("epsilon") <= 1.0);
  CHECK(outcome.err.starts_with("privgrad: note: the budget was spent after step " +
                                summary.at("steps").dump() + " of 12"));
}

TEST_CASE("a run that diverges is one error line and exit code 1, with its record") {
  const Cli cli;
  const Outcome outcome =
      cli.on_manifest("run", {"--set", "schedules.learning_rate=1e38", "--set",
                              "schedules.clip_norm=1e10", "--out", "out", "--json", "--quiet"});
  CHECK(outcome.exit_code == 1);
  CHECK(Json::parse(outcome.out).at("status") == "diverged");
  CHECK(outcome.err.starts_with("privgrad: error: diverged after step "));
  CHECK(line_count(outcome.err) == 1);
}

TEST_CASE("a model whose loss is not finite is no success, though every step was made") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--set", "schedules.learning_rate=1e38", "--out",
                                                  "out", "--json", "--quiet", "--set", "steps=1"});
  CHECK(outcome.exit_code == 1);
  const Json summary = Json::parse(outcome.out);
  CHECK(summary.at("status") == "diverged");
  CHECK(summary.at("steps") == 1);
  CHECK(summary.at("metrics").at("train_loss").is_null());
  CHECK_THAT(outcome.err, ContainsSubstring("the loss of the model is not finite"));
  CHECK(cli({"verify", "out"}).exit_code == 0);
}

TEST_CASE("with --threads 1, one thread computes, libraries of plugins included") {
  const Cli cli;
  Call run = endless_run(cli);
  for (const char* word : {"--threads", "1"}) run.words.push_back(word);
  // Settings of the user's shell do not change the numbers of a run.
  run.environment["OPENBLAS_NUM_THREADS"] = "4";
  Process process(run);
  REQUIRE(Process::wait_for([&] { return has_begun(cli); }));
  CHECK(process.threads() == 1);
}

TEST_CASE("without checkpoints, SIGINT and SIGTERM end a run after its step, with its record") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Cli cli;
    Call run = endless_run(cli);
    for (const char* word : {"--set", "checkpoint=off"}) run.words.push_back(word);
    Process process(run);
    REQUIRE(Process::wait_for([&] { return has_begun(cli); }));
    process.send(signal);
    const Outcome outcome = process.finish();
    INFO(outcome.err);
    CHECK(outcome.exit_code == 1);
    const Json summary = Json::parse(outcome.out);
    CHECK(summary.at("status") == "interrupted");
    CHECK(summary.at("steps") > 0);
    CHECK_THAT(outcome.err, ContainsSubstring("privgrad: error: interrupted after step " +
                                              summary.at("steps").dump() + " of 200000"));
    CHECK(fs::exists(cli.out("long/model.safetensors")));
    CHECK_THAT(read_file(cli.out("long/ledger.jsonl")), ContainsSubstring("interrupted"));
  }
}

TEST_CASE("SIGINT and SIGTERM leave a run that can be resumed, and say how", "[resume]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Cli cli;
    Process process(endless_run(cli));
    REQUIRE(Process::wait_for([&] { return has_begun(cli); }));
    process.send(signal);
    const Outcome outcome = process.finish();
    INFO(outcome.err);
    CHECK(outcome.exit_code == 1);
    const Json summary = Json::parse(outcome.out);
    CHECK(summary.at("status") == "interrupted");
    CHECK_THAT(
        outcome.err,
        ContainsSubstring("privgrad: error: interrupted after step " + summary.at("steps").dump() +
                          " of 200000; resume with: privgrad run --resume long\n"));
    CHECK_FALSE(fs::exists(cli.out("long/model.safetensors")));
    const Outcome verified = cli({"verify", "long", "--sign", "no.key"});
    CHECK(verified.exit_code == 3);
    CHECK_THAT(verified.out, ContainsSubstring("resume.json: the run is not over"));
    CHECK_FALSE(fs::exists(cli.out("long/signature.json")));

    // Another process resumes the run and ends it.
    const Outcome ended = cli({"run", "--resume", "long", "--finish", "--json", "--quiet"});
    INFO(ended.err);
    CHECK(ended.exit_code == 0);
    const Json last = Json::parse(ended.out);
    CHECK(last.at("resumed_at") == summary.at("steps"));
    CHECK(last.at("steps") == summary.at("steps"));
    CHECK(fs::exists(cli.out("long/model.safetensors")));
    check_one_error_line(cli({"run", "--resume", "long"}), 2);
  }
}

TEST_CASE("a file of the run that was damaged or lost is named with what can be done", "[resume]") {
  const Cli cli;
  Process process(endless_run(cli));
  REQUIRE(Process::wait_for([&] { return has_begun(cli); }));
  process.send(SIGTERM);
  REQUIRE(process.finish().exit_code == 1);
  for (const char* name :
       {"manifest.yaml", "privgrad.lock", "facts.json", "metrics.jsonl", "ledger.jsonl"}) {
    const auto file = cli.out("long") / name;
    const std::string content = read_file(file);
    for (const bool is_lost : {true, false}) {
      INFO(name << (is_lost ? " is lost" : " is cut off"));
      if (is_lost) fs::remove(file);
      if (!is_lost) write_file(file, content.substr(0, content.size() / 2));
      const Outcome refused = cli({"run", "--resume", "long", "--finish"});
      CHECK((refused.exit_code == 2 || refused.exit_code == 4));
      CHECK_THAT(refused.err,
                 ContainsSubstring(name) &&
                     Catch::Matchers::EndsWith("; restore the file, and the run can be resumed\n"));
    }
    write_file(file, content);
  }
  CHECK(cli({"run", "--resume", "long", "--finish", "--quiet"}).exit_code == 0);
}

TEST_CASE("what cannot be resumed is refused in one line", "[resume]") {
  const Cli cli;
  check_one_error_line(cli({"run", "--resume", "absent"}), 4);
  fs::create_directory(cli.out("empty"));
  check_one_error_line(cli({"run", "--resume", "empty"}), 4);
  REQUIRE(cli.on_manifest("run", {"--out", "done", "--set", "checkpoint=off"}).exit_code == 0);
  check_one_error_line(cli({"run", "--resume", "done"}), 2);
  check_one_error_line(cli({"run", "--resume", "done", "--set", "steps=3"}), 2);
  check_one_error_line(cli.on_manifest("run", {"--finish"}), 2);

  Process process(endless_run(cli));
  REQUIRE(Process::wait_for([&] { return has_begun(cli); }));
  const Outcome in_use = cli({"run", "--resume", "long"});
  check_one_error_line(in_use, 4);
  CHECK_THAT(in_use.err, ContainsSubstring("is in use"));
}

TEST_CASE("where no checkpoint can be left, a run says so, or is refused if one was asked for",
          "[resume]") {
  const Cli cli;
  Call homeless = cli.prepare({"run", "small.yaml", "--set", "seed=1", "--out", "out"});
  homeless.environment["XDG_STATE_HOME"] = "";
  homeless.environment["HOME"] = "";
  const Outcome outcome = call(homeless);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("privgrad: note: the run left no checkpoints to resume "
                                            "it from: no directory is known"));
  homeless.words = {kProgram, "run",  "small.yaml", "--set", "checkpoint.every_steps=3",
                    "--out",  "asked"};
  const Outcome refused = call(homeless);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("checkpoint: is not possible: no directory is known"));
  CHECK_FALSE(fs::exists(cli.out("asked")));
}

TEST_CASE("a run goes on when nobody reads its progress any more") {
  const Cli cli;
  Call run{.words = {"/bin/sh", "-c",
                     "\"$0\" run small.yaml --set steps=300 --set evaluate_every=1 "
                     "--out out 2>&1 | head -n 1",
                     kProgram},
           .directory = cli.dir()};
  const Outcome outcome = call(run);
  CHECK(outcome.out.starts_with("step   1/300"));
  CHECK(fs::exists(cli.out("out/summary.json")));
}

TEST_CASE("a directory that holds something is never overwritten") {
  const Cli cli;
  fs::create_directory(cli.out("taken"));
  write_file(cli.out("taken") / "mine.txt", "mine");
  check_one_error_line(cli.on_manifest("run", {"--out", "taken"}), 4);
  CHECK(read_file(cli.out("taken") / "mine.txt") == "mine");
}

TEST_CASE("a place that cannot be written is exit code 4") {
  const Cli cli;
  check_one_error_line(cli.on_manifest("run", {"--out", "/proc/privgrad"}), 4);
  check_one_error_line(cli.on_manifest("run", {"--out", "small.yaml/out"}), 4);
}

TEST_CASE("a disk that is full ends the run with exit code 4 and no half-written file") {
  const Cli cli;
#ifdef __SANITIZE_THREAD__
  const int smallest = 1;  // its runtime writes its own file before main() begins
#else
  const int smallest = 0;
#endif
  for (const int limit : {smallest, 200, 1000, 1500, 2500}) {
    const std::string name = "out" + std::to_string(limit);
    Call run = cli.prepare({"run", "small.yaml", "--out", name, "--quiet"});
    run.file_size = static_cast<rlim_t>(limit);
    const Outcome outcome = call(run);
    INFO(limit << ": " << outcome.err);
    // Standard error is also a file, so with a limit of 0 even the error cannot be written.
    CHECK(outcome.exit_code == 4);
    CHECK(outcome.out == "");
    if (limit > 1) CHECK_THAT(outcome.err, ContainsSubstring("privgrad: error: "));
    if (!fs::exists(cli.out(name))) continue;
    for (const auto& entry : fs::directory_iterator(cli.out(name))) {
      const std::string file = entry.path().filename();
      CHECK(file != "summary.json");
      CHECK((file == "manifest.yaml" || file == "privgrad.lock" || file == "ledger.jsonl" ||
             file == "metrics.jsonl" || file == "model.safetensors" || file == "schedules.json" ||
             file == "statement.json" || file == "facts.json"));
    }
  }
}

TEST_CASE("a run that cannot start leaves no directory behind") {
  const Cli cli;
  Call full = cli.prepare({"run", "small.yaml"});
  full.file_size = 200;  // less than the first file of the run
  check_one_error_line(call(full), 4);
  CHECK_FALSE(fs::exists(cli.out("runs")));

  write_file(cli.out("bad.csv"), "1,2,3,0\n1,2,3,4,5\n");
  const Outcome outcome = cli.on_manifest(
      "run", {"--set", "data={kind: csv, train: bad.csv, header: false, target: \"3\"}"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(line_count(outcome.err) == 1);
  CHECK_FALSE(fs::exists(cli.out("runs")));
}
