#include <tuple>

#include "npy_file.hpp"
#include "processes.hpp"
#include "shared_files.hpp"
#include "token_rows.hpp"

// Runs shared by several processes on this machine.

namespace fs = std::filesystem;

namespace {

/// Writes x.npy and y.npy: twenty images of two classes.
void write_images(const Cli& cli) {
  std::vector<float> pixels(20 * 6 * 6);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(i * i % 251) / 255.0f;
  std::vector<std::uint8_t> labels(20);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 2;
  write_file(cli.out("x.npy"), array_file("<f4", "20, 6, 6", pixels));
  write_file(cli.out("y.npy"), array_file("|u1", "20,", labels));
}

/// All releases about rows that a run can make in addition to the steps. (With label noise, no
/// model predicts all rows correctly.)
const Words kReleases{"--set",
                      "data.label_noise=0.3",
                      "--set",
                      "data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], "
                      "noise_multiplier: 20}, {kind: max_norm, to: 1}, "
                      "{kind: pca, dimensions: 3, statistic: private, max_norm: 1, "
                      "noise_multiplier: 30}]",
                      "--set",
                      "data.size={about: 60, statistic: private, noise_multiplier: 20}",
                      "--set",
                      "model.class_weights=balanced",
                      "--set",
                      "report={class_counts: {noise_multiplier: 20, largest_weight: 4}, "
                      "train_accuracy: {noise_multiplier: 20, every: 4}}",
                      "--set",
                      "privacy.adjacency=add_or_remove_one"};

const std::vector<std::pair<std::string, Words>>& kinds() {
  static const Words shuffled{"--set", "sampler={kind: shuffle, batch_size: 7}",
                              "--set", "privacy.adjacency=replace_one",
                              "--set", "privacy.accountant=gdp"};
  const auto with = [](Words all, const Words& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto set = [](const std::vector<std::string>& changes) {
    Words words;
    for (const std::string& change : changes) words.insert(words.end(), {"--set", change});
    return words;
  };
  static const Words large{"--set", "model={kind: mlp, hidden: [320, 320]}",
                           "--set", "steps=6",
                           "--set", "checkpoint=off"};
  static const std::vector<std::pair<std::string, Words>> all{
      {"all rows", {}},
      {"Poisson, batches that are smaller than the number of processes",
       {"--set", "sampler={kind: poisson, batch_size: 2}", "--set", "privacy.accountant=rdp",
        "--set", "privacy.adjacency=add_or_remove_one"}},
      {"correlated noise", with(shuffled, {"--set", "aggregator={kind: tree, momentum: 0.9}"})},
      {"a clip norm that adapts, adam",
       {"--set", "clipping={kind: adaptive, quantile: 0.5}", "--set", "optimizer=adam", "--set",
        "schedules.learning_rate=0.05"}},
      {"statistics, counts and accuracies that are released", kReleases},
      {"layers, in passes",
       {"--set", "model={kind: mlp, hidden: [6]}", "--set", "clipping=per_layer", "--set",
        "microbatch_size=5"}},
      // 134 403 parameters: slices of several pieces, none of which is a whole layer.
      {"slices, momentum", with(large, {"--set", "optimizer=momentum"})},
      {"slices, correlated noise that fades",
       with(large, {"--set", "sampler={kind: shuffle, batch_size: 7}", "--set",
                    "privacy.adjacency=replace_one", "--set", "privacy.accountant=gdp", "--set",
                    "aggregator={kind: tree, momentum: 0.9}", "--set", "optimizer=sgd"})},
      {"slices, a clip norm that adapts, adam",
       with(large, {"--set", "clipping={kind: adaptive, quantile: 0.5}", "--set", "optimizer=adam",
                    "--set", "schedules.learning_rate=0.05"})},
      {"whole releases for an optimizer that takes norms",
       with(large, {"--set", "optimizer=normalized_sgd"})},
      {"an encoder of tokens", set(kEncoder)},
      {"a decoder of tokens, adam", with(set(kDecoder), {"--set", "optimizer=adam"})},
      {"altered copies of images",
       {"--set", "data={kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2}", "--set",
        "model={kind: cnn, layers: [{kind: conv2d, channels: 2, kernel: 3, stride: 2}]}", "--set",
        "augmentation={copies: 3, kinds: [flip, crop]}"}},
      {"noise that is taken back",
       {"--set", "sampler={kind: shuffle, batch_size: 15, fresh: false}", "--set",
        "privacy.adjacency=replace_one", "--set", "privacy.accountant=gdp", "--set",
        "aggregator={kind: matrix, bands: 4}", "--set",
        "clipping={kind: adaptive, quantile: 0.5}"}},
      {"noise that is taken back, amplified",
       {"--set", "sampler={kind: cyclic_poisson, batch_size: 15, cycle: 3}", "--set",
        "privacy.adjacency=zero_out", "--set", "privacy.accountant=pld", "--set",
        "aggregator={kind: matrix, form: banded, bands: 3}"}},
      {"differences of gradients",
       {"--set", "sampler={kind: shuffle, batch_size: 15, fresh: false}", "--set",
        "privacy.adjacency=replace_one", "--set", "privacy.accountant=gdp", "--set",
        "aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 1}", "--set",
        "schedules.learning_rate=0.1"}}};
  return all;
}

}  // namespace

TEST_CASE("a run has the same bits on one process and on several", "[slow]") {
  NEEDS_MPIRUN();
  for (const auto& [name, change] : kinds()) {
    INFO(name);
    const Cli cli;
    write_images(cli);
    write_tokens(cli.dir());
    Words words{"run", "small.yaml", "--quiet", "--threads", "1", "--set", "seed=3"};
    words.insert(words.end(), change.begin(), change.end());
    const auto to = [&](const std::string& run) {
      Words all = words;
      all.insert(all.end(), {"--out", run});
      return all;
    };
    const Outcome alone = cli(to("alone"));
    INFO(alone.err);
    REQUIRE(alone.exit_code == 0);
    for (const int processes : {2, 3}) {
      const std::string run = "run" + std::to_string(processes);
      const Outcome shared = call(in_processes(cli, processes, to(run)));
      INFO(shared.err);
      REQUIRE(shared.exit_code == 0);
      CHECK(tensors(cli.out(run)) == tensors(cli.out("alone")));
      CHECK(read_file(cli.out(run) / "metrics.jsonl") ==
            read_file(cli.out("alone") / "metrics.jsonl"));
      CHECK(charges(cli.out(run)) == charges(cli.out("alone")));
      CHECK_FALSE(charges(cli.out(run)).empty());
      CHECK(cli({"verify", run}).exit_code == 0);
    }
  }
}

TEST_CASE("rows that each process maps from a file make the run that they make in memory") {
  NEEDS_MPIRUN();
  const Cli cli;
  write_images(cli);
  const std::string data =
      "kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2, "
      "transforms: [flatten, {kind: max_norm, to: 1}]";
  const auto to = [&](const std::string& run, const std::string& more) {
    return Words{"run",
                 "small.yaml",
                 "--quiet",
                 "--set",
                 "seed=3",
                 "--set",
                 "data={" + data + more + "}",
                 "--set",
                 "sampler={kind: shuffle, batch_size: 7}",
                 "--set",
                 "privacy.adjacency=replace_one",
                 "--set",
                 "privacy.accountant=gdp",
                 "--out",
                 run};
  };
  const Outcome alone = cli(to("alone", ""));
  INFO(alone.err);
  REQUIRE(alone.exit_code == 0);
  for (const std::string cache : {"", "--cache=rows"}) {
    for (const int processes : {2, 3}) {
      const std::string run = "run" + cache.substr(0, 3) + std::to_string(processes);
      Words words = to(run, ", streaming: true");
      if (!cache.empty()) words.push_back(cache);
      const Outcome shared = call(in_processes(cli, processes, words));
      INFO(shared.err);
      REQUIRE(shared.exit_code == 0);
      CHECK(tensors(cli.out(run)) == tensors(cli.out("alone")));
      CHECK(charges(cli.out(run)) == charges(cli.out("alone")));
    }
  }
}

TEST_CASE("killed in any of its processes, a run goes on with another number of them", "[slow]") {
  NEEDS_MPIRUN();
  // State that is kept between steps is in slices, of which other processes have no
  // copy.
  const Words large{"--set", "model={kind: mlp, hidden: [320, 320]}"};
  Words few_reports = kReleases;
  few_reports.insert(few_reports.end(),
                     {"--set", "report.train_accuracy={noise_multiplier: 20, every: 200}"});
  const std::vector<std::tuple<std::string, std::string, Words>> kinds{
      {"small steps, many of them", "1000", {}},
      {"an optimizer's state, a clip norm that adapts",
       "160",
       {"--set", "clipping={kind: adaptive, quantile: 0.5}", "--set", "optimizer=adam", "--set",
        "schedules.learning_rate=0.01", "--set", large[1]}},
      {"statistics and accuracies that are released", "1000", few_reports},
      {"correlated noise that fades",
       "160",
       {"--set", "sampler={kind: shuffle, batch_size: 7}", "--set", "privacy.adjacency=replace_one",
        "--set", "privacy.accountant=gdp", "--set", "aggregator={kind: tree, momentum: 0.9}",
        "--set", large[1]}}};
  for (const auto& [name, steps, change] : kinds) {
    INFO(name);
    const Cli cli;
    const auto to = [&, &steps = steps, &change = change](const std::string& run) {
      Words words{"run",
                  "small.yaml",
                  "--quiet",
                  "--threads",
                  "1",
                  "--set",
                  "seed=3",
                  "--set",
                  "steps=" + steps,
                  "--set",
                  "checkpoint={every_steps: 50}",
                  "--set",
                  "evaluate_every=3000",
                  "--out",
                  run};
      words.insert(words.end(), change.begin(), change.end());
      return words;
    };
    const Outcome alone = cli(to("alone"));
    INFO(alone.err);
    REQUIRE(alone.exit_code == 0);
    const auto lines = charges(cli.out("alone"));
    for (const std::size_t victim : {std::size_t{0}, std::size_t{1}}) {
      const std::string run = "killed" + std::to_string(victim);
      Process running(in_processes(cli, 2, to(run)));
      const fs::path ledger = cli.out(run) / "ledger.jsonl";
      // About a third of the steps are paid for.
      const auto enough = fs::file_size(cli.out("alone") / "ledger.jsonl") / 3;
      REQUIRE(
          Process::wait_for([&] { return fs::exists(ledger) && fs::file_size(ledger) > enough; }));
      const auto processes = running.children();
      REQUIRE(processes.size() == 2);
      ::kill(processes[victim], SIGKILL);
      CHECK(running.finish().exit_code != 0);
      REQUIRE(fs::exists(cli.out(run) / "resume.json"));
      const Outcome on = call(in_processes(cli, 3, {"run", "--resume", run, "--quiet"}));
      INFO(on.err);
      REQUIRE(on.exit_code == 0);
      CHECK(tensors(cli.out(run)) == tensors(cli.out("alone")));
      CHECK(charges(cli.out(run)) == lines);
    }
  }
}

TEST_CASE("processes that are not alike make no run, and the one that differs is named") {
  NEEDS_MPIRUN();
  const Cli cli;
  const auto one = [&](const Words& more) {
    Words words =
        cli.prepare({"run", "small.yaml", "--quiet", "--out", "run", "--cluster", "mpi"}).words;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  Call what = in_processes(cli, 1, {});
  what.words = mpirun("2");
  const auto add = [&](const Words& words) {
    what.words.insert(what.words.end(), words.begin(), words.end());
  };
  add(one({}));
  add({":", "-np", "1"});
  add(one({"--set", "schedules.learning_rate=0.25"}));
  const Outcome outcome = call(what);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err,
             ContainsSubstring("privgrad: error: process 2 on " + host_name() +
                               " has another manifest than process 0 on " + host_name() + "\n"));
  CHECK_FALSE(fs::exists(cli.out("run") / "ledger.jsonl"));
}

TEST_CASE("processes that have other examples under the same name make no run") {
  NEEDS_MPIRUN();
  const bool streams = GENERATE(false, true);
  CAPTURE(streams);
  const Cli cli;
  // The same path in all processes, relative to the folder of each process.
  write_file(cli.manifest(), [&] {
    std::string text = Cli::kManifest;
    const std::string data = "data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4}";
    return text.replace(text.find(data), data.size(),
                        "data: {kind: csv, train: /proc/self/cwd/train.csv, "
                        "test: /proc/self/cwd/test.csv, target: y" +
                            std::string(streams ? ", streaming: true}" : "}"));
  }());
  const std::string rows = "a,y\n0.5,1\n-0.25,0\n0.75,1\n-1,0\n";
  const std::string others = "a,y\n0.5,1\n-0.25,0\n0.75,1\n-1,1\n";
  const auto outcome = [&](const std::string& run, const std::string& train,
                           const std::string& test) {
    for (const char* rank : {"0", "1"}) {
      const fs::path folder = cli.out(run + rank);
      fs::create_directory(folder);
      write_file(folder / "train.csv", *rank == '0' ? rows : train);
      write_file(folder / "test.csv", *rank == '0' ? rows : test);
    }
    Call what = in_processes(cli, 1, {});
    what.words = {kMpirun, "--allow-run-as-root", "--oversubscribe"};
    for (const char* rank : {"0", "1"}) {
      Words part = cli.prepare({"run", cli.manifest(), "--quiet", "--out", cli.out(run + "-run"),
                                "--cluster", "mpi"})
                       .words;
      if (streams) part.push_back("--cache=" + cli.out(run + rank + "-rows").string());
      if (*rank == '1') what.words.push_back(":");
      what.words.insert(what.words.end(), {"-np", "1", "--wdir", cli.out(run + rank)});
      what.words.insert(what.words.end(), part.begin(), part.end());
    }
    return call(what);
  };
  const Outcome same = outcome("same", rows, rows);
  INFO(same.err);
  CHECK(same.exit_code == 0);
  for (const auto& [name, train, test] :
       {std::tuple{"train", others, rows}, std::tuple{"test", rows, others}}) {
    INFO(name);
    const Outcome differs = outcome(name, train, test);
    INFO(differs.err);
    CHECK(differs.exit_code == 2);
    CHECK_THAT(differs.err, ContainsSubstring("process 1 on " + host_name() +
                                              " has other examples than process 0 on "));
    CHECK_FALSE(fs::exists(cli.out(std::string(name) + "-run") / "ledger.jsonl"));
  }
}

TEST_CASE("what cannot be shared among processes is refused before anything is written") {
  NEEDS_MPIRUN();
  const Cli cli;
  const auto refused = [&](const Words& change, const std::string& why) {
    Words words{"run", "small.yaml", "--quiet", "--out", "run"};
    words.insert(words.end(), change.begin(), change.end());
    const Outcome outcome = call(in_processes(cli, 2, words));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
    CHECK_FALSE(fs::exists(cli.out("run") / "ledger.jsonl"));
  };
  refused({"--set", "aggregator={kind: gaussian, arithmetic: float}"}, "arithmetic exact");
  refused({"--set", "privacy.noise=off"}, "runs without noise");
  refused({"--set", "clipping=adaclip"},
          "is not shared among processes (trait coordinate_scaling of clipping adaclip)");
  // A problem that all processes have is reported once.
  const Outcome wrong = call(in_processes(cli, 3, {"run", "small.yaml", "--set", "steps=0"}));
  CHECK(wrong.exit_code == 2);
  INFO(wrong.err);
  CHECK(wrong.err.find("error: steps") != wrong.err.npos);
  CHECK(wrong.err.find("error: steps") == wrong.err.rfind("error: steps"));
}

TEST_CASE("release mode asks that what carries private sums has passed its tests") {
  NEEDS_MPIRUN();
  const Cli cli;
  const auto release = [&](const std::string& run, const Words& more) {
    Words words{"run",          "small.yaml", "--quiet",
                "--out",        run,          "--set",
                "mode=release", "--set",      "data.test_is_public=true"};
    words.insert(words.end(), more.begin(), more.end());
    return call(in_processes(cli, 2, words));
  };
  const Outcome tested = release("tested", {});
  INFO(tested.err);
  CHECK(tested.exit_code == 0);
  // The same file, without its record.
  const fs::path alone = cli.out("plugins");
  fs::create_directory(alone);
  fs::copy_file(kPlugins / "clusters/mpi.privgrad.so", alone / "mpi.privgrad.so");
  fs::permissions(alone / "mpi.privgrad.so", fs::perms::owner_all);
  const Outcome untested = release("untested", {"--plugin-dir", alone});
  INFO(untested.err);
  CHECK(untested.exit_code == 3);
  CHECK_THAT(untested.err, ContainsSubstring("release mode refuses plugin privgrad.mpi"));
  CHECK_FALSE(fs::exists(cli.out("untested") / "ledger.jsonl"));
}

TEST_CASE("each process obeys the policies of its machine, and so does what joins the processes") {
  NEEDS_MPIRUN();
  const Cli cli;
  const fs::path policy = cli.out("policy.yaml"), run = cli.out("run");
  const auto refused = [&](const std::string& text, const Words& words, const char* what) {
    write_file(policy, text);
    Call call = in_processes(cli, 1, {});
    call.words = words;
    const Outcome outcome = ::call(call);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring(what));
    CHECK_FALSE(fs::exists(run / "ledger.jsonl"));
  };
  const Words one =
      cli.prepare({"run", "small.yaml", "--quiet", "--out", "run", "--cluster", kMpi}).words;
  const auto with = [](Words all, const Words& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // Only the second process has a policy.
  const Words two =
      with(mpirun("1"),
           with(one, {":", "-np", "1", "/usr/bin/env", "PRIVGRAD_POLICY=" + policy.string()}));
  refused("privgrad_policy: 1\nmode: release\n", with(two, one), "mode: the run is in research");

  const fs::path folder = cli.out("plugins");
  fs::create_directory(folder);
  for (const char* end : {"", ".tested.json"}) {
    const std::string name = std::string("mpi.privgrad.so") + end;
    fs::copy_file(kPlugins / "clusters" / name, folder / name);
  }
  fs::permissions(folder / "mpi.privgrad.so", fs::perms::owner_all);
  const Words elsewhere{"--plugin-dir", folder.string(), "--policy", policy.string()};
  refused("privgrad_policy: 1\nplugins: {}\n", with(mpirun("2"), with(one, elsewhere)),
          "plugins: the run loads privgrad.mpi");
}

TEST_CASE("a cluster that is not there, or is asked for in a wrong way, is one line") {
  const Cli cli;
  const auto refused = [&](const std::string& cluster, const std::string& why) {
    const Outcome outcome = cli({"run", "small.yaml", "--out", "run", "--cluster", cluster});
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
  };
  refused("mpy", "did you mean 'mpi'?");
  refused("{timeout_seconds: 3}", "expected a kind");
  refused("{kind: local, x: 3}", "x is unknown");
  // A cluster of one process is an ordinary run.
  CHECK(cli({"run", "small.yaml", "--quiet", "--out", "run", "--cluster", "local"}).exit_code == 0);
}

TEST_CASE("several processes together keep the promises of a cluster") {
  NEEDS_MPIRUN();
  const Cli cli;
  Call what = in_processes(cli, 1, {});
  what.words = mpirun("3");
  what.words.push_back(kBuild / "tests/cluster_rules");
  what.words.push_back(kPlugins);
  const Outcome outcome = call(what);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  std::size_t passed = 0;
  for (std::size_t at = 0;
       (at = outcome.out.find("passed adds_up_modulo_2_to_the_64", at)) != outcome.out.npos; ++at)
    ++passed;
  CHECK(passed == 3);
}

TEST_CASE("a process that does not come is waited for as long as was said") {
  NEEDS_MPIRUN();
  const Cli cli;
  Call what = in_processes(cli, 1, {});
  what.words = mpirun("1");
  const Words leader = cli.prepare({"run", "small.yaml", "--quiet", "--out", "run", "--cluster",
                                    "{kind: mpi, timeout_seconds: 1}"})
                           .words;
  what.words.insert(what.words.end(), leader.begin(), leader.end());
  // The other process starts MPI and then sends nothing that process 0 waits for.
  what.words.insert(what.words.end(),
                    {":", "-np", "1", kBuild / "tests/cluster_rules", kPlugins, "idle"});
  const Outcome outcome = call(what);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.err, ContainsSubstring("process 0 on " + host_name() + " has waited 1 s") &&
                              ContainsSubstring("no answer from process 1 on " + host_name() +
                                                " (cluster timeout_seconds)"));
}

TEST_CASE("examples/manifests/cluster.yaml: the model of three processes is that of one") {
  NEEDS_MPIRUN();
  const Cli cli;
  const std::string manifest = kSource / "examples/manifests/cluster.yaml";
  const Words run{"run", manifest, "--set", "seed=1", "--quiet", "--out"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), run.begin(), run.end());
    return words;
  };
  REQUIRE(cli(with({"alone", "--set", "cluster=local"})).exit_code == 0);
  Call what = in_processes(cli, 1, {});
  what.words = mpirun("3");
  const Words words = cli.prepare(with({"shared"})).words;
  what.words.insert(what.words.end(), words.begin(), words.end());
  const Outcome outcome = call(what);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(tensors(cli.out("shared")) == tensors(cli.out("alone")));
}
