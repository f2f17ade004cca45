// `privgrad ablate` as users call it: its output and files; and an interrupted study ends as if it
// had not been interrupted.
#include <fcntl.h>
#include <sys/file.h>

#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "study_workplace.hpp"
#include "trials.hpp"

namespace fs = std::filesystem;

namespace {

/// Returns the folders with keys and checkpoints of runs that can be resumed.
std::vector<fs::path> run_folders(const fs::path& state) {
  std::vector<fs::path> folders;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(state, missing)) {
    if (entry.path().filename().string().rfind("run-", 0) == 0) folders.push_back(entry.path());
  }
  return folders;
}

/// Enough rows for a run to be interrupted.
const Words kTwentyThousandRows{"ablate",          "s.yaml", "--out", "s",      "--set",
                                "data.rows=20000", "--jobs", "1",     "--quiet"};

Outcome study_whose_first_run_crashes(const Workplace& work, const std::function<bool()>& is_time) {
  Process process(work.prepare(kTwentyThousandRows));
  REQUIRE(Process::wait_for([&] { return process.children().size() == 1; }));
  const pid_t run = process.children().front();
  REQUIRE(Process::wait_for(is_time));
  ::kill(run, SIGSEGV);
  return process.finish();
}

}  // namespace

TEST_CASE("a study prints the contract's keys and leaves tidy results", "[ablate]") {
  const Workplace work;
  const Outcome outcome = work.ablate({"--out", "s", "--json", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  Json results = Json::parse(outcome.out);
  REQUIRE(results.at("arms").size() == 4);
  for (const Json& arm : results.at("arms")) {
    CHECK(arm.at("runs") == 3);
    CHECK(arm.at("epsilon") <= 1.0);
    CHECK(arm.at("epsilon") >= 0.995);
    CHECK(arm.at("delta") == 1e-5);
    for (const char* metric : {"test_accuracy", "test_loss"}) {
      const Json& own = arm.at("metrics").at(metric);
      CHECK(own.at("mean").is_number());
      CHECK(own.at("std").is_number());
      CHECK(own.at("ci95").size() == 2);
      if (arm.at("name") == "uniform+sgd") continue;
      const Json& versus = arm.at("versus_baseline").at(metric);
      CHECK(versus.contains("difference"));
      CHECK(versus.contains("ci95"));
      CHECK(versus.contains("p"));
    }
  }
  CHECK(results.at("arms")[1].at("name") == "uniform+momentum");
  CHECK(results.at("arms")[1].at("set").at("optimizer").at("beta") == 0.5);
  CHECK(results.at("baseline") == "uniform+sgd");
  // The output is the content of the file, plus its folder.
  CHECK(results.at("study_dir") == "s");
  results.erase("study_dir");
  CHECK(results == Json::parse(work.json("s")));

  const std::string csv = work.csv("s");
  CHECK(
      csv.starts_with("arm,seed,schedules.noise_multiplier,optimizer,status,steps,epsilon,delta,"
                      "train_loss,train_accuracy,test_loss,test_accuracy\n"
                      "uniform+sgd,1,uniform,sgd,completed,12,"));
  CHECK(line_count(csv) == 1 + 12);
  CHECK(fs::exists(work.out("s/runs/exponential+momentum/seed-3/ledger.jsonl")));
  CHECK(Json::parse(read_file(work.out("s/study.json"))).at("arms").size() == 4);
  CHECK(Json::parse(read_file(work.out("s/arms/uniform+sgd/plan.json"))).at("steps") == 12);
}

TEST_CASE("the numbers of results.json are those of results.csv", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  std::istringstream lines(work.csv("s"));
  std::string line;
  std::map<std::string, std::vector<double>> losses;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    losses[cells[0]].push_back(std::stod(cells[10]));
  }
  for (const Json& arm : Json::parse(work.json("s")).at("arms")) {
    const std::vector<double>& own = losses.at(arm.at("name"));
    const Json& metric = arm.at("metrics").at("test_loss");
    CHECK(metric.at("values").get<std::vector<double>>() == own);
    CHECK_THAT(metric.at("mean").get<double>(), WithinRel((own[0] + own[1] + own[2]) / 3, 1e-14));
    if (arm.at("name") == "uniform+sgd") continue;
    double difference = 0.0;
    for (int i = 0; i < 3; ++i) difference += (own[i] - losses.at("uniform+sgd")[i]) / 3;
    CHECK_THAT(arm.at("versus_baseline").at("test_loss").at("difference").get<double>(),
               WithinAbs(difference, 1e-14));
  }
}

TEST_CASE("a run of a study is the run of its manifest", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  const fs::path run = work.out("s/runs/uniform+momentum/seed-2");
  const Outcome again = work({"run", (run / "manifest.yaml").string(), "--out", "again", "--locked",
                              "--json", "--quiet", "--threads", "2"});
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(Json::parse(again.out).at("metrics") ==
        Json::parse(read_file(run / "summary.json")).at("metrics"));
}

TEST_CASE("a study does not depend on how many runs are made at a time", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "one", "--jobs", "1", "--quiet"}).exit_code == 0);
  REQUIRE(work.ablate({"--out", "four", "--jobs", "4", "--quiet"}).exit_code == 0);
  CHECK(work.csv("one") == work.csv("four"));
  CHECK(work.json("one") == work.json("four"));
  CHECK(read_file(work.out("one/study.json")) == read_file(work.out("four/study.json")));
}

TEST_CASE("killed and continued, a study ends in the same bytes and repeats no run",
          "[ablate][long]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "whole", "--quiet"}).exit_code == 0);
  const int count = trials(30, "kills of a study");
  for (int trial = 0; trial < count; ++trial) {
    const std::size_t at = std::array<std::size_t, 3>{1, 5, 9}[static_cast<std::size_t>(trial) % 3];
    const std::string name = "cut" + std::to_string(trial);
    {
      Process process(work.prepare({"ablate", "s.yaml", "--out", name, "--quiet"}));
      REQUIRE(Process::wait_for([&] { return work.finished(name) >= at; }));
      process.send(SIGKILL);
      process.finish();
    }
    // A half-written run must not count. (For a run that can be resumed this differs: if its ledger
    // was changed, resuming is refused with a message, and the run begins anew.)
    const fs::path torn = work.out(name) / "runs/exponential+momentum/seed-3";
    if (!fs::exists(torn / "summary.json") && !fs::exists(torn / "resume.json")) {
      fs::create_directories(torn);
      write_file(torn / "ledger.jsonl", "half a li");
    }
    const auto before = run_times(work.out(name));
    const Outcome outcome = work.ablate({"--out", name, "--quiet"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(work.csv(name) == work.csv("whole"));
    CHECK(work.json(name) == work.json("whole"));
    const auto after = run_times(work.out(name));
    CHECK(std::includes(after.begin(), after.end(), before.begin(), before.end()));
  }
}

TEST_CASE("a run that a study lost half-way goes on where it was", "[ablate][resume]") {
  const std::string more =
      GENERATE("", "federated: {clients: 3, rounds: 300, local_iterations: 5}\n");
  INFO(more);
  Workplace work;
  std::string manifest = Cli::kManifest;
  const std::string steps = "steps: 12\n";
  REQUIRE(manifest.find(steps) != manifest.npos);
  manifest.replace(manifest.find(steps), steps.size(),
                   "steps: 1500\ncheckpoint: {every_steps: 1}\n" + more);
  write_file(work.dir() / "small.yaml", manifest);
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\naxes: {optimizer: [sgd, momentum]}\nseeds: 1\n"
             "metrics: [test_loss]\n");
  REQUIRE(work.ablate({"--out", "whole", "--quiet"}).exit_code == 0);
  const auto lost = [&] {
    std::error_code missing;
    for (const auto& entry : fs::recursive_directory_iterator(work.out("s") / "runs", missing)) {
      const fs::path run = entry.path().parent_path();
      if (entry.path().filename() == "resume.json" && fs::exists(run / "metrics.jsonl") &&
          fs::file_size(run / "metrics.jsonl") > 0)
        return run;
    }
    return fs::path();
  };
  {
    Process process(work.prepare({"ablate", "s.yaml", "--out", "s", "--quiet", "--jobs", "1"}));
    REQUIRE(Process::wait_for([&] { return !lost().empty(); }));
    const auto runs = process.children();
    process.send(SIGKILL);
    for (const pid_t run : runs) ::kill(run, SIGKILL);
    process.finish();
    for (const pid_t run : runs) CHECK(Process::wait_for([&] { return ::kill(run, 0) != 0; }));
  }
  const fs::path run = lost();
  REQUIRE(!run.empty());
  const auto begun = fs::last_write_time(run / "manifest.yaml");
  const Outcome again = work.ablate({"--out", "s", "--quiet"});
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(fs::last_write_time(run / "manifest.yaml") == begun);
  CHECK(work.csv("s") == work.csv("whole"));
  // If the private state is gone, the run begins anew, from its seed.
  fs::remove(run / "summary.json");
  write_file(run / "resume.json", "{\"state\": \"" + std::string(32, 'a') + "\"}");
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  CHECK(fs::last_write_time(run / "manifest.yaml") != begun);
  CHECK(work.csv("s") == work.csv("whole"));
}

namespace {

/// A study of one long run whose steps are not reproducible bit for bit.
struct FloatWorkplace : Workplace {
  FloatWorkplace() {
    write_file(dir() / "small.yaml", R"(privgrad: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 1, fresh: false}
aggregator: {kind: tree_reduced, momentum: 0.9, smoothness: 1, gamma: 0.2, arithmetic: float}
optimizer: normalized_sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.01}
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: gdp}
steps: 6000
)");
    write_file(dir() / "s.yaml",
               "study: 1\nbase: small.yaml\narms: {reduced: {}}\nseeds: 1\nmetrics: [test_loss]\n");
  }
  fs::path run() const { return out("s") / "runs/reduced/seed-1"; }
  /// Begins the study, and sends a signal when the run's ledger has this many bytes.
  Outcome cut_off(int signal, std::uintmax_t bytes) const {
    Process process(prepare({"ablate", "s.yaml", "--out", "s", "--quiet"}));
    REQUIRE(Process::wait_for([&] {
      std::error_code missing;
      const std::uintmax_t size = fs::file_size(run() / "ledger.jsonl", missing);
      return !missing && size > bytes;
    }));
    const auto runs = process.children();
    process.send(signal);
    const Outcome outcome = process.finish();
    for (const pid_t child : runs) CHECK(Process::wait_for([&] { return ::kill(child, 0) != 0; }));
    REQUIRE_FALSE(fs::exists(run() / "summary.json"));
    return outcome;
  }
};

}  // namespace

TEST_CASE(
    "a run whose steps have not the same bits again begins anew after a kill, in the same call",
    "[ablate][resume]") {
  const FloatWorkplace work;
  REQUIRE(work.ablate({"--out", "whole", "--quiet"}).exit_code == 0);
  const std::uintmax_t bytes = GENERATE(5'000, 100'000, 500'000);
  work.cut_off(SIGKILL, bytes);
  const Outcome again = work.ablate({"--out", "s", "--quiet"});
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err,
             Catch::Matchers::StartsWith(
                 "privgrad: note: reduced seed 1: cannot be resumed, and begins anew: ") &&
                 ContainsSubstring("cannot repeat with the same bits"));
  CHECK(work.csv("s") == work.csv("whole"));
  CHECK(run_folders(work.state()).empty());
}

TEST_CASE(
    "a study that is stopped lets its runs end behind a step, and the same call goes on with them",
    "[ablate][resume]") {
  const FloatWorkplace work;
  REQUIRE(work.ablate({"--out", "whole", "--quiet"}).exit_code == 0);
  const int signal = GENERATE(SIGINT, SIGTERM);
  const Outcome stopped = work.cut_off(signal, 100'000);
  CHECK(stopped.exit_code == 1);
  CHECK(stopped.err ==
        "privgrad: error: interrupted: 0 of 1 runs are done; the same call continues the study\n");
  const auto begun = fs::last_write_time(work.run() / "manifest.yaml");
  const Outcome again = work.ablate({"--out", "s", "--quiet"});
  CHECK(again.exit_code == 0);
  CHECK(again.err.empty());
  CHECK(fs::last_write_time(work.run() / "manifest.yaml") == begun);
  CHECK(work.csv("s") == work.csv("whole"));
}

TEST_CASE("a study leaves the private state of runs that are not its own", "[ablate][resume]") {
  Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  // An interrupted run of the user's own.
  std::string manifest = Cli::kManifest;
  manifest.replace(manifest.find("steps: 12\n"), 10,
                   "steps: 100000\ncheckpoint: {every_steps: 1}\n");
  write_file(work.dir() / "mine.yaml", manifest);
  const fs::path mine = work.out("mine");
  {
    Process process(work.prepare({"run", "mine.yaml", "--out", "mine", "--quiet"}));
    REQUIRE(Process::wait_for([&] {
      std::error_code missing;
      return fs::file_size(mine / "ledger.jsonl", missing) > 2000 && !missing;
    }));
    process.send(SIGKILL);
    process.finish();
  }
  // The study's directory comes from an attacker who knows the name of the user's run.
  const fs::path run = work.out("s") / "runs/exponential+momentum/seed-3";
  REQUIRE(fs::remove(run / "summary.json"));
  fs::copy_file(mine / "resume.json", run / "resume.json");
  // The study repeats the run, and the user's own run can still be resumed.
  const Outcome again = work.ablate({"--out", "s", "--quiet"});
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, ContainsSubstring("is of the run in " + fs::canonical(mine).string()));
  const Outcome ended = work({"run", "--resume", "mine", "--finish", "--quiet"});
  INFO(ended.err);
  CHECK(ended.exit_code == 0);
}

TEST_CASE("a finished study is printed again and nothing is run", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  const auto before = run_times(work.out("s"));
  const Outcome again = work.ablate({"--out", "s", "--json"});
  CHECK(again.exit_code == 0);
  CHECK(again.err == "");
  CHECK(Json::parse(again.out).at("arms").size() == 4);
  CHECK(run_times(work.out("s")) == before);
}

TEST_CASE("a run that was stopped before its end does not count, and is made again", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "whole", "--quiet"}).exit_code == 0);
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  const fs::path summary = work.out("s") / "runs/exponential+momentum/seed-3/summary.json";
  Json stopped = Json::parse(read_file(summary));
  REQUIRE(stopped.at("status") == "completed");
  stopped["status"] = "interrupted";  // the status if SIGINT arrived in time
  stopped["metrics"]["test_accuracy"] = 1.0;
  write_file(summary, stopped.dump());
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  CHECK(Json::parse(read_file(summary)).at("status") == "completed");
  CHECK(work.json("s") == work.json("whole"));
}

TEST_CASE("SIGINT ends a study with what is done kept", "[ablate]") {
  const Workplace work;
  Process process(work.prepare(
      {"ablate", "s.yaml", "--out", "s", "--set", "data.rows=20000", "--jobs", "1", "--quiet"}));
  REQUIRE(Process::wait_for([&] { return work.finished("s") >= 1; }));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  if (outcome.exit_code != 0) {  // 0: the run ended before the signal arrived
    CHECK(outcome.exit_code == 1);
    CHECK_THAT(outcome.err, ContainsSubstring("privgrad: error: interrupted: ") &&
                                ContainsSubstring("of 12 runs are done; the same call continues"));
    CHECK_FALSE(fs::exists(work.out("s/results.csv")));
  }
  CHECK(work.finished("s") >= 1);
  CHECK(work.ablate({"--out", "s", "--set", "data.rows=20000", "--quiet"}).exit_code == 0);
  CHECK(line_count(work.csv("s")) == 13);
}

TEST_CASE("seeds and arms can be added to a study, and what they had stays", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  const auto before = run_times(work.out("s"));
  std::string more = Workplace::kStudy;
  more.replace(more.find("seeds: 3"), 8, "seeds: 4");
  write_file(work.dir() / "s.yaml", more + "arms: {adam: {optimizer: adam}}\n");
  const Outcome outcome = work.ablate({"--out", "s", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(line_count(work.csv("s")) == 1 + 5 * 4);
  const auto after = run_times(work.out("s"));
  CHECK(std::includes(after.begin(), after.end(), before.begin(), before.end()));
}

TEST_CASE("a directory whose runs are of another study is refused", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  const std::string csv = work.csv("s");
  const Outcome outcome = work.ablate({"--out", "s", "--set", "schedules.clip_norm=2", "--quiet"});
  check_one_error_line(outcome, 2);
  CHECK_THAT(
      outcome.err,
      ContainsSubstring(
          "s/runs/uniform+sgd/seed-1/manifest.yaml: differs from the present arm uniform+sgd"));
  CHECK(work.csv("s") == csv);
  CHECK(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
}

TEST_CASE("a plugin that changed since a study began is refused", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  std::string lock = read_file(work.out("s/privgrad.lock"));
  const std::size_t at = lock.find("sha256 = \"") + 10;
  lock[at] = lock[at] == '0' ? '1' : '0';
  write_file(work.out("s/privgrad.lock"), lock);
  const Outcome outcome = work.ablate({"--out", "s", "--quiet"});
  check_one_error_line(outcome, 2);
  CHECK_THAT(outcome.err, ContainsSubstring("is not the one that this study began with"));
}

TEST_CASE("two studies at a time in one directory are refused, and so is what is not a study",
          "[ablate]") {
  const Workplace work;
  fs::create_directories(work.out("held"));
  const int held = ::open(work.out("held/ablate.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  const Outcome second = work.ablate({"--out", "held", "--quiet"});
  ::close(held);
  check_one_error_line(second, 4);
  CHECK_THAT(second.err, ContainsSubstring("another ablate is at work in this directory"));

  fs::create_directories(work.out("mine"));
  write_file(work.out("mine/thesis.tex"), "x");
  const Outcome foreign = work.ablate({"--out", "mine", "--quiet"});
  check_one_error_line(foreign, 4);
  CHECK_THAT(foreign.err, ContainsSubstring("holds something else than a study"));
  CHECK(read_file(work.out("mine/thesis.tex")) == "x");
}

TEST_CASE("a dry run shows the plan and leaves nothing", "[ablate]") {
  const Workplace work;
  const Outcome page = work.ablate({"--dry-run"});
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, ContainsSubstring("tiny: 4 arms x 3 seeds = 12 runs, all calibrated to "
                                         "epsilon 1, delta 1e-05, zero_out, per example"));
  CHECK_THAT(page.out, ContainsSubstring("baseline: uniform+sgd"));
  const Outcome json = work.ablate({"--dry-run", "--json"});
  CHECK(Json::parse(json.out).at("arms")[0].at("estimated_seconds") > 0);
  CHECK_FALSE(fs::exists(work.out("studies")));
}

TEST_CASE("noise that was rescaled to meet the target is said in the plan", "[ablate]") {
  const Workplace work;
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\nseeds: 1\naxes: {schedules.noise_multiplier: [uniform, "
             "5]}\n");
  const Outcome page = work.ablate({"--dry-run"});
  CHECK_THAT(page.out, ContainsSubstring("RESCALED by "));
  CHECK_THAT(page.out, ContainsSubstring("to meet epsilon"));
}

TEST_CASE("a study without equal privacy is stained wherever it is read", "[ablate]") {
  const Workplace work;
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\nseeds: 2\nequal_privacy: false\naxes: "
             "{privacy.target_epsilon: [1, 2]}\n");
  const Outcome outcome = work.ablate({"--out", "s", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("NOT COMPARABLE: arms spend different epsilons"));
  CHECK(Json::parse(work.json("s")).at("stains").size() == 2);
  CHECK(Json::parse(read_file(work.out("s/study.json"))).at("equal_privacy") == false);
}

TEST_CASE("a run that crashes is named, the others are kept, and the next call tries it again",
          "[ablate]") {
  const Workplace work;
  // Crash only in the run's own process; otherwise the whole study would crash.
  const Outcome outcome = study_whose_first_run_crashes(
      work, [&] { return fs::exists(work.out("s/runs/uniform+sgd/seed-1")); });
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err ==
        "privgrad: error: uniform+sgd seed 1: ended by signal 11 (SIGSEGV)\n"
        "privgrad: error: 11 of 12 runs are done; the same call tries the others again\n");
  CHECK(work.finished("s") == 11);
  CHECK_FALSE(fs::exists(work.out("s/results.csv")));
  const Outcome again = work(kTwentyThousandRows);
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK(line_count(work.csv("s")) == 13);
}

// Nothing was charged for it, and nothing is left to resume.
TEST_CASE("a run that crashes before its first checkpoint begins anew at the next call",
          "[ablate]") {
  const Workplace work;
  const auto has_keys = [&] { return run_folders(work.state()).size() == 1; };
  REQUIRE(study_whose_first_run_crashes(work, has_keys).exit_code == 1);
  REQUIRE(has_keys());
  for (const char* slot : {"checkpoint-a", "checkpoint-b"})
    fs::remove(run_folders(work.state()).front() / slot);
  const Outcome again = work(kTwentyThousandRows);
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK(line_count(work.csv("s")) == 13);
}

TEST_CASE("runs that diverge are counted and said", "[ablate]") {
  const Workplace work;
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\nseeds: 2\naxes: {schedules.learning_rate: [0.5, 1e38]}\n"
             "set: {schedules.clip_norm: 1e10}\n");
  const Outcome outcome = work.ablate({"--out", "s", "--quiet"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("2 of 2 runs ended as diverged; the arm is left out of "
                                            "every mean, comparison and choice"));
  CHECK_THAT(work.csv("s"), ContainsSubstring(",diverged,") && Catch::Matchers::EndsWith(",,,,\n"));
}

TEST_CASE("what choosing costs is said: composition, a random number of runs, or nothing",
          "[ablate]") {
  const Workplace work;
  const Outcome outcome = work.ablate({"--out", "s", "--quiet"});
  CHECK_THAT(outcome.out, ContainsSubstring("What choosing the best arm costs"));
  const Json choice = Json::parse(work.json("s")).at("choice");
  CHECK(choice.at("score") == "private");
  CHECK(choice.at("fixed_grid").at("runs") == 12);
  CHECK(choice.at("fixed_grid").at("epsilon") > 1.0);
  CHECK(choice.at("random_number").at(0).at("epsilon") > 1.0);
  // Public test examples make the score public, but not the models.
  REQUIRE(work.ablate({"--out", "p", "--quiet", "--set", "data.test_is_public=true"}).exit_code ==
          0);
  const Json with_public_test = Json::parse(work.json("p")).at("choice");
  CHECK(with_public_test.at("score") == "public");
  CHECK(with_public_test.at("fixed_grid").at("epsilon") == choice.at("fixed_grid").at("epsilon"));
  write_file(work.dir() / "s.yaml",
             std::string(Workplace::kStudy) + "training_data_is_public: true\n");
  REQUIRE(work.ablate({"--out", "q", "--quiet"}).exit_code == 0);
  CHECK(Json::parse(work.json("q")).at("choice").at("fixed_grid").is_null());
}

TEST_CASE("progress: lines in a file, a rewritten line on a terminal, nothing if quiet",
          "[ablate]") {
  const Workplace work;
  const Outcome lines = work.ablate({"--out", "a"});
  CHECK(line_count(lines.err) == 12);
  CHECK(lines.err.starts_with("[1/12] "));
  CHECK_THAT(lines.err, ContainsSubstring("[12/12] "));
  Call call_it = work.prepare({"ablate", "s.yaml", "--out", "b"});
  call_it.terminal = true;
  const Outcome terminal = call(call_it);
  CHECK_THAT(terminal.err, ContainsSubstring("12/12 runs done"));
  CHECK(terminal.err.find("\n") == std::string::npos);
  for (const char* quiet : {"--quiet", "-q"}) {
    INFO(quiet);
    const Outcome outcome = work.ablate({"--out", std::string("quiet") + quiet, quiet});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
  }
}

TEST_CASE("wrong studies are one line for each problem, exit code 2, and leave nothing",
          "[ablate]") {
  const Workplace work;
  check_one_error_line(work({"ablate", "absent.yaml"}), 4);
  write_file(work.dir() / "s.yaml", "study: 1\nbase: absent.yaml\nseeds: 1\n");
  const Outcome no_base = work.ablate();
  CHECK(no_base.exit_code == 4);
  CHECK(no_base.err.starts_with("s.yaml:2:7: error: base: there is no file"));
  write_file(work.dir() / "s.yaml", "study: 1\nbase: small.yaml\nseed: 3\nseeds: 1\n");
  const Outcome unknown = work.ablate();
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err == "s.yaml:3:1: error: seed: is unknown; did you mean 'seeds'?\n");
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\nseeds: 1\naxes: {privacy.target_epsilon: [1, 2]}\n");
  CHECK(work.ablate().exit_code == 3);
  CHECK_FALSE(fs::exists(work.out("studies")));
}
