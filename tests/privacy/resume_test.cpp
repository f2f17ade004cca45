#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>

#include "house_plugins.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/pipeline/plan.hpp"
#include "privgrad/pipeline/run.hpp"
#include "privgrad/pipeline/verify.hpp"
#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/ledger_reader.hpp"
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

/// Runs with each kind of state that steps leave for later ones.
const std::vector<std::pair<std::string, Overrides>>& kinds() {
  const std::string tree = "aggregator={kind: tree, momentum: ";
  const Overrides shuffled{"sampler={kind: shuffle, batch_size: 7}",
                           "privacy.adjacency=replace_one", "privacy.accountant=gdp"};
  const auto with = [](Overrides all, const Overrides& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  static const std::vector<std::pair<std::string, Overrides>> all{
      {"central", {}},
      {"central, of a seed", {"seed=7"}},
      {"fixed sizes, adam",
       {"sampler={kind: fixed_size, batch_size: 9}", "privacy.adjacency=replace_one",
        "optimizer=adam"}},
      {"a shuffled epoch over checkpoints", shuffled},
      {"correlated, in whole numbers", with(shuffled, {"aggregator=tree", "optimizer=ftrl"})},
      {"correlated, in fractions", with(shuffled, {tree + "0.9}"})},
      {"correlated, of differences",
       with(shuffled, {"sampler={kind: shuffle, batch_size: 7, fresh: false}",
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
      {"without noise", {"privacy.noise=off"}}};
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
      core::run(core::make_resumed_plan(same, run()), how);
    });
  }
  End resume() const { return resume(Chance{}); }

  std::string model() const { return read_file(run() / "model.safetensors"); }
  std::string metrics() const { return read_file(run() / "metrics.jsonl"); }
  /// All lines but the last, which binds the summary, with the time that the run took.
  std::string charges() const {
    if (!fs::exists(run() / "ledger.jsonl")) return "";
    const std::string text = read_file(run() / "ledger.jsonl");
    return text.substr(0, text.rfind('\n', text.size() - 2) + 1);
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
}

std::vector<std::string> problems_of(const Place& place) {
  const core::RecordDirectory directory(place.run());
  return core::verify_run(directory, house(), std::nullopt).problems;
}

}  // namespace

TEST_CASE("killed at any operation on a file, a run goes on to the same end",
          "[resume][privacy][long]") {
  const auto& [name, overrides] = kinds()[GENERATE(0u, 9u)];
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

// ---- accounts that pay for runs which are interrupted

namespace {

/// A run of 24 steps on all rows that an account pays for; it could not pay for two of them.
struct Paid {
  Place place;
  fs::path file = place.manifest().parent_path() / "rows.account";

  Paid() {
    core::DataAccount::open(file, {.name = "rows",
                                   .adjacency = Adjacency::zero_out,
                                   .target_epsilon = 5.0,
                                   .target_delta = 1e-5,
                                   .accountant = "zcdp"});
    const End end = place.begin({"privacy.account=" + file.string(), "sampler=full_batch",
                                 "privacy.accountant=zcdp", "privacy.adjacency=zero_out"});
    INFO(place.last_words());
    REQUIRE(end.code == 0);
  }

  /// The only one there is.
  core::AccountEntry entry() const {
    const core::DataAccount account(file);
    REQUIRE(account.entries().size() == 1);
    return account.entries().front();
  }

  /// What so many steps cost, by the plan.
  double epsilon_of_steps(std::int64_t steps) const {
    const core::Manifest same = core::load_manifest(place.run() / "manifest.yaml", {}, house());
    return epsilon_of(
        Event::self_composed(steps, core::make_resumed_plan(same, place.run()).charges[0].cost));
  }

  static double epsilon_of(const Event& cost) {
    const auto filter = house().create<Accountant>("zcdp", {});
    filter->start(Adjacency::zero_out);
    filter->compose(cost, 1);
    return filter->epsilon(1e-5).value;
  }

  /// Whether the account would pay for such a run once more.
  bool pays_for_another() const {
    core::DataAccount account(file);
    const auto filter = house().create<Accountant>("zcdp", {});
    return account.spent(*filter, entry().reserved).value <= account.terms().target_epsilon;
  }
};

}  // namespace

TEST_CASE("killed and resumed, a run keeps its reservation, spends it once, and closes it",
          "[resume][account][privacy][long]") {
  const std::uint64_t stride = trials(10, "operations of a paid run") >= 10 ? 1 : 6;
  std::uint64_t operation = 1;
  for (bool was_killed = true; was_killed; operation += stride) {
    INFO("operation " << operation);
    const Paid paid;
    const double all = paid.epsilon_of_steps(24);
    CHECK(Paid::epsilon_of(paid.entry().reserved) == all);
    CHECK_FALSE(paid.entry().settled);
    was_killed = paid.place.resume({.operation = operation}).killed;
    if (goes_on(paid.place)) {
      CHECK_FALSE(paid.entry().settled);
      CHECK_FALSE(paid.pays_for_another());
      const End end = paid.place.resume();
      INFO(paid.place.last_words());
      REQUIRE(end.code == 0);
    }
    // Cut off behind its last file, a run may have had no time to say what it spent: all of it counts
    // then, too.
    CHECK((paid.entry().settled || was_killed));
    CHECK(Paid::epsilon_of(paid.entry().cost()) == all);
    if (paid.entry().settled) CHECK(paid.entry().status == "completed");
    CHECK(paid.place.resume().code == 2);
  }
  CHECK(operation > 40);
}

TEST_CASE("a run that is ended where it was cut off gives back what it was not charged for",
          "[resume][account][privacy]") {
  const Paid paid;
  REQUIRE(paid.place.resume({.operation = 40}).killed);
  REQUIRE(goes_on(paid.place));
  CHECK_FALSE(paid.pays_for_another());
  const Place copy(paid.place, 0);
  const End end = paid.place.resume({.finish = true});
  INFO(paid.place.last_words());
  REQUIRE(end.code == 0);

  const auto charged = static_cast<std::int64_t>(
      core::read_ledger(paid.place.run() / "ledger.jsonl").releases.size());
  REQUIRE(charged > 0);
  REQUIRE(charged < 24);
  REQUIRE(paid.entry().settled);
  CHECK(paid.entry().status == "interrupted");
  CHECK(Paid::epsilon_of(*paid.entry().settled) == paid.epsilon_of_steps(charged));
  CHECK(paid.pays_for_another());
  // What was given back is gone: a copy of the run, made before, cannot spend it.
  const std::string ledger = read_file(copy.run() / "ledger.jsonl");
  CHECK(copy.resume().code == 3);
  CHECK_THAT(copy.last_words(), ContainsSubstring("holds no open reservation"));
  CHECK(read_file(copy.run() / "ledger.jsonl") == ledger);
}
