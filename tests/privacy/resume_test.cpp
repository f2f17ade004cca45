#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>

#include "house_plugins.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/pipeline/plan.hpp"
#include "privgrad/pipeline/run.hpp"
#include "privgrad/pipeline/verify.hpp"
#include "privgrad/trust/record_directory.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

namespace {

/// Of a child: at which operation on a file it dies; 0: none. A write that it dies at is half done.
std::uint64_t dies_at = 0;
std::uint64_t operations = 0;

bool is_the_last_one() { return dies_at != 0 && ++operations == dies_at; }

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace

// In front of the C library's, for the code that this program is linked from.
extern "C" ssize_t write(int descriptor, const void* from, std::size_t size) {
  if (is_the_last_one()) {
    ::syscall(SYS_write, descriptor, from, size / 2);
    die();
  }
  return ::syscall(SYS_write, descriptor, from, size);
}

extern "C" int fsync(int descriptor) {
  if (is_the_last_one()) die();
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int fdatasync(int descriptor) {
  if (is_the_last_one()) die();
  return static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (is_the_last_one()) die();
  return static_cast<int>(::syscall(SYS_rename, from, to));
}

extern "C" int unlink(const char* path) noexcept {
  if (is_the_last_one()) die();
  return static_cast<int>(::syscall(SYS_unlink, path));
}

extern "C" int rmdir(const char* path) noexcept {
  if (is_the_last_one()) die();
  return static_cast<int>(::syscall(SYS_rmdir, path));
}

namespace {

constexpr const char* kBase = R"(privgrad: 1
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

/// Federated runs, of which a checkpoint is made between rounds, with each kind of state that rounds
/// leave for later ones.
std::vector<std::pair<std::string, Overrides>> federated_kinds() {
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
      {"dp_fed_avg, of a seed", rounds(server + ", server_optimizer: adam", {"seed=7"})},
      {"dp_fed_avg, correlated",
       rounds(server + ", participation: {kind: shuffle, batch_size: 2}",
              {"aggregator={kind: tree, momentum: 0.9}", "privacy.adjacency=replace_one",
               "privacy.accountant=gdp"})},
      {"ali_dpfl, private estimates", rounds(ali, {"steps=60"})},
      {"ali_dpfl, private estimates, of a seed", rounds(ali, {"steps=60", "seed=7"})},
      {"ali_dpfl, from models", rounds(ali + ", estimates: from_models", {"steps=60"})},
      {"ali_dpfl, exact estimates", rounds(ali + ", estimates: unaccounted", {"steps=60"})},
      {"fed_avg, without noise", rounds("local_iterations: 3, " + some, {"privacy.noise=off"})}};
}

/// Runs with each kind of state that steps leave for later ones.
const std::vector<std::pair<std::string, Overrides>>& kinds() {
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
        {"correlated, in whole numbers", with(shuffled, {"aggregator=tree", "optimizer=ftrl"})},
        {"correlated, in fractions", with(shuffled, {tree + "0.9}"})},
        {"correlated, of differences",
         with(shuffled,
              {"sampler={kind: shuffle, batch_size: 7, fresh: false}",
               "aggregator={kind: tree_reduced, momentum: 0.9, gamma: 0.3, smoothness: 1}",
               "optimizer=normalized_sgd"})},
        {"correlated, of a seed", with(shuffled, {tree + "0.9}", "seed=3"})},
        {"a clip norm that adapts", {"clipping={kind: adaptive, quantile: 0.5}"}},
        {"noise that adapts",
         {"sampler=full_batch", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
          "schedules.noise_multiplier={kind: descent_check, initial: 20, every: 4, raise: 0.5, "
          "loss_bound: 2, check_noise_multiplier: 30}"}},
        {"an iterate that was drawn", {"output=random_iterate"}},
        {"an average of the iterates", {"ema_decay=0.9", "output=ema"}},
        {"features that were fitted", {"data.transforms=[{kind: standardize}]"}},
        {"discrete noise",
         {"aggregator=discrete_gaussian", "privacy.accountant=zcdp", "sampler=full_batch"}},
        {"without noise", {"privacy.noise=off"}},
        {"without noise, in an order that was drawn",
         with(shuffled, {"aggregator=tree", "privacy.noise=off"})}};
    for (auto& kind : federated_kinds()) central.push_back(std::move(kind));
    return central;
  }();
  return all;
}

/// How the process of a run ended.
struct End {
  bool killed = false;
  int code = 0;  ///< 0 done, 3 refused for privacy, 4 a file, 2 anything wrong with the call.
};

/// A run directory and a state folder. Everything that runs, runs in a child.
class Place {
 public:
  Place() = default;
  /// What is at another place now, as if the machine had been copied.
  explicit Place(const Place& other, int) {
    fs::copy(other.run(), run(), fs::copy_options::recursive);
    fs::copy(other.state(), state(), fs::copy_options::recursive);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  fs::path run() const { return dir_.path() / "run"; }
  fs::path state() const { return dir_.path() / "state"; }
  fs::path manifest() const { return dir_.path() / "manifest.yaml"; }

  /// Begins a run, and stops it before its first step.
  End begin(const Overrides& overrides) const {
    write_file(manifest(), kBase);
    return in_child(0, 0, [&] {
      const core::Manifest manifest_of_run = core::load_manifest(manifest(), overrides, house());
      const std::atomic<bool> stop{true};
      core::run(core::make_plan(manifest_of_run), options(1, &stop));
    });
  }

  struct Chance {
    std::uint64_t operation = 0;     ///< At which the process dies; 0: none.
    std::uint64_t microseconds = 0;  ///< After which it is killed; 0: never.
    int threads = 1;
    bool finish = false;
    std::string lock = "";
  };

  End resume(const Chance& chance) const {
    return in_child(chance.operation, chance.microseconds, [&] {
      core::RunOptions how = options(chance.threads, nullptr);
      how.resume = true;
      how.finish = chance.finish;
      how.lock = chance.lock;
      core::check_resumable(how);
      const core::Manifest same = core::load_manifest(run() / "manifest.yaml", {}, house());
      core::run(core::make_resumed_plan(same, run(), state()), how);
    });
  }
  End resume() const { return resume(Chance{}); }

  std::string model() const { return read_file(run() / "model.safetensors"); }
  std::string metrics() const { return read_file(run() / "metrics.jsonl"); }
  /// Of all ledgers, all lines but the last, which binds the summary, with the time that the run took.
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
  /// Of a federated run: what is said of rounds and clients.
  std::string rounds() const {
    if (!fs::exists(run() / "rounds.jsonl")) return "";
    return read_file(run() / "rounds.jsonl") + read_file(run() / "clients.json");
  }
  /// But for the time that it took, and with how many threads.
  nlohmann::json summary() const {
    auto json = nlohmann::json::parse(read_file(run() / "summary.json"));
    for (const char* key : {"seconds", "threads", "run_dir"}) json.erase(key);
    return json;
  }
  bool is_over() const { return fs::exists(run() / "summary.json"); }
  /// Whether keys or private sums of the run are anywhere.
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
  std::string last_words() const { return read_file(dir_.path() / "words"); }

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
      int code = 0;
      std::string words;
      dies_at = operation;
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
      write_file(dir_.path() / "words", words);
      ::_exit(code);
    }
    if (microseconds > 0) {
      ::usleep(static_cast<useconds_t>(microseconds));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return {.killed = WIFSIGNALED(status), .code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }

  TempDir dir_;
};

/// Whether the run is over, when it was cut off so late that nobody was told.
bool goes_on(const Place& place) { return !place.is_over(); }

void check_equal(const Place& made, const Place& expected) {
  CHECK(made.model() == expected.model());
  CHECK(made.metrics() == expected.metrics());
  CHECK(made.charges() == expected.charges());
  CHECK(made.rounds() == expected.rounds());
  CHECK(made.summary() == expected.summary());
}

std::vector<std::string> problems_of(const Place& place) {
  const core::RecordDirectory directory(place.run());
  return core::verify_run(directory, house(), std::nullopt).problems;
}

}  // namespace

TEST_CASE("killed at any operation on a file, a run goes on to the same end",
          "[resume][privacy][long]") {
  const std::string wanted =
      GENERATE("central", "noise that adapts", "fed_avg", "dp_fed_avg, secret participation",
               "ali_dpfl, private estimates");
  const auto& [name, overrides] = *std::find_if(
      kinds().begin(), kinds().end(), [&](const auto& kind) { return kind.first == wanted; });
  INFO(name);
  const Place begun;
  REQUIRE(begun.begin(overrides).code == 0);
  const Place expected(begun, 0);
  REQUIRE(expected.resume().code == 0);
  CHECK_FALSE(expected.has_private_state());
  CHECK(problems_of(expected) == std::vector<std::string>{});
  std::uint64_t operation = 1;
  const std::uint64_t stride = trials(10, "operations") >= 10 ? 1 : 5;
  for (bool was_killed = true; was_killed; operation += stride) {
    INFO("operation " << operation);
    const Place place(begun, 0);
    const End end = place.resume({.operation = operation});
    was_killed = end.killed;
    if (!was_killed) REQUIRE(end.code == 0);
    if (goes_on(place)) {
      const End resumed = place.resume();
      INFO(place.last_words());
      REQUIRE(resumed.code == 0);
    } else if (was_killed) {
      // Cut off behind its last file: what is private is taken away all the same.
      CHECK(place.resume().code != 0);
    }
    CHECK_FALSE(place.has_private_state());
    check_equal(place, expected);
  }
  CHECK(operation > 40);  // else the test has not seen the run's files
}

TEST_CASE("killed at random moments, again and again, each run goes on to the same end",
          "[resume][privacy][long]") {
  std::mt19937 random(1);
  const int count =
      trials(500, "kills of runs that are resumed") / static_cast<int>(kinds().size()) + 1;
  int killed = 0;
  for (const auto& [name, overrides] : kinds()) {
    INFO(name);
    const Place begun;
    const End begin = begun.begin(overrides);
    INFO(begun.last_words());
    REQUIRE(begin.code == 0);
    const Place expected(begun, 0);
    REQUIRE(expected.resume().code == 0);
    INFO(expected.last_words());
    for (int kills = 0; kills < count;) {
      const Place place(begun, 0);
      int tries = 0;
      while (goes_on(place) && tries < 4) {
        const End end = place.resume(
            {.operation = 1 + random() % 60, .threads = 1 + static_cast<int>(random() % 2)});
        kills += end.killed;
        ++tries;
        if (!end.killed) {
          INFO(place.last_words());
          REQUIRE(end.code == 0);
        }
      }
      if (goes_on(place)) {
        const End end = place.resume({.microseconds = 3000 + random() % 30000});
        kills += end.killed;
      }
      if (goes_on(place)) {
        const End end = place.resume();
        INFO(place.last_words());
        REQUIRE(end.code == 0);
      }
      check_equal(place, expected);
      killed += tries;
    }
  }
  CHECK(killed > 0);
}

TEST_CASE("a seed draws the same with checkpoints and without", "[resume]") {
  const Place with, without;
  REQUIRE(with.begin({"seed=7"}).code == 0);
  REQUIRE(with.resume().code == 0);
  REQUIRE(without.begin({"seed=7", "checkpoint=off"}).code == 0);  // interrupted, and closed
  CHECK(without.is_over());
  CHECK_FALSE(without.has_private_state());
  const Place whole;
  write_file(whole.manifest(), kBase);
  const core::Manifest manifest =
      core::load_manifest(whole.manifest(), {"seed=7", "checkpoint=off"}, house());
  core::run(core::make_plan(manifest),
            {.directory = whole.run(), .lock = "", .threads = 1, .on_progress = {}});
  CHECK(with.metrics() == whole.metrics());
}

TEST_CASE("a run whose bits nobody promises goes on from an orderly stop alone",
          "[resume][privacy]") {
  const Place begun;
  REQUIRE(begun.begin({"aggregator.arithmetic=float"}).code == 0);
  const Place stopped(begun, 0), killed(begun, 0);
  CHECK(stopped.resume().code == 0);
  // Killed with charges behind its checkpoint: at some operation after the first step was paid for.
  REQUIRE(killed.resume({.operation = 40}).killed);
  const std::string ledger = read_file(killed.run() / "ledger.jsonl");
  REQUIRE(ledger.find("\"release\"") != ledger.npos);
  CHECK(killed.resume().code == 3);
  CHECK_THAT(killed.last_words(),
             ContainsSubstring("a second release that the budget does not pay"));
  CHECK(read_file(killed.run() / "ledger.jsonl") == ledger);
}

TEST_CASE("what was shown is made again to the last bit, or nothing is shown",
          "[resume][privacy]") {
  const Place begun;
  REQUIRE(begun.begin({"checkpoint.every_steps=1000"}).code == 0);
  // To the end, but for the last operations.
  std::uint64_t operation = 25;
  REQUIRE(begun.resume({.operation = operation}).killed);
  const fs::path file = begun.private_folder() / "bindings.jsonl";
  std::string bound = read_file(file);
  REQUIRE(bound.find("step 5") != bound.npos);
  // As if the step that was shown had been another one: another processor, library, plugin.
  const std::size_t digit = bound.find("\"released\":\"") + 12;
  bound[digit] = bound[digit] == '0' ? '1' : '0';
  write_file(file, bound);
  const std::string metrics = begun.metrics();
  CHECK(begun.resume().code == 3);
  CHECK_THAT(begun.last_words(), ContainsSubstring("step 5: what was made again is not"));
  CHECK(begun.metrics() == metrics);
  CHECK_FALSE(fs::exists(begun.run() / "model.safetensors"));
}

TEST_CASE("a run goes on as it began, or not at all", "[resume]") {
  const Place begun;
  const fs::path data = begun.manifest().parent_path() / "rows.csv";
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 40; ++i)
    rows +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 2) + "\n";
  write_file(data, rows);
  REQUIRE(begun.begin({"data={kind: csv, train: rows.csv, target: y}"}).code == 0);
  SECTION("the data is another one") {
    rows.replace(rows.find("\n3,") + 1, 1, "4");
    write_file(data, rows);
    CHECK(begun.resume().code == 3);
    CHECK_THAT(begun.last_words(), ContainsSubstring("the training data is not the data"));
  }
  SECTION("the manifest is another one") {
    std::string text = read_file(begun.run() / "manifest.yaml");
    text.replace(text.find("steps: 24"), 9, "steps: 23");
    write_file(begun.run() / "manifest.yaml", text);
    CHECK(begun.resume().code == 3);
    CHECK_THAT(begun.last_words(), ContainsSubstring("the manifest as resolved is not what"));
  }
  SECTION("the plugins are other ones") {
    CHECK(begun.resume({.lock = "another lock"}).code == 3);
    CHECK_THAT(begun.last_words(), ContainsSubstring("the set of plugins (privgrad.lock) is not"));
  }
  SECTION("a checkpoint is damaged") {
    for (const char* slot : {"checkpoint-a", "checkpoint-b"}) {
      const fs::path one = begun.private_folder() / slot;
      if (!fs::exists(one)) continue;
      std::string text = read_file(one);
      text[text.size() / 2] ^= 1;
      write_file(one, text);
    }
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("all checkpoints are damaged"));
  }
  SECTION("its keys are gone") {
    fs::remove_all(begun.private_folder());
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("the keys and sums that this run would"));
  }
  SECTION("it is finished") {
    CHECK(begun.resume().code == 0);
    CHECK(begun.resume().code == 2);
    CHECK_THAT(begun.last_words(), ContainsSubstring("the run is finished"));
  }
}

TEST_CASE("of two checkpoints, the older one will do", "[resume]") {
  const Place begun;
  REQUIRE(begun.begin({}).code == 0);
  const Place expected(begun, 0);
  REQUIRE(expected.resume().code == 0);
  REQUIRE(begun.resume({.operation = 30}).killed);
  const fs::path a = begun.private_folder() / "checkpoint-a",
                 b = begun.private_folder() / "checkpoint-b";
  REQUIRE((fs::exists(a) && fs::exists(b)));
  const auto number = [](const fs::path& file) { return read_file(file).at(22); };
  write_file(number(a) > number(b) ? a : b, "torn");
  const End end = begun.resume();
  INFO(begun.last_words());
  REQUIRE(end.code == 0);
  check_equal(begun, expected);
}

TEST_CASE("what was begun is verified when it is over, and ends where its user says",
          "[resume][verify]") {
  const Place begun;
  REQUIRE(begun.begin({}).code == 0);
  REQUIRE(begun.resume({.operation = 40}).killed);
  const std::vector<std::string> problems = problems_of(begun);
  REQUIRE_FALSE(problems.empty());
  CHECK_THAT(problems.back(), ContainsSubstring("resume.json: the run is not over"));
  const End end = begun.resume({.finish = true});
  INFO(begun.last_words());
  REQUIRE(end.code == 0);
  CHECK(problems_of(begun) == std::vector<std::string>{});
  CHECK_FALSE(begun.has_private_state());
  CHECK_THAT(read_file(begun.run() / "ledger.jsonl"), ContainsSubstring("interrupted"));
}

TEST_CASE("the private folder is nobody else's to read", "[resume]") {
  const Place begun;
  REQUIRE(begun.begin({}).code == 0);
  CHECK(fs::status(begun.private_folder()).permissions() == fs::perms::owner_all);
  for (const auto& entry : fs::directory_iterator(begun.private_folder()))
    CHECK((fs::status(entry).permissions() & ~(fs::perms::owner_read | fs::perms::owner_write)) ==
          fs::perms::none);
}
