#include <fcntl.h>
#include <sys/syscall.h>

#include <random>

#include "privgrad/federated/any_run.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "resumed_run.hpp"
#include "trials.hpp"

using namespace resumed;

namespace {

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace

// Replaces the C library's function for the code of this program.
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

TEST_CASE("killed at any operation on a file, a run goes on to the same end",
          "[resume][privacy][long]") {
  const std::string wanted =
      GENERATE("central", "noise that adapts", "random allocation", "fed_avg",
               "dp_fed_avg, secret participation", "dp_fed_avg, random allocation of rounds",
               "ali_dpfl, private estimates");
  INFO(wanted);
  const Place begun;
  REQUIRE(begun.begin(kind(wanted)).code == 0);
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
      // The run is killed after its last file; private files are removed all the same.
      CHECK(place.resume().code != 0);
    }
    CHECK_FALSE(place.has_private_state());
    check_equal(place, expected);
  }
  CHECK(operation > 40);  // otherwise the test has missed the run's files
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
  // Killed with charges after its checkpoint: at some operation after the first step was charged.
  REQUIRE(killed.resume({.operation = 40}).killed);
  const std::string ledger = read_file(killed.run() / "ledger.jsonl");
  REQUIRE(ledger.find("\"release\"") != ledger.npos);
  CHECK(killed.resume().code == 3);
  CHECK_THAT(killed.last_words(),
             ContainsSubstring("a second release, which the budget does not pay"));
  CHECK(read_file(killed.run() / "ledger.jsonl") == ledger);
}

TEST_CASE("what was paid for ahead is not made twice by a run whose bits nobody promises",
          "[resume][privacy]") {
  // 65 or more steps are charged in blocks: a checkpoint contains receipts, and the steps made
  // after it add nothing to the ledger.
  const Place begun;
  REQUIRE(begun
              .begin({"aggregator.arithmetic=float", "steps=640", "evaluate_every=640",
                      "checkpoint.every_steps=3"})
              .code == 0);
  const Place killed(begun, 0);
  REQUIRE(killed.resume({.operation = 60}).killed);
  const std::string ledger = read_file(killed.run() / "ledger.jsonl");
  CHECK(killed.resume().code == 3);
  CHECK_THAT(killed.last_words(),
             ContainsSubstring("repeating those that it had paid for would be a second release"));
  CHECK(read_file(killed.run() / "ledger.jsonl") == ledger);
}

TEST_CASE("what was shown is made again to the last bit, or nothing is shown",
          "[resume][privacy]") {
  const Place begun;
  REQUIRE(begun.begin({"checkpoint.every_steps=1000"}).code == 0);
  // Kills at operations up to the end, except for the last ones.
  std::uint64_t operation = 25;
  REQUIRE(begun.resume({.operation = operation}).killed);
  const fs::path file = begun.private_folder() / "bindings.jsonl";
  std::string bound = read_file(file);
  REQUIRE(bound.find("step 5") != bound.npos);
  // The binding changes as if another processor, library or plugin had released another step.
  const std::size_t digit = bound.find("\"released\":\"") + 12;
  bound[digit] = bound[digit] == '0' ? '1' : '0';
  write_file(file, bound);
  const std::string metrics = begun.metrics();
  CHECK(begun.resume().code == 3);
  CHECK_THAT(begun.last_words(), ContainsSubstring("step 5: the repeated values are not"));
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
    CHECK_THAT(begun.last_words(), ContainsSubstring("the training data has changed"));
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
    CHECK_THAT(begun.last_words(), ContainsSubstring("charged nothing; start it again here"));
  }
  SECTION("it is finished") {
    CHECK(begun.resume().code == 0);
    CHECK(begun.resume().code == 2);
    CHECK_THAT(begun.last_words(), ContainsSubstring("the run is finished"));
  }
}

TEST_CASE("a file of the run that was damaged or lost is written again, or named before a step",
          "[resume][privacy]") {
  const std::string wanted = GENERATE("central", "a clip norm that adapts", "noise that adapts",
                                      "fed_avg", "dp_fed_avg, of a seed");
  INFO(wanted);
  const Place begun;
  REQUIRE(begun.begin(kind(wanted)).code == 0);
  REQUIRE(begun.resume({.operation = 50}).killed);
  REQUIRE(goes_on(begun));
  const Place expected(begun, 0);
  REQUIRE(expected.resume().code == 0);
  const std::string charged = begun.charges();
  for (const auto& [name, content] : files_below(begun.run())) {
    if (name == "resume.json") continue;
    std::vector<std::string> damaged{"", content + "\n", content.substr(0, content.size() / 2)};
    if (const auto digit = content.find_first_of("0123456789"); digit != content.npos)
      (damaged.emplace_back(content))[digit] = content[digit] == '9' ? '8' : '9';
    for (std::size_t i = 0; i <= damaged.size(); ++i) {
      INFO(name << ", " << (i < damaged.size() ? "change " + std::to_string(i) : "removed"));
      const Place place(begun, 0);
      const bool is_removed = i == damaged.size();
      if (is_removed ? !fs::remove(place.run() / name) : damaged[i] == content) continue;
      if (!is_removed) write_file(place.run() / name, damaged[i]);
      const End end = place.resume();
      INFO(place.last_words());
      if (end.code == 0) {
        check_equal(place, expected);
        CHECK(problems_of(place).empty());
        continue;
      }
      CHECK((end.code == 3 || end.code == 4 || end.code == 2));
      CHECK_THAT(place.last_words(), ContainsSubstring(fs::path(name).stem().string()));
      CHECK_FALSE(place.is_over());
      if (!fs::path(name).filename().string().ends_with(".jsonl"))
        CHECK(place.charges() == charged);
    }
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

TEST_CASE("a run that is killed before its first charge begins again in its place, or goes on",
          "[resume][privacy]") {
  for (const char* name : {"central", "fed_avg", "statistics that are paid for"}) {
    bool was_killed = true;
    int in_place = 0, went_on = 0;
    for (std::uint64_t operation = 1; was_killed; ++operation) {
      CAPTURE(name, operation);
      const Place place;
      was_killed = place.begin(kind(name), operation).killed;
      if (!was_killed) break;
      for (const fs::path& file : place.ledgers()) {
        const bool has_line = read_file(file).find('\n') != std::string::npos;
        CHECK((!has_line || core::read_ledger(file).releases.empty()));
      }
      const bool has_begun = fs::exists(place.run()) && !fs::is_empty(place.run());
      if (has_begun && place.resume().code == 0) {
        ++went_on;
        continue;
      }
      if (fs::exists(place.run() / "resume.json"))
        CHECK_THAT(place.last_words(),
                   ContainsSubstring("was charged nothing; start it again here"));
      const End again = place.begin(kind(name));
      INFO(place.last_words());
      REQUIRE(again.code == 0);
      REQUIRE(place.resume().code == 0);
      CHECK(problems_of(place).empty());
      CHECK_FALSE(place.has_private_state());
      ++in_place;
    }
    CHECK(in_place > 5);
    CHECK(went_on > 0);
  }
}

TEST_CASE("nothing else than a run that was charged for nothing makes room for another",
          "[resume][privacy]") {
  const Place place;
  REQUIRE(place.begin(kind("central")).code == 0);
  // The run has a checkpoint from which it can be resumed.
  CHECK(place.begin(kind("central")).code == 4);
  CHECK_THAT(place.last_words(), ContainsSubstring("is not empty"));
  // Without the checkpoint, as after a kill before the first one; other people's files stay.
  fs::remove_all(place.private_folder());
  write_file(place.run() / "notes.txt", "mine");
  CHECK(place.begin(kind("central")).code == 4);
  CHECK(fs::exists(place.run() / "notes.txt"));
  fs::remove(place.run() / "notes.txt");
  CHECK(place.begin(kind("central")).code == 0);
  // A run that was charged does not count as such a run, whatever is deleted.
  std::unique_ptr<Place> charged;
  for (std::uint64_t operation = 10; charged == nullptr; operation += 10) {
    REQUIRE(operation < 1000);
    auto one = std::make_unique<Place>(place, 0);
    if (one->resume({.operation = operation}).killed &&
        !core::read_ledger(one->run() / "ledger.jsonl").releases.empty())
      charged = std::move(one);
  }
  fs::remove_all(charged->private_folder());
  CHECK(charged->begin(kind("central")).code == 4);
  CHECK_THAT(charged->last_words(), ContainsSubstring("is not empty"));
  CHECK(charged->resume().code == 4);
  CHECK_THAT(charged->last_words(), ContainsSubstring("the keys and sums that this run needs"));
}
