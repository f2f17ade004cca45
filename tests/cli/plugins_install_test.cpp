// `privgrad plugins install`, `remove` and `sign`: a third-party plugin for one user.
#include <sys/file.h>
#include <sys/stat.h>

#include <set>

#include "cli.hpp"
#include "trials.hpp"

using Catch::Matchers::StartsWith;

namespace fs = std::filesystem;

namespace {

/// A user who has a data folder and plugins that somebody sent.
class User {
 public:
  Call prepare(const Words& words) const {
    Call asked = cli_.prepare(words);
    asked.environment["XDG_DATA_HOME"] = cli_.out("data");
    return asked;
  }
  Outcome operator()(const Words& words) const { return call(prepare(words)); }

  /// Copies a plugin and lets everybody write to the copy, as may happen with a download. \returns
  /// the name of the copy.
  std::string sent(const std::string& fixture) const {
    const std::string name = "test_" + fixture + ".privgrad.so";
    fs::copy_file(kFixtures / name, cli_.out(name), fs::copy_options::overwrite_existing);
    fs::permissions(cli_.out(name), fs::perms::all);
    return name;
  }

  Outcome install(const std::string& file, Words more = {}) const {
    more.insert(more.begin(), {"plugins", "install", file});
    return (*this)(more);
  }

  fs::path installed(const std::string& file) const {
    return cli_.out("data/privgrad/plugins") / file;
  }
  /// Names of all files below the user's data folder, without folders.
  std::set<std::string> files() const {
    std::set<std::string> names;
    if (!fs::exists(cli_.out("data"))) return names;
    for (const auto& entry : fs::recursive_directory_iterator(cli_.out("data")))
      names.insert(fs::relative(entry.path(), cli_.out("data")).string());
    return names;
  }
  /// Whether a component is listed that comes from an installed file with a record of its test.
  bool lists(const std::string& component) const {
    const Json list = Json::parse((*this)({"plugins", "list", "--json"}).out);
    return std::any_of(list.at("plugins").begin(), list.at("plugins").end(), [&](const Json& one) {
      return one.at("full_name") == component && one.at("tested") == true;
    });
  }
  const Cli& cli() const { return cli_; }

 private:
  Cli cli_;
};

const std::string kComponent = "test.tells_no_operations:negate";
const std::string kName = "test_tells_no_operations.privgrad.so";

}  // namespace

TEST_CASE("plugins install puts a plugin and the record of its test where they are found") {
  const User user;
  CHECK_FALSE(user.lists(kComponent));
  const Outcome outcome = user.install(user.sent("tells_no_operations"));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out == "installed test.tells_no_operations 0.1.0: transform/negate\n" +
                           user.installed(kName).string() + "\nnot signed\n");
  std::set<std::string> files = user.files();
  const auto is_record = [](const std::string& name) {
    return name.starts_with("privgrad/tested/");
  };
  CHECK(std::erase_if(files, is_record) == 1);
  CHECK(files == std::set<std::string>{"privgrad", "privgrad/plugins", "privgrad/plugins/" + kName,
                                       "privgrad/plugins/names", "privgrad/tested"});
  CHECK(read_file(user.installed(kName)) == read_file(kFixtures / kName));
  CHECK(user.lists(kComponent));
}

TEST_CASE("a component whose bare name is taken is installed, and manifests mean what they meant") {
  const User user;
  const Outcome outcome = user.install(user.sent("second_constant"));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out,
             ContainsSubstring("\nthe name schedule/constant is that of privgrad.constant: write "
                               "test.second_constant:constant for this one\n"));
  CHECK(user({"validate", "small.yaml"}).exit_code == 0);  // its names are bare numbers
  CHECK(user({"validate", "small.yaml", "--set",
              "schedules.learning_rate={kind: 'test.second_constant:constant', value: 0.1}"})
            .exit_code == 0);
}

TEST_CASE("what a killed call of plugins install has left goes with the next, and two calls wait") {
  const User user;
  const fs::path left = user.cli().out("data/privgrad/.install-abcdef");
  fs::create_directories(left);
  write_file(left / kName, "half a file");
  const std::string one = user.sent("tells_no_operations"), other = user.sent("second_constant");
  Process first(user.prepare({"plugins", "install", one}));
  Process second(user.prepare({"plugins", "install", other}));
  Process again(user.prepare({"plugins", "install", other}));
  CHECK(first.finish().exit_code == 0);
  // Of two simultaneous calls for the same file, only one installs it.
  const std::set<int> codes{second.finish().exit_code, again.finish().exit_code};
  CHECK(codes == std::set<int>{0, 2});
  CHECK_FALSE(fs::exists(left));
  CHECK(user.lists(kComponent));
  CHECK(user.lists("test.second_constant:constant"));
  // Both have claimed their names, whichever came first.
  const std::string names = read_file(user.installed("names"));
  CHECK_THAT(names, ContainsSubstring("transform/negate test.tells_no_operations\n"));
}

TEST_CASE("plugins install and remove wait for another change, and say so") {
  const User user;
  const std::string file = user.sent("tells_no_operations");
  if (GENERATE(false, true)) REQUIRE(user.install(file).exit_code == 0);
  const bool removes = fs::exists(user.installed(kName));
  fs::create_directories(user.cli().out("data/privgrad"));
  const int lock = ::open(user.cli().out("data/privgrad").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(lock, LOCK_EX) == 0);
  Process waiting(user.prepare(removes ? Words{"plugins", "remove", kName}
                                       : Words{"plugins", "install", file}));
  CHECK(waiting.says("another call is changing the installed plugins; waiting for its end"));
  CHECK(fs::exists(user.installed(kName)) == removes);
  ::close(lock);
  CHECK(waiting.finish().exit_code == 0);
  CHECK(fs::exists(user.installed(kName)) != removes);
}

TEST_CASE("plugins install replaces a file only when it is told to") {
  const User user;
  const std::string file = user.sent("tells_no_operations");
  REQUIRE(user.install(file).exit_code == 0);
  const Outcome again = user.install(file);
  check_one_error_line(again, 2);
  CHECK_THAT(again.err, ContainsSubstring("is installed already; --replace"));
  CHECK(user.install(file, {"--replace"}).exit_code == 0);
  CHECK(user.files().size() == 6);
}

TEST_CASE("plugins install refuses what would not run, in one line, and leaves nothing") {
  const User user;
  const auto [fixture, why] =
      GENERATE(std::pair("misbehaving", "2 of 2 components break a promise of their interface"),
               std::pair("dies_when_loaded", "does not survive being loaded"),
               std::pair("foreign_abi", "rebuild the plugin against this framework"),
               std::pair("impostor", "plugin 'privgrad.constant' was found already"));
  const std::string file = user.sent(fixture);
  const Outcome outcome = user.install(file);
  CHECK(outcome.exit_code == 1);
  CHECK(line_count(outcome.err) == 1);
  CHECK_THAT(outcome.err, StartsWith("privgrad: error: " + file + ": "));
  CHECK_THAT(outcome.err, ContainsSubstring(why));
  CHECK_FALSE(fs::exists(user.installed(file)));
  for (const std::string& name : user.files()) CHECK_THAT(name, !ContainsSubstring("install-"));
}

TEST_CASE("plugins install holds a file to the signature beside it, and to the key asked for") {
  const User user;
  const std::string file = user.sent("tells_no_operations");
  const Outcome unsigned_file = user.install(file, {"--signer", "her.key.pub"});
  check_one_error_line(unsigned_file, 4);  // there is no such key
  REQUIRE(user({"plugins", "sign", file, "--key", "her.key", "--new-key"}).exit_code == 0);
  REQUIRE(fs::exists(user.cli().out(file + ".sig")));
  CHECK_THAT(user.install(file).out, ContainsSubstring("signed by the key "));
  const Outcome asked = user.install(file, {"--replace", "--signer", "her.key.pub"});
  CHECK_THAT(asked.out, ContainsSubstring("signed by the requested key"));

  SECTION("a changed file is refused, whoever is asked for") {
    write_file(user.cli().out(file), read_file(user.cli().out(file)) + "x");
    const Outcome outcome = user.install(file, {"--replace"});
    check_one_error_line(outcome, 1);
    CHECK_THAT(outcome.err, ContainsSubstring(".sig: is not a signature of " + file));
  }
  SECTION("so is somebody else's signature") {
    REQUIRE(user({"plugins", "sign", file, "--key", "his.key", "--new-key"}).exit_code == 0);
    const Outcome outcome = user.install(file, {"--replace", "--signer", "her.key.pub"});
    check_one_error_line(outcome, 1);
    CHECK_THAT(outcome.err, ContainsSubstring("not of the requested key"));
  }
  SECTION("and none, where one is asked for") {
    fs::remove(user.cli().out(file + ".sig"));
    const Outcome outcome = user.install(file, {"--replace", "--signer", "her.key.pub"});
    check_one_error_line(outcome, 1);
    CHECK_THAT(outcome.err, ContainsSubstring("is missing; --signer asks for a signature"));
  }
  SECTION("a signature of a run means nothing for a plugin") {
    REQUIRE(user({"run", "small.yaml", "--out", "run", "--quiet"}).exit_code == 0);
    REQUIRE(user({"verify", "run", "--sign", "her.key"}).exit_code == 0);
    fs::copy_file(user.cli().out("run/signature.json"), user.cli().out(file + ".sig"),
                  fs::copy_options::overwrite_existing);
    check_one_error_line(user.install(file, {"--replace"}), 1);
  }
  CHECK(user.lists(kComponent));  // the earlier installation is unchanged
}

TEST_CASE("plugins remove takes out what was installed, by component or file, and nothing else") {
  const User user;
  REQUIRE(user.install(user.sent("tells_no_operations")).exit_code == 0);
  const Outcome wrong = user({"plugins", "remove", "transform/negat"});
  check_one_error_line(wrong, 2);
  CHECK_THAT(wrong.err, ContainsSubstring("did you mean 'transform/negate'?"));
  check_one_error_line(user({"plugins", "remove", "optimizer/sgd"}), 2);  // a built-in component
  const std::string name = GENERATE_COPY(std::string("transform/negate"), kName);
  const Outcome outcome = user({"plugins", "remove", name});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "removed " + user.installed(kName).string() + ": transform/negate\n");
  CHECK(user.files() == std::set<std::string>{"privgrad", "privgrad/plugins", "privgrad/tested"});
  CHECK_FALSE(user.lists(kComponent));
  check_one_error_line(user({"plugins", "remove", name}), 2);
}

namespace {

/// The call whose disk calls are counted: it installs, replaces or removes kName.
enum class Change { install = 1, replace, remove };

/// The user's plugins before and after a call in which one call to the disk fails or kills the
/// process.
class Disturbed {
 public:
  Disturbed(Change change, long at, const char* how) : change_(change) {
    const std::string file = user_.sent("tells_no_operations");
    if (change != Change::install) REQUIRE(user_.install(file).exit_code == 0);
    // A different file with this name: it has one more byte after all sections.
    if (change == Change::replace)
      write_file(user_.cli().out(file), read_file(user_.cli().out(file)) + "x");
    Words words{"plugins", "install", file};
    if (change == Change::replace) words.push_back("--replace");
    if (change == Change::remove) words = {"plugins", "remove", kName};
    Call disturbed = user_.prepare(words);
    disturbed.environment["LD_PRELOAD"] = PRIVGRAD_TEST_FAILING_DISK;
    disturbed.environment["PRIVGRAD_TEST_FROM_START"] = "1";
    disturbed.environment["PRIVGRAD_TEST_FAILS_AT"] = std::to_string(at);
    disturbed.environment[how] = "1";
    disturbed.environment["PRIVGRAD_TEST_FAILED"] = mark().string();
    outcome_ = call(disturbed);
  }

  bool has_failed() const { return fs::exists(mark()); }
  const Outcome& outcome() const { return outcome_; }

  /// Checks that the next call cleans up: afterwards the plugin is installed with its name and its
  /// record, or not at all.
  void check_whole() const {
    INFO(outcome_.out << outcome_.err);
    CHECK(user_({"plugins", "remove", "schedule/none"}).exit_code == 2);
    const std::set<std::string> files = user_.files();
    const bool installed = is_installed();
    std::size_t records = 0;
    for (const std::string& name : files) {
      INFO(name);
      records += name.starts_with("privgrad/tested/") ? 1 : 0;
      CHECK((name == "privgrad" || name == "privgrad/plugins" || name == "privgrad/tested" ||
             name.starts_with("privgrad/tested/") || name == "privgrad/plugins/names" ||
             name == "privgrad/plugins/" + kName));
    }
    CHECK(records == (installed ? 1 : 0));
    CHECK(files.contains("privgrad/plugins/names") == installed);
    CHECK(user_.lists(kComponent) == installed);
    if (outcome_.exit_code == 0) CHECK(installed == (change_ != Change::remove));
    if (change_ == Change::replace) CHECK(installed);
  }

 private:
  fs::path mark() const { return user_.cli().dir() / "failed"; }
  bool is_installed() const { return fs::exists(user_.installed(kName)); }

  User user_;
  Change change_;
  Outcome outcome_;
};

}  // namespace

TEST_CASE("whichever call to the disk fails or kills, a plugin is installed whole or not at all",
          "[slow][long]") {
  const long stride = trials(10, "strides of calls to the disk that fail") == 10 ? 1 : 4;
  for (const char* how : {"PRIVGRAD_TEST_KILLS", "PRIVGRAD_TEST_STAYS_FULL", "PRIVGRAD_TEST_ONE"}) {
    for (const Change change : {Change::install, Change::replace, Change::remove}) {
      for (long at = 1;; at += stride) {
        CAPTURE(how, static_cast<int>(change), at);
        const Disturbed call(change, at, how);
        call.check_whole();
        if (!call.has_failed()) {
          CHECK(at > 5);
          break;
        }
        if (std::string(how) == "PRIVGRAD_TEST_KILLS") continue;
        CHECK((call.outcome().exit_code == 0 || call.outcome().exit_code == 4));
        CHECK(line_count(call.outcome().err) == (call.outcome().exit_code == 0 ? 0 : 1));
      }
    }
  }
}

TEST_CASE("a call of plugins install that is ended leaves nothing, also without a next call") {
  const User user;
  const std::string file = user.sent("tells_no_operations");
  const auto [signal, ms] = GENERATE(table<int, int>(
      {{SIGINT, 20}, {SIGTERM, 60}, {SIGKILL, 100}, {SIGHUP, 200}, {SIGKILL, 400}}));
  Process call(user.prepare({"plugins", "install", file}));
  const auto is_begun = [&] {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(user.cli().out("data/privgrad"), missing))
      if (entry.path().filename().string().starts_with(".install-")) return true;
    return false;
  };
  REQUIRE(Process::wait_for(is_begun));
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  if (ms == 20 || ms == 400) {  // to the call's process group, as a terminal does
    std::ifstream children("/proc/thread-self/children");
    pid_t group = 0;
    children >> group;
    ::kill(-group, signal);
  } else {
    call.send(signal);
  }
  call.finish();
  CHECK(Process::wait_for([&] { return !is_begun(); }));
  const bool installed = fs::exists(user.installed(kName));
  CHECK(user.lists(kComponent) == installed);
  CHECK(user.files().size() == (installed ? 6 : 3));
}

TEST_CASE("plugins install and remove refuse a place that others may write to, or that is taken") {
  const User user;
  const std::string file = user.sent("tells_no_operations");
  const fs::path privgrad = user.cli().out("data/privgrad");
  const auto [what, code, why] = GENERATE(table<std::string, int, std::string>(
      {{"others", 1, "others may write to it or to a directory above it; run: chmod go-w"},
       {"others' records", 1, "others may write to it"},
       {"a file for plugins", 4, "data/privgrad/plugins: Not a directory"},
       {"a file for records", 4, "data/privgrad/tested: Not a directory"},
       {"a folder for names", 4, "plugins/names: is a folder"},
       {"a folder for it", 4, kName + ": is a folder, not a plugin"}}));
  CAPTURE(what);
  fs::create_directories(what == "others' records" ? privgrad / "tested" : privgrad);
  if (what == "others") fs::permissions(privgrad, fs::perms::all);
  if (what == "others' records") fs::permissions(privgrad / "tested", fs::perms::all);
  if (what == "a file for plugins") write_file(privgrad / "plugins", "");
  if (what == "a file for records") write_file(privgrad / "tested", "");
  if (what == "a folder for names") fs::create_directories(user.installed("names"));
  if (what == "a folder for it") fs::create_directories(user.installed(kName));
  const std::set<std::string> before = user.files();
  const Outcome outcome = user.install(file, {"--replace"});
  check_one_error_line(outcome, code);
  CHECK_THAT(outcome.err, ContainsSubstring(why));
  for (const std::string& name : user.files()) {
    INFO(name);
    CHECK((before.contains(name) || name == "privgrad/plugins" || name == "privgrad/tested"));
  }
}

TEST_CASE("plugins install takes a name of any length, and regular files alone") {
  const User user;
  const std::string sent = user.sent("tells_no_operations");
  const std::string ending = ".privgrad.so";
  const std::string longest = std::string(255 - ending.size(), 'n') + ending;
  fs::rename(user.cli().out(sent), user.cli().out(longest));
  CHECK(user.install(longest).exit_code == 0);
  CHECK(user.lists(kComponent));
  CHECK(user({"plugins", "remove", "transform/negate"}).exit_code == 0);
  CHECK(user.files().size() == 3);

  REQUIRE(::mkfifo(user.cli().out("pipe.privgrad.so").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", user.cli().out("zero.privgrad.so"));
  fs::create_directory(user.cli().out("folder.privgrad.so"));
  for (const char* odd : {"pipe.privgrad.so", "zero.privgrad.so", "folder.privgrad.so"}) {
    const Outcome outcome = user.install(odd);
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring(odd));
  }
  CHECK(user.files().size() == 3);
}

TEST_CASE("plugins install works with a umask of 002, and takes the record of what it replaces") {
  const User user;
  const std::string file = user.sent("tells_no_operations");
  Call asked = user.prepare({"plugins", "install", file});
  asked.words.insert(asked.words.begin(), {"/bin/sh", "-c", "umask 002; exec \"$0\" \"$@\""});
  REQUIRE(call(asked).exit_code == 0);
  CHECK(user.lists(kComponent));
  write_file(user.cli().out(file), read_file(user.cli().out(file)) + "x");
  REQUIRE(user.install(file, {"--replace"}).exit_code == 0);
  CHECK(user.lists(kComponent));
  CHECK(user.files().size() == 6);  // a single record
}
