#include <random>
#include <utility>

#include "processes.hpp"
#include "trials.hpp"

// Processes that die, stop responding, or differ from each other: the messages, and which runs can
// continue.

namespace fs = std::filesystem;

namespace {

constexpr const char* kImpatient = "{kind: mpi, timeout_seconds: 3}";

std::size_t count_of(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++count;
  return count;
}

/// Returns the call of a run of many steps.
Words long_run(const std::string& out) {
  return {"run",
          "small.yaml",
          "--quiet",
          "--threads",
          "1",
          "--set",
          "seed=3",
          "--set",
          "steps=3000",
          "--set",
          "checkpoint={every_steps: 50}",
          "--set",
          "evaluate_every=1000",
          "--out",
          out};
}

/// Returns the call in several processes, with a time limit.
Call impatiently(const Cli& cli, int processes, const Words& words) {
  Call what = in_processes(cli, processes, words);
  what.words.back() = kImpatient;
  return what;
}

/// Returns a call whose last process is started with other arguments.
Call with_odd_one(const Cli& cli, const Words& words, const Words& odd) {
  Call what = in_processes(cli, 1, {});
  what.words = mpirun("2");
  what.words.insert(what.words.end(), words.begin(), words.end());
  what.words.insert(what.words.end(), {":", "-np", "1"});
  what.words.insert(what.words.end(), odd.begin(), odd.end());
  return what;
}

Words program(const Cli& cli, Words words) {
  words.insert(words.end(), {"--cluster", "mpi"});
  return cli.prepare(words).words;
}

void check_odd_one(const Cli& cli, const Words& words, const Words& odd, const std::string& what) {
  const Outcome outcome = call(with_odd_one(cli, words, odd));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err,
             ContainsSubstring("privgrad: error: process 2 on " + host_name() + " has " + what +
                               " than process 0 on " + host_name() + "\n"));
  CHECK(count_of("privgrad: error:", outcome.err) == 1);
  CHECK_FALSE(fs::exists(cli.out("run") / "ledger.jsonl"));
}

}  // namespace

TEST_CASE("killed at any moment in any of its processes, a run goes on", "[long][slow]") {
  NEEDS_MPIRUN();
  const Cli cli;
  REQUIRE(cli(long_run("alone")).exit_code == 0);
  std::mt19937 random(20);
  const int count = trials(100, "kills of a process of a run");
  for (int trial = 0; trial < count; ++trial) {
    fs::remove_all(cli.out("run"));
    const std::size_t processes = 2 + random() % 3, victim = random() % processes;
    const std::uint64_t bytes = 3000 + random() % 600'000;
    INFO("process " << victim << " of " << processes << ", " << bytes << " bytes of the ledger");
    Process running(in_processes(cli, static_cast<int>(processes), long_run("run")));
    const fs::path ledger = cli.out("run") / "ledger.jsonl";
    REQUIRE(Process::wait_for([&] { return fs::exists(ledger) && fs::file_size(ledger) > bytes; }));
    const auto all = running.children();
    REQUIRE(all.size() == processes);
    ::kill(all[victim], SIGKILL);
    CHECK(running.finish().exit_code != 0);
    REQUIRE(fs::exists(cli.out("run") / "resume.json"));
    const Outcome on =
        call(in_processes(cli, 1 + trial % 4, {"run", "--resume", "run", "--quiet"}));
    INFO(on.err);
    REQUIRE(on.exit_code == 0);
    CHECK(tensors(cli.out("run")) == tensors(cli.out("alone")));
    CHECK(charges(cli.out("run")) == charges(cli.out("alone")));
  }
}

TEST_CASE("a process that stops answering is named, with its machine, and ends all", "[slow]") {
  NEEDS_MPIRUN();
  for (const std::size_t victim : {std::size_t{0}, std::size_t{2}}) {
    const Cli cli;
    Process running(impatiently(cli, 3, long_run("run")));
    const fs::path ledger = cli.out("run") / "ledger.jsonl";
    REQUIRE(
        Process::wait_for([&] { return fs::exists(ledger) && fs::file_size(ledger) > 20'000; }));
    const auto processes = running.children();
    REQUIRE(processes.size() == 3);
    ::kill(processes[victim], SIGSTOP);
    const Outcome outcome = running.finish();
    INFO(outcome.err);
    CHECK(outcome.exit_code == 4);
    CHECK(count_of("privgrad: error:", outcome.err) == 1);
    const std::string who = "process " + std::to_string(victim);
    if (victim == 0) {
      CHECK_THAT(outcome.err, ContainsSubstring(" has waited 3 s for "));
    } else {
      CHECK_THAT(outcome.err,
                 ContainsSubstring("no answer from " + who + " on " + host_name() + " (cluster"));
    }
    // Nothing is lost.
    CHECK(cli({"run", "--resume", "run", "--quiet"}).exit_code == 0);
  }
}

TEST_CASE("a process with another version of the program is named") {
  NEEDS_MPIRUN();
  const Cli cli;
  const Words words = program(cli, {"run", "small.yaml", "--quiet", "--out", "run"});
  // The same program, which reports another version of the same length.
  std::string bytes = read_file(words.front());
  const std::string now = "0.1.0\n", other = "0.1.9\n";
  std::size_t changed = 0;
  for (std::size_t at = 0; (at = bytes.find(now, at)) != bytes.npos; ++changed)
    bytes.replace(at, now.size(), other);
  REQUIRE(changed > 0);
  const fs::path copy = fs::path(words.front()).parent_path() /
                        ("privgrad-of-another-version-" + std::to_string(::getpid()));
  write_file(copy, bytes);
  fs::permissions(copy, fs::perms::owner_all);
  Words odd = words;
  odd.front() = copy;
  check_odd_one(cli, words, odd, "another version of PrivGrad");
  fs::remove(copy);
}

TEST_CASE("a process with another build of a plugin is named") {
  NEEDS_MPIRUN();
  const Cli cli;
  const fs::path folder = cli.out("plugins");
  fs::create_directory(folder);
  // One additional byte after the part that the loader reads.
  write_file(folder / "sgd.privgrad.so", read_file(kPlugins / "optimizers/sgd.privgrad.so") + '\0');
  fs::permissions(folder / "sgd.privgrad.so", fs::perms::owner_all);
  const Words words{"run", "small.yaml", "--quiet", "--out", "run"};
  Words odd = words;
  odd.insert(odd.end(), {"--plugin-dir", folder.string()});
  check_odd_one(cli, program(cli, words), program(cli, odd), "other plugins");
}

TEST_CASE("a process whose clients have other examples is named") {
  NEEDS_MPIRUN();
  const Cli cli;
  // The same rows in another order: each client has another share under the same manifest.
  std::string text = Cli::kManifest;
  const std::string data = "data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4}";
  text.replace(text.find(data), data.size(),
               "data: {kind: csv, train: /proc/self/cwd/train.csv, test: /proc/self/cwd/train.csv, "
               "target: y}");
  write_file(cli.manifest(), text + "federated: {clients: 2, rounds: 2, local_iterations: 1}\n");
  const Words words =
      program(cli, {"run", cli.manifest(), "--quiet", "--out", cli.out("run").string()});
  Call what = with_odd_one(cli, words, words);
  fs::create_directory(cli.out("other"));
  write_file(cli.out("train.csv"), "a,y\n0.5,1\n-0.25,0\n0.75,1\n-1,0\n");
  write_file(cli.out("other/train.csv"), "a,y\n-0.25,0\n0.5,1\n0.75,1\n-1,0\n");
  const auto odd = std::find(what.words.begin(), what.words.end(), ":");
  REQUIRE(odd != what.words.end());
  const Words in_other{"--wdir", cli.out("other").string()};
  what.words.insert(odd + 3, in_other.begin(), in_other.end());
  const Outcome outcome = call(what);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("process 2 on " + host_name() +
                                            " has other examples than process 0 on "));
}
