// A stopped run is resumed from copies of its files and of its state, each with one change: it
// continues with the same bits, or is refused.

#include <functional>
#include <set>

#include "processes.hpp"

namespace fs = std::filesystem;

namespace {

std::string table(int rows, int shift) {
  std::string text = "a,b,y\n";
  for (int i = shift; i < rows + shift; ++i)
    text +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + (i % 2 ? "yes" : "no") + "\n";
  return text;
}

std::string with(std::string text, const std::string& was, const std::string& is) {
  const std::size_t at = text.find(was);
  REQUIRE(at != text.npos);
  return text.replace(at, was.size(), is);
}

constexpr const char* kRun = R"(privgrad: 1
name: copied
data:
  kind: csv
  train: rows.csv
  test: test.csv
  test_is_public: true
  target: y
  labels: ['no', 'yes']
  other_label: 'no'
  row: line
  malformed: fill
  size: 40
  columns: [{name: a, type: number, min: 0, max: 7, fill: 3}, {name: b, type: number, min: 0, max: 5, fill: 2}]
model: {kind: linear}
sampler: {kind: poisson, batch_size: 8}
optimizer: {kind: momentum, beta: 0.9}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 8, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 1
evaluate_every: 50
checkpoint: {every_steps: 40}
)";

/// A run that was stopped before its end, and its inputs.
struct Stopped {
  Cli cli;

  /// \param kind  the kind of model, with its parameters.
  Stopped(const Words& more, const std::string& kind, std::size_t steps) : model_(kind) {
    write_file(cli.out("rows.csv"), table(40, 0));
    write_file(cli.out("test.csv"), table(20, 3));
    write_file(cli.out("run.yaml"), kRun);
    weights("weights.safetensors", "0.1");
    Words words{"run",
                "run.yaml",
                "--out",
                "run",
                "--quiet",
                "--threads",
                "1",
                "--set",
                "model={" + model_ + ", weights: {file: weights.safetensors, public: true}}",
                "--set",
                "steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    for (int code = 0; code == 0;) {  // repeats if the run ended before the signal
      fs::remove_all(cli.out("run"));
      fs::remove_all(cli.state());
      Process process(cli.prepare(words));
      REQUIRE(Process::wait_for([&] {
        std::error_code absent;
        return fs::file_size(cli.out("run/metrics.jsonl"), absent) > 0 && !absent;
      }));
      process.send(SIGTERM);
      const Outcome outcome = process.finish();
      INFO(outcome.err);
      REQUIRE((code = outcome.exit_code) <= 1);
    }
    REQUIRE(fs::exists(cli.out("run/resume.json")));
  }

  /// Writes the weights of a public model.
  void weights(const std::string& file, const std::string& rate) const {
    const Words words{"run",
                      "run.yaml",
                      "--out",
                      "public",
                      "--quiet",
                      "--set",
                      "model={" + model_ + "}",
                      "--set",
                      "privacy.noise=off",
                      "--set",
                      "steps=3",
                      "--set",
                      "seed=1",
                      "--set",
                      "mode=research",
                      "--set",
                      "schedules={clip_norm: 1, learning_rate: " + rate + "}"};
    fs::remove_all(cli.out("public"));
    const Outcome outcome = cli(words);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    fs::copy_file(cli.out("public/model.safetensors"), cli.out(file),
                  fs::copy_options::overwrite_existing);
  }

 private:
  std::string model_;
};

/// A copy of everything at the time of the stop, except for one change.
class Copied {
 public:
  explicit Copied(const Stopped& stopped) : cli_(stopped.cli) {
    fs::remove_all(run());
    fs::remove_all(cli_.out("state"));
    fs::copy(cli_.out("run"), run(), fs::copy_options::recursive);
    fs::create_directory(cli_.out("state"));
    fs::copy(cli_.state(), cli_.out("state/privgrad"), fs::copy_options::recursive);
  }
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;
  ~Copied() {
    for (const auto& [file, text] : shared_) write_file(file, text);
  }

  fs::path run() const { return cli_.out("copy"); }
  const Cli& cli() const { return cli_; }

  /// Changes an input that the copies share, until this object is destroyed.
  void edit(const std::string& file, const std::string& was, const std::string& is) {
    const fs::path path = cli_.out(file);
    shared_.emplace(path, read_file(path));
    write_file(path, with(shared_.at(path), was, is));
  }
  void replace(const std::string& file, const std::string& text) {
    const fs::path path = cli_.out(file);
    shared_.emplace(path, read_file(path));
    REQUIRE(shared_.at(path) != text);
    write_file(path, text);
  }
  void edit_manifest(const std::string& was, const std::string& is) const {
    write_file(run() / "manifest.yaml", with(read_file(run() / "manifest.yaml"), was, is));
  }

  int processes = 1;
  Words more;
  std::map<std::string, std::string> environment;

  Outcome resume() const {
    Words words{"run", "--resume", "copy", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    Call what = processes == 1 ? cli_.prepare(words) : in_processes(cli_, processes, words);
    what.environment["XDG_STATE_HOME"] = cli_.out("state");
    for (const auto& [name, value] : environment) what.environment[name] = value;
    return call(what);
  }

 private:
  const Cli& cli_;
  std::map<fs::path, std::string> shared_;
};

struct Change {
  std::string name;
  std::function<void(Copied&)> make;
  std::string refusal =
      "";  ///< Part of the one line of refusal; "": the run continues with the same bits.
  int code = 3;
};

/// Returns the levels of instructions that this processor has.
std::vector<std::string> levels(const Cli& cli) {
  std::vector<std::string> found;
  for (const std::string level : {"plain", "avx2", "avx512"}) {
    Call version = cli.prepare({"--version"});
    version.environment["PRIVGRAD_INSTRUCTIONS"] = level;
    if (call(version).exit_code == 0) found.push_back(level);
  }
  return found;
}

/// \param size_is_real  whether a number of rows other than data.size is an error in the manifest.
std::vector<Change> changes(const Stopped& stopped, bool size_is_real, std::size_t steps) {
  const std::string data = "the training data has changed since the start of the run";
  const std::string test = "the test rows, which are measured, are others";
  const std::string other = "is not what the run began with",
                    manifest = "the manifest as resolved is not what the run began with";
  const auto in_rows = [](const std::string& file, const std::string& was, const std::string& is) {
    return [=](Copied& copy) { copy.edit(file, was, is); };
  };
  const auto in_manifest = [](const std::string& was, const std::string& is) {
    return [=](Copied& copy) { copy.edit_manifest(was, is); };
  };
  std::vector<Change> all{
      {"nothing", [](Copied&) {}},
      {"a label of the test rows", in_rows("test.csv", "3,3,yes", "3,3,no"), test},
      {"a feature of the test rows", in_rows("test.csv", "3,3,yes", "4,3,yes"), test},
      {"a test row less", in_rows("test.csv", "3,3,yes\n", ""), "test rows"},
      {"a label of the training rows", in_rows("rows.csv", "1,1,yes", "1,1,no"), data},
      {"a feature of the training rows", in_rows("rows.csv", "1,1,yes", "2,1,yes"), data},
      {"the order of the training rows",
       in_rows("rows.csv", "0,0,no\n1,1,yes\n", "1,1,yes\n0,0,no\n"), data},
      {"a training row less", in_rows("rows.csv", "1,1,yes\n", ""),
       size_is_real ? "data.size" : data, size_is_real ? 2 : 3},
      {"the weights that training began with",
       [&](Copied& copy) {
         stopped.weights("others.safetensors", "0.7");
         copy.replace("weights.safetensors", read_file(copy.cli().out("others.safetensors")));
       },
       other},
      {"a setting of the data source", in_manifest("fill: 3", "fill: 4"), other},
      {"the clip norm", in_manifest("value: 1.0", "value: 2.0"), manifest},
      {"the learning rate", in_manifest("value: 0.1", "value: 0.2"), manifest},
      {"the number of steps",
       in_manifest("steps: " + std::to_string(steps), "steps: " + std::to_string(steps + 1)),
       manifest},
      {"a setting of the call",
       [](Copied& copy) {
         copy.more = {"--set", "steps=1"};
       },
       "--set", 2},
      {"the number of threads",
       [](Copied& copy) {
         copy.more = {"--threads", "3"};
       }},
      {"the number of processes", [](Copied& copy) { copy.processes = 2; }}};
  for (const std::string& level : levels(stopped.cli)) {
    all.push_back({"instructions: " + level,
                   [=](Copied& copy) { copy.environment["PRIVGRAD_INSTRUCTIONS"] = level; }});
  }
  return all;
}

/// \param kind  the changes to the manifest.
/// \param network  the model's kind, with its parameters.
/// \param steps  the number of steps of the run.
void check_copies(const Words& kind, bool size_is_real, const std::string& network = "kind: linear",
                  std::size_t steps = 4000) {
  CAPTURE(kind);
  const Stopped stopped(kind, network, steps);
  std::string model;
  std::vector<Json> charged;
  for (const Change& change : changes(stopped, size_is_real, steps)) {
    INFO(change.name);
    Copied copy(stopped);
    change.make(copy);
    const auto before = files_below(copy.run());
    const Outcome outcome = copy.resume();
    INFO(outcome.err);
    if (!change.refusal.empty()) {
      CHECK(outcome.exit_code == change.code);
      CHECK(outcome.out == "");
      CHECK(line_count(outcome.err) == 1);
      CHECK_THAT(outcome.err, ContainsSubstring(change.refusal));
      const bool is_untouched = files_below(copy.run()) == before;
      CHECK(is_untouched);
      continue;
    }
    REQUIRE(outcome.exit_code == 0);
    if (model.empty()) {
      model = tensors(copy.run());
      charged = charges(copy.run());
      REQUIRE(charged.size() == steps);
    }
    const bool is_same = tensors(copy.run()) == model && charges(copy.run()) == charged;
    CHECK(is_same);
  }
}

}  // namespace

TEST_CASE("a copied state goes on to the same bits, or is refused before anything is made",
          "[resume][privacy]") {
  NEEDS_MPIRUN();
  check_copies({"--set", "mode=release"}, false);
}

TEST_CASE("a copied state of a run with a seed goes on to the same bits, or is refused",
          "[resume][privacy]") {
  NEEDS_MPIRUN();
  check_copies({"--set", "seed=3"}, false);
}

// 104 642 parameters are several pieces of a sum, so each of two processes draws the noise of its
// own slice and keeps it for later steps; a small model would belong entirely to one process.
TEST_CASE("a copied state of a run with correlated noise goes on to the same bits, or is refused",
          "[resume][privacy]") {
  NEEDS_MPIRUN();
  check_copies({"--set", "sampler={kind: shuffle, batch_size: 8}", "--set",
                "aggregator={kind: tree, momentum: 0.9}", "--set", "privacy.adjacency=replace_one",
                "--set", "privacy.accountant=gdp"},
               true, "kind: mlp, hidden: [320, 320]", 300);
}
