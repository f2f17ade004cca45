#include <random>
#include <utility>

#include "processes.hpp"
#include "token_rows.hpp"
#include "trials.hpp"

// Federated runs in which several processes share the clients' rounds.

namespace fs = std::filesystem;

namespace {

constexpr const char* kFederated = R"(privgrad: 1
name: federated
data: {kind: synthetic, rows: 90, test_rows: 20, dimensions: 5}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 6, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 40
federated: {clients: 5, rounds: 8, local_iterations: 3}
)";

struct Federation : Cli {
  Federation() {
    write_file(dir() / "fed.yaml", kFederated);
    write_tokens(dir(), 90);
  }

  static Words run(const std::string& out, const Words& more) {
    Words words{"run", "fed.yaml", "--quiet", "--threads", "1", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

Words set(const std::vector<std::string>& changes) {
  Words words{"--set", "seed=3"};
  for (const std::string& change : changes) words.insert(words.end(), {"--set", change});
  return words;
}

const std::vector<std::pair<std::string, Words>>& federations() {
  static const std::string ali = "federated.local_iterations={kind: ali_dpfl}";
  static const std::vector<std::pair<std::string, Words>> all{
      {"fed_avg", set({})},
      {"an encoder of tokens", set(kEncoder)},
      {"clients that drop out, are slow, and take part by chance",
       set({"federated.client_drop_rate=0.3", "federated.straggler_rate=0.4",
            "federated.participation={kind: poisson, sample_rate: 0.6}"})},
      {"local iterations that follow private estimates", set({ali, "steps=120"})},
      {"local iterations that follow the models",
       set({ali, "steps=120", "federated.estimates=from_models"})},
      {"a budget that ends in the middle of a round",
       set({"privacy.target_epsilon=3", "steps=60"})},
      {"clip norms that adapt, momentum",
       set({"clipping={kind: adaptive, quantile: 0.5}", "optimizer={kind: momentum, beta: 0.9}"})},
      {"dp_fed_avg with correlated noise",
       set({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
            "aggregator={kind: tree}", "privacy.adjacency=replace_one", "privacy.accountant=gdp",
            "privacy.target_epsilon=60",
            "federated.participation={kind: shuffle, batch_size: 2}"})},
      {"dp_fed_avg", set({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1"})},
      {"dp_fed_avg, clients drawn in secret, of whom some are slow or lost",
       set({"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
            "federated.client_drop_rate=0.3", "federated.straggler_rate=0.4",
            "federated.participation={kind: poisson, sample_rate: 0.6}"})}};
  return all;
}

/// Returns the charges in each ledger of the run.
std::vector<std::vector<Json>> all_charges(const fs::path& run) {
  std::vector<std::vector<Json>> all;
  if (fs::exists(run / "ledger.jsonl")) all.push_back(charges_in(run / "ledger.jsonl"));
  for (int client = 0;
       fs::exists(run / "ledgers" / ("client-" + std::to_string(client) + ".jsonl")); ++client)
    all.push_back(charges_in(run / "ledgers" / ("client-" + std::to_string(client) + ".jsonl")));
  return all;
}

void check_same(const Federation& cli, const std::string& run, const std::string& alone) {
  CHECK(tensors(cli.out(run)) == tensors(cli.out(alone)));
  for (const char* file : {"metrics.jsonl", "rounds.jsonl", "clients.json", "schedules.json"})
    CHECK(read_file(cli.out(run) / file) == read_file(cli.out(alone) / file));
  const auto charged = all_charges(cli.out(alone));
  REQUIRE_FALSE(charged.empty());
  CHECK_FALSE(charged.front().empty());
  CHECK(all_charges(cli.out(run)) == charged);
  const auto checks = [&](const std::string& name) {
    return Json::parse(read_file(cli.out(name) / "summary.json")).at("checks");
  };
  CHECK(checks(run) == checks(alone));
}

}  // namespace

TEST_CASE("a federated run has the same bits on one process and on several", "[slow]") {
  NEEDS_MPIRUN();
  int next = 4;  // alternates 3 and 4
  for (const auto& [name, change] : federations()) {
    INFO(name);
    const Federation cli;
    const Outcome alone = cli(Federation::run("alone", change));
    INFO(alone.err);
    REQUIRE(alone.exit_code == 0);
    next = 7 - next;
    for (const int processes : {2, next}) {
      const std::string run = "run" + std::to_string(processes);
      const Outcome shared = call(in_processes(cli, processes, Federation::run(run, change)));
      INFO(shared.err);
      REQUIRE(shared.exit_code == 0);
      check_same(cli, run, "alone");
      CHECK(cli({"verify", run}).exit_code == 0);
    }
  }
}

TEST_CASE("killed in any of its processes, a federated run goes on with another number of them",
          "[long][slow]") {
  NEEDS_MPIRUN();
  std::mt19937 random(20);
  const int count = trials(100, "kills of a process of a federated run");
  for (int trial = 0; trial < count; ++trial) {
    const Federation cli;
    const auto& [name, change] =
        federations()[static_cast<std::size_t>(trial) * 2 % federations().size()];
    INFO(name);
    Words more = change;
    for (const char* one : {"federated.rounds=200", "steps=900", "schedules.noise_multiplier=20",
                            "checkpoint={every_steps: 3}"})
      more.insert(more.end(), {"--set", one});
    REQUIRE(cli(Federation::run("alone", more)).exit_code == 0);
    const std::size_t victim = random() % 3, rounds = random() % 100;
    INFO("process " << victim << " after " << rounds << " rounds");
    Process running(in_processes(cli, 3, Federation::run("run", more)));
    const fs::path file = cli.out("run") / "rounds.jsonl";
    REQUIRE(Process::wait_for([&] {
      return fs::exists(file) && static_cast<std::size_t>(line_count(read_file(file))) >= rounds;
    }));
    const auto processes = running.children();
    REQUIRE(processes.size() == 3);
    ::kill(processes[victim], SIGKILL);
    CHECK(running.finish().exit_code != 0);
    REQUIRE(fs::exists(cli.out("run") / "resume.json"));
    const Outcome on =
        call(in_processes(cli, 1 + trial % 4, {"run", "--resume", "run", "--quiet"}));
    INFO(on.err);
    REQUIRE(on.exit_code == 0);
    check_same(cli, "run", "alone");
  }
}

TEST_CASE("without a seed, a federated run goes on the same way on any number of processes",
          "[slow]") {
  NEEDS_MPIRUN();
  const Federation cli;
  Process running(in_processes(
      cli, 2,
      Federation::run("run",
                      {"--set", "federated.rounds=400", "--set", "steps=1800", "--set",
                       "schedules.noise_multiplier=60", "--set", "checkpoint={every_steps: 1}"})));
  const fs::path file = cli.out("run") / "rounds.jsonl";
  REQUIRE(Process::wait_for([&] { return fs::exists(file) && fs::file_size(file) > 2000; }));
  const auto processes = running.children();
  REQUIRE(processes.size() == 2);
  ::kill(processes[1], SIGKILL);
  running.finish();
  // The same state, continued three times.
  fs::copy(cli.out("run"), cli.out("kept"), fs::copy_options::recursive);
  fs::copy(cli.state(), cli.out("kept-state"), fs::copy_options::recursive);
  std::vector<std::string> models;
  for (const int count : {1, 2, 3}) {
    fs::remove_all(cli.out("run"));
    fs::remove_all(cli.state());
    fs::copy(cli.out("kept"), cli.out("run"), fs::copy_options::recursive);
    fs::copy(cli.out("kept-state"), cli.state(), fs::copy_options::recursive);
    const Words words{"run", "--resume", "run", "--quiet"};
    const Outcome on = count == 1 ? cli(words) : call(in_processes(cli, count, words));
    INFO(on.err);
    REQUIRE(on.exit_code == 0);
    models.push_back(tensors(cli.out("run")));
    CHECK(cli({"verify", "run"}).exit_code == 0);
  }
  CHECK(models[0] == models[1]);
  CHECK(models[0] == models[2]);
}

TEST_CASE("federated runs whose bits depend on the machine are not shared") {
  NEEDS_MPIRUN();
  const Federation cli;
  const auto refused = [&](const std::vector<std::string>& changes, const std::string& why) {
    const Outcome outcome = call(in_processes(cli, 2, Federation::run("run", set(changes))));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
    CHECK_FALSE(fs::exists(cli.out("run") / "rounds.jsonl"));
  };
  refused({"aggregator={kind: gaussian, arithmetic: float}"}, "arithmetic exact");
  refused({"privacy.noise=off"}, "runs without noise");
  refused({"federated.local_iterations={kind: ali_dpfl}", "federated.estimates=unaccounted"},
          "federated.estimates: unaccounted");
}
