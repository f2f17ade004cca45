#include <map>
#include <random>

#include "processes.hpp"
#include "trials.hpp"

// Studies whose runs several processes make.

namespace fs = std::filesystem;

namespace {

/// Four small arms with three seeds, beside the small manifest.
constexpr const char* kStudy = R"(study: 1
name: tiny
base: small.yaml
axes:
  schedules.noise_multiplier: [uniform, {kind: exponential, rate: 0.9}]
  optimizer: [sgd, {kind: momentum, beta: 0.5}]
seeds: 3
metrics: [test_accuracy, test_loss]
)";

struct Workplace : Cli {
  Workplace() { write_file(dir() / "s.yaml", kStudy); }

  Words ablate(const std::string& out, Words more = {}) const {
    more.insert(more.begin(), {"ablate", "s.yaml", "--out", out, "--quiet", "--jobs", "1"});
    return more;
  }

  std::size_t finished(const std::string& name) const {
    std::size_t count = 0;
    std::error_code missing;
    for (const auto& entry : fs::recursive_directory_iterator(out(name) / "runs", missing))
      count += entry.path().filename() == "summary.json";
    return count;
  }

  /// Runs that other processes have begun, and not sent yet.
  std::size_t begun_elsewhere() const {
    std::size_t count = 0;
    std::error_code missing;
    for (const auto& entry : fs::recursive_directory_iterator(state() / "studies", missing))
      count += entry.path().filename() == "resume.json";
    return count;
  }
};

/// All that a study leaves, by file, but for how long its runs took: that is in summary.json, whose
/// hash is in the last line of the ledger, whose hash is in the page.
std::map<std::string, std::string> content(const fs::path& study) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(study)) {
    if (!entry.is_regular_file() || entry.path().filename() == "report.html") continue;
    std::string text = read_file(entry.path());
    if (entry.path().filename() == "summary.json") {
      Json json = Json::parse(text);
      REQUIRE(json.at("seconds").is_number());
      json.erase("seconds");
      text = json.dump();
    }
    if (entry.path().filename() == "ledger.jsonl") {
      const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
      CHECK(Json::parse(text.substr(last)).at("type") == "close");
      text.erase(last);
    }
    files[entry.path().lexically_relative(study)] = text;
  }
  return files;
}

}  // namespace

TEST_CASE("a study is the same, file by file, on one process and on several") {
  NEEDS_MPIRUN();
  const Workplace work;
  // The name of the study's directory is in the summaries of its runs.
  REQUIRE(work(work.ablate("s")).exit_code == 0);
  const auto alone = content(work.out("s"));
  CHECK(alone.contains("runs/uniform+momentum/seed-3/model.safetensors"));
  for (const int processes : {2, 4}) {
    fs::remove_all(work.out("s"));
    const Outcome outcome = call(in_processes(work, processes, work.ablate("s")));
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.find("process") == outcome.err.npos);
    const auto shared = content(work.out("s"));
    REQUIRE(shared.size() == alone.size());
    for (const auto& [file, text] : alone) {
      INFO(file);
      CHECK(shared.at(file) == text);
    }
    CHECK(work({"verify", "s/runs/uniform+momentum/seed-2"}).exit_code == 0);
    // Nothing of it stays with the others.
    CHECK(fs::is_empty(work.state() / "studies"));
  }
}

TEST_CASE("killed in any of its processes, a study ends in the same bytes", "[long][slow]") {
  NEEDS_MPIRUN();
  Workplace work;
  std::string manifest = Cli::kManifest;
  const std::string steps = "steps: 12\n";
  manifest.replace(manifest.find(steps), steps.size(),
                   "steps: 400\ncheckpoint: {every_steps: 20}\n");
  write_file(work.manifest(), manifest);
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\naxes: {optimizer: [sgd, momentum], "
             "schedules.clip_norm: [1, 2]}\nseeds: 3\n");
  REQUIRE(work(work.ablate("s")).exit_code == 0);
  const auto whole = content(work.out("s"));
  std::mt19937 random(20);
  const int count = trials(20, "kills of a process of a study");
  for (int trial = 0; trial < count; ++trial) {
    fs::remove_all(work.out("s"));
    const std::size_t victim = random() % 3, moment = random() % 10;
    INFO("process " << victim << " after " << moment << " runs");
    Process running(in_processes(work, 3, work.ablate("s")));
    REQUIRE(Process::wait_for(
        // What was begun elsewhere may be of the trial before.
        [&] {
          return work.finished("s") >= moment && work.begun_elsewhere() > 0 &&
                 running.children().size() == 3;
        }));
    const auto processes = running.children();
    REQUIRE(processes.size() == 3);
    ::kill(processes[victim], SIGKILL);
    CHECK(running.finish().exit_code != 0);
    CHECK_FALSE(fs::exists(work.out("s/results.json")));
    // With another number of processes, or on one.
    const int processes_then = 1 + trial % 3;
    const Outcome again = call(in_processes(work, processes_then, work.ablate("s")));
    INFO(again.err);
    REQUIRE(again.exit_code == 0);
    CHECK(content(work.out("s")) == whole);
  }
}

TEST_CASE("a study that several processes had finished is not made again") {
  NEEDS_MPIRUN();
  const Workplace work;
  REQUIRE(call(in_processes(work, 2, work.ablate("s"))).exit_code == 0);
  const fs::path summary = work.out("s/runs/uniform+sgd/seed-1/summary.json");
  const auto written = fs::last_write_time(summary);
  const Outcome again = call(in_processes(work, 3, work.ablate("s")));
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK(fs::last_write_time(summary) == written);
}

TEST_CASE("runs that diverge in other processes count as they do in one") {
  NEEDS_MPIRUN();
  const Workplace work;
  write_file(work.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\naxes: {optimizer: [sgd, momentum]}\nseeds: 2\n"
             "set: {schedules.learning_rate: 3e38}\n");
  const Outcome outcome = call(in_processes(work, 2, work.ablate("s")));
  INFO(outcome.err);
  // A run that diverges has come to its end, and counts.
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(read_file(work.out("s/results.csv")), ContainsSubstring(",diverged,"));
}

TEST_CASE("processes that are not alike make no study, and the one that differs is named") {
  NEEDS_MPIRUN();
  const Workplace work;
  Call what = in_processes(work, 1, {});
  what.words = mpirun("1");
  const auto add = [&](const Words& more) {
    Words words = work.prepare(work.ablate("s", {"--cluster", "mpi"})).words;
    words.insert(words.end(), more.begin(), more.end());
    what.words.insert(what.words.end(), words.begin(), words.end());
  };
  add({});
  what.words.insert(what.words.end(), {":", "-np", "1"});
  add({"--set", "schedules.learning_rate=0.25"});
  const Outcome outcome = call(what);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("process 1 on " + host_name() +
                                            " has another study than process 0 on "));
  CHECK_FALSE(fs::exists(work.out("s")));
}

TEST_CASE("a study that is planned only has one voice") {
  NEEDS_MPIRUN();
  const Workplace work;
  const Outcome alone = work(work.ablate("s", {"--dry-run"}));
  const Outcome shared = call(in_processes(work, 3, work.ablate("s", {"--dry-run"})));
  CHECK(shared.exit_code == 0);
  CHECK(shared.out == alone.out);
}

TEST_CASE("a study whose runs follow from the results of others is refused by several processes") {
  NEEDS_MPIRUN();
  const Workplace work;
  for (const char* more : {"seeds: {until: {test_loss: 1}, at_most: 9}\n",
                           "seeds: 2\nsearch: {over: {optimizer: [sgd, adam]}, seeds: [7]}\n"}) {
    write_file(work.dir() / "s.yaml",
               std::string("study: 1\nbase: small.yaml\nmetrics: test_loss\n") + more);
    const Outcome outcome = call(in_processes(work, 2, work.ablate("s")));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("is made by one process; leave --cluster out"));
    CHECK_FALSE(fs::exists(work.out("s")));
  }
}
