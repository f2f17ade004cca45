// Kills runs at chosen file operations, resumes them, and compares their outputs and charges.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/train/resumed_plan.hpp"
#include "privgrad/verify/verify.hpp"
#include "support.hpp"
#include "token_rows.hpp"

/// Runs that are interrupted and resumed, each in its own process.
namespace resumed {

using namespace privgrad;
namespace fs = std::filesystem;

/// The file operation at which a child dies; 0: none. If it dies at a write, half of the data is
/// written.
inline std::uint64_t dies_at = 0;
inline std::uint64_t operations = 0;

inline bool is_the_last_one() { return dies_at != 0 && ++operations == dies_at; }

inline constexpr const char* kBase = R"(privgrad: 1
name: resumed
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 5}
model: {kind: linear}
sampler: {kind: poisson, batch_size: 12}
optimizer: {kind: momentum, beta: 0.9}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 24
evaluate_every: 5
checkpoint: {every_steps: 3}
)";

using Overrides = std::vector<std::string>;

/// Epochs of random allocation, with checkpoints in the middle.
inline const Overrides kAllocation{"sampler={kind: allocation, steps_per_epoch: 5}",
                                   "privacy.accountant=pld", "schedules.noise_multiplier=2"};

/// Two transforms; the second learns from the rows that the first has transformed.
inline const std::string kStatistics =
    "data.transforms=[{kind: standardize, statistic: private, range: [-2, 2], share: 0.1}, "
    "{kind: standardize, statistic: private, range: [-4, 4], noise_multiplier: 20}]";

/// Federated runs with a checkpoint between rounds, with each kind of state that rounds keep.
inline std::vector<std::pair<std::string, Overrides>> federated_kinds() {
  const auto rounds = [](const std::string& more, const Overrides& others) {
    Overrides all{"federated={clients: 3, rounds: 8, " + more + "}",
                  "sampler={kind: poisson, batch_size: 6}", "checkpoint.every_steps=2",
                  "evaluate_every=3", "steps=40"};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  const std::string accidents = "client_drop_rate: 0.3, straggler_rate: 0.3";
  const std::string some = "participation: {kind: poisson, sample_rate: 0.7}";
  const std::string server = "aggregation: dp_fed_avg, client_clip_norm: 1, local_iterations: 2";
  const std::string ali = "local_iterations: {kind: ali_dpfl, form: closed}, estimate_bound: 2";
  return {
      {"fed_avg", rounds("local_iterations: 3, " + some + ", " + accidents, {})},
      {"fed_avg, of a seed", rounds("local_iterations: 3, " + some, {"seed=7"})},
      {"fed_avg, clip norms that adapt, clients that were drawn",
       rounds("local_iterations: 2, partition: {kind: dirichlet, alpha: 1, at_least: 10}",
              {"clipping={kind: adaptive, quantile: 0.5}"})},
      {"dp_fed_avg, secret participation",
       rounds(server + ", " + some + ", " + accidents + ", server_optimizer: {kind: momentum}",
              {})},
      {"dp_fed_avg, random allocation of rounds",
       rounds(server + ", participation: {kind: allocation, steps_per_epoch: 3}, " + accidents,
              {"privacy.accountant=pld", "schedules.noise_multiplier=2"})},
      {"dp_fed_avg, for release", rounds(server + ", " + some, {"mode=release", "data.size=60"})},
      {"dp_fed_avg, of a seed", rounds(server + ", server_optimizer: adam", {"seed=7"})},
      {"dp_fed_avg, correlated",
       rounds(server + ", participation: {kind: shuffle, batch_size: 2}",
              {"aggregator={kind: tree, momentum: 0.9}", "privacy.adjacency=replace_one",
               "privacy.accountant=gdp"})},
      {"dp_fed_avg, clients who come when they may",
       rounds(server + ", " + some + ", min_separation: 1, max_participations: 3",
              {"aggregator={kind: matrix, bands: 3}", "privacy.adjacency=zero_out",
               "privacy.accountant=gdp"})},
      {"ali_dpfl, private estimates", rounds(ali, {"steps=60"})},
      {"ali_dpfl, private estimates, of a seed", rounds(ali, {"steps=60", "seed=7"})},
      {"ali_dpfl, from models",
       rounds(
           "local_iterations: {kind: ali_dpfl, form: search, memory: 0.9}, estimates: from_models",
           {"steps=60", "seed=3"})},
      {"ali_dpfl, exact estimates", rounds(ali + ", estimates: unaccounted", {"steps=60"})},
      {"fed_avg, an average of the models of rounds",
       rounds("local_iterations: 3, " + some, {"ema_decay=0.9", "output=ema"})},
      {"fed_avg, without noise", rounds("local_iterations: 3, " + some, {"privacy.noise=off"})}};
}

/// Returns runs with each kind of state that steps keep.
inline const std::vector<std::pair<std::string, Overrides>>& kinds() {
  const std::string tree = "aggregator={kind: tree, momentum: ";
  const Overrides shuffled{"sampler={kind: shuffle, batch_size: 7}",
                           "privacy.adjacency=replace_one", "privacy.accountant=gdp"};
  const auto with = [](Overrides all, const Overrides& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  static const std::vector<std::pair<std::string, Overrides>> all = [&] {
    std::vector<std::pair<std::string, Overrides>> central{
        {"central", {}},
        {"central, of a seed", {"seed=7"}},
        {"fixed sizes, adam",
         {"sampler={kind: fixed_size, batch_size: 9}", "privacy.adjacency=replace_one",
          "optimizer=adam"}},
        {"a shuffled epoch over checkpoints", shuffled},
        {"random allocation", kAllocation},
        {"correlated, in whole numbers", with(shuffled, {"aggregator=tree", "optimizer=ftrl"})},
        {"correlated, in fractions", with(shuffled, {tree + "0.9}"})},
        {"correlated, of differences",
         with(shuffled,
              {"sampler={kind: shuffle, batch_size: 7, fresh: false}",
               "aggregator={kind: tree_reduced, momentum: 0.9, gamma: 0.3, smoothness: 1}",
               "optimizer=normalized_sgd"})},
        {"noise that is taken back", with(shuffled, {"aggregator={kind: matrix, bands: 4}"})},
        {"noise that is taken back, amplified",
         {"aggregator={kind: matrix, form: banded, bands: 3}", "privacy.accountant=pld",
          "sampler={kind: cyclic_poisson, batch_size: 7, cycle: 4}", "privacy.adjacency=zero_out"}},
        {"correlated, of a seed", with(shuffled, {tree + "0.9}", "seed=3"})},
        {"a clip norm that adapts", {"clipping={kind: adaptive, quantile: 0.5}"}},
        {"coordinates that are scaled", {"clipping=adaclip"}},
        {"noise that adapts",
         {"sampler=full_batch", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
          "schedules.noise_multiplier={kind: descent_check, initial: 20, every: 4, raise: 0.5, "
          "loss_bound: 2, check_noise_multiplier: 30}"}},
        {"an iterate that was drawn", {"output=random_iterate"}},
        {"an average of the iterates", {"ema_decay=0.9", "output=ema"}},
        {"features that were fitted", {"data.transforms=[{kind: standardize}]"}},
        {"statistics that are paid for", {"data.size=60", kStatistics}},
        {"statistics that are paid for, of a seed", {"seed=7", kStatistics}},
        {"statistics that are paid for, for release",
         {"mode=release", "data.size=60", kStatistics}},
        {"a reported accuracy", {"data.size=60", "report.train_accuracy.share=0.1", kStatistics}},
        {"counts that are paid for",
         {"data.size={about: 50, statistic: private, noise_multiplier: 15}",
          "report={class_counts: {share: 0.05}, train_accuracy: {share: 0.1}}", kStatistics}},
        {"class weights from counts",
         {"mode=release", "data.size=60", "model.class_weights=balanced",
          "report={class_counts: {share: 0.05, largest_weight: 5}}"}},
        {"an encoder of tokens", with(kEncoder, {"mode=release", "data.size=60"})},
        {"a decoder of tokens", with(kDecoder, {"optimizer=adam"})},
        {"accuracies that may end it",
         {"data.size=60", "report={train_accuracy: {share: 0.2, every: 5, patience: 2}}"}},
        {"accuracies that end it",
         {"data.size=60", "seed=4", "schedules.learning_rate=1e-9",
          "report={train_accuracy: {share: 0.2, every: 3, patience: 1}}"}},
        {"without noise", {"privacy.noise=off"}},
        {"without noise, in an order that was drawn",
         with(shuffled, {"aggregator=tree", "privacy.noise=off"})}};
    for (auto& kind : federated_kinds()) central.push_back(std::move(kind));
    return central;
  }();
  return all;
}

inline const Overrides& kind(const std::string& name) {
  return std::find_if(kinds().begin(), kinds().end(),
                      [&](const auto& one) { return one.first == name; })
      ->second;
}

/// How the process of a run ended.
struct End {
  bool killed = false;
  int code = 0;  ///< 0 done, 2 a wrong call, 3 refused for privacy, 4 a file.
};

/// A run directory and a state folder. Every run is made in a child process.
class Place {
 public:
  Place() : Place(house()) {}
  /// \param components  the components for manifests; must outlive this object.
  explicit Place(const Catalog& components) : components_(components) {}
  /// A place that another process of the test has made.
  explicit Place(fs::path folder) : components_(house()), own_(), folder_(std::move(folder)) {}
  /// A copy of another place in its current state, as if the machine had been copied.
  explicit Place(const Place& other, int) : components_(other.components_) {
    fs::copy(other.run(), run(), fs::copy_options::recursive);
    fs::copy(other.state(), state(), fs::copy_options::recursive);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const fs::path& folder() const { return folder_; }
  fs::path run() const { return folder_ / "run"; }
  fs::path state() const { return folder_ / "state"; }
  fs::path manifest() const { return folder_ / "manifest.yaml"; }

  /// Begins a run, and stops it before its first step.
  /// \param operation  the operation at which the process dies; 0: none.
  End begin(const Overrides& overrides, std::uint64_t operation = 0) const {
    write_file(manifest(), kBase);
    write_tokens(folder());
    return in_child(operation, 0, [&] {
      const core::Manifest manifest_of_run =
          core::load_manifest(manifest(), overrides, components_);
      const std::atomic<bool> stop{true};
      core::run(core::make_plan(manifest_of_run), options(1, &stop));
    });
  }

  struct Chance {
    std::uint64_t operation = 0;     ///< The operation at which the process dies; 0: none.
    std::uint64_t microseconds = 0;  ///< The time after which it is killed; 0: never.
    int threads = 1;
    bool finish = false;
    std::string lock = "";
  };

  End resume(const Chance& chance) const {
    return in_child(chance.operation, chance.microseconds, [&] { go_on(chance); });
  }
  End resume() const { return resume(Chance{}); }
  /// Resumes the run in this process.
  void go_on(const Chance& chance) const {
    core::RunOptions how = options(chance.threads, nullptr);
    how.resume = true;
    how.finish = chance.finish;
    how.lock = chance.lock;
    core::check_resumable(how);
    const core::Manifest same = core::load_manifest(run() / "manifest.yaml", {}, components_);
    core::run(core::make_resumed_plan(same, run(), state()), how);
  }

  std::string model() const { return read_file(run() / "model.safetensors"); }
  std::string metrics() const { return read_file(run() / "metrics.jsonl"); }
  /// Returns all lines of all ledgers except each last line, which is bound to the summary and thus
  /// to the run's time.
  std::string charges() const {
    std::string all;
    for (const fs::path& file : ledgers()) {
      const std::string text = read_file(file);
      all +=
          file.filename().string() + "\n" + text.substr(0, text.rfind('\n', text.size() - 2) + 1);
    }
    return all;
  }
  std::vector<fs::path> ledgers() const {
    std::vector<fs::path> files;
    if (fs::exists(run() / "ledger.jsonl")) files.push_back(run() / "ledger.jsonl");
    if (!fs::exists(run() / "ledgers")) return files;
    for (const auto& entry : fs::directory_iterator(run() / "ledgers"))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  /// Returns a federated run's lines about rounds and clients.
  std::string rounds() const {
    if (!fs::exists(run() / "rounds.jsonl")) return "";
    return read_file(run() / "rounds.jsonl") + read_file(run() / "clients.json");
  }
  /// Returns all files of the run directory, except resume.json, which has_private_state() covers:
  /// a process that is killed after its last file leaves resume.json to the next resume.
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& [name, content] : files_below(run()))
      if (name != "resume.json") all.insert(name);
    return all;
  }
  /// Returns the run's summary without its duration, its number of threads and its directory.
  nlohmann::json summary() const {
    auto json = nlohmann::json::parse(read_file(run() / "summary.json"));
    for (const char* key : {"seconds", "threads", "run_dir"}) json.erase(key);
    return json;
  }
  bool is_over() const { return fs::exists(run() / "summary.json"); }
  /// Whether keys or private sums of the run exist anywhere.
  bool has_private_state() const {
    if (fs::exists(run() / "resume.json")) return true;
    if (!fs::exists(state())) return false;
    for (const auto& entry : fs::directory_iterator(state()))
      if (entry.path().filename().string().starts_with("run-")) return true;
    return false;
  }
  fs::path private_folder() const {
    for (const auto& entry : fs::directory_iterator(state()))
      if (entry.path().filename().string().starts_with("run-")) return entry.path();
    return {};
  }
  std::string last_words() const { return read_file(folder_ / "words"); }
  /// Runs an action that may fail in a child process, and returns how the process ended.
  template <class Action>
  [[noreturn]] void end_with(const Action& action) const {
    int code = 0;
    std::string words;
    try {
      action();
    } catch (const PrivacyError& problem) {
      code = 3;
      words = problem.what();
    } catch (const IoError& problem) {
      code = 4;
      words = problem.what();
    } catch (const std::exception& problem) {
      code = 2;
      words = problem.what();
    }
    dies_at = 0;
    write_file(folder_ / "words", words);
    ::_exit(code);
  }

 private:
  core::RunOptions options(int threads, const std::atomic<bool>* stop) const {
    return {.directory = run(),
            .lock = "",
            .threads = threads,
            .state = state(),
            .on_progress = {},
            .stop = stop};
  }

  template <class Action>
  End in_child(std::uint64_t operation, std::uint64_t microseconds, const Action& action) const {
    house();
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      dies_at = operation;
      end_with(action);
    }
    if (microseconds > 0) {
      ::usleep(static_cast<useconds_t>(microseconds));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return {.killed = WIFSIGNALED(status), .code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }

  const Catalog& components_;
  std::optional<TempDir> own_{std::in_place, On::little_memory};
  fs::path folder_ = own_->path();
};

/// A checkpoint as stored on the disk: its beginning, its number, its content, its hash.
struct CheckpointBytes {
  static constexpr std::size_t kMagic = 22, kNumber = 8, kHash = 64;

  explicit CheckpointBytes(const fs::path& path) : file(path), text(read_file(path)) {
    std::memcpy(&number, text.data() + kMagic, kNumber);
    // The part "keys": the flag of a chain, and its two keys after their lengths.
    const std::size_t part = text.find("keys") + 4 + 8;
    lasting = part + 8;
    now = lasting + 32 + 8;
  }

  std::string key(std::size_t at) const { return text.substr(at, 32); }

  /// Sets another key for the next round, and a matching hash.
  void forge() {
    text[now] = static_cast<char>(text[now] ^ 1);
    text.resize(text.size() - kHash);
    text += core::sha256_hex(text);
    write_file(file, text);
  }

  fs::path file;
  std::string text;
  std::uint64_t number = 0;
  std::size_t lasting = 0, now = 0;  // the offsets of the keys
};

inline std::vector<CheckpointBytes> checkpoints_of(const Place& place) {
  std::vector<CheckpointBytes> all;
  for (const char* slot : {"checkpoint-a", "checkpoint-b"}) {
    const fs::path file = place.private_folder() / slot;
    if (fs::exists(file)) all.emplace_back(file);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return all;
}

/// Returns the hash of each round's or statistic's published value, as bound; an incomplete line is
/// skipped.
inline std::vector<std::string> shown_of(const Place& place) {
  std::vector<std::string> hashes;
  std::istringstream lines(read_file(place.private_folder() / "bindings.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) hashes.push_back(json.at("released"));
  }
  return hashes;
}

/// Whether the run is unfinished, because a very late interruption leaves it finished.
inline bool goes_on(const Place& place) { return !place.is_over(); }

inline void check_equal(const Place& made, const Place& expected) {
  CHECK(made.model() == expected.model());
  CHECK(made.metrics() == expected.metrics());
  CHECK(made.charges() == expected.charges());
  CHECK(made.rounds() == expected.rounds());
  CHECK(made.summary() == expected.summary());
  // A file during whose writing the process was killed leaves no trace.
  CHECK(made.names() == expected.names());
}

inline std::vector<std::string> problems_of(const Place& place) {
  const core::RecordDirectory directory(place.run());
  return core::verify_run(directory, house(), std::nullopt).problems;
}

}  // namespace resumed
