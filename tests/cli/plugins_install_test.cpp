// `privgrad plugins install`, `remove` and `sign`: a plugin of somebody else's, for one user.
#include <set>

#include "cli.hpp"

using Catch::Matchers::StartsWith;

namespace fs = std::filesystem;

namespace {

/// A user with a data folder of their own, and plugins that somebody sent.
class User {
 public:
  Outcome operator()(const Words& words) const {
    Call asked = cli_.prepare(words);
    asked.environment["XDG_DATA_HOME"] = cli_.out("data");
    return call(asked);
  }

  /// The name of a copy, which others may write as a download may be.
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
  /// Names of all files below the user's data, but for folders.
  std::set<std::string> files() const {
    std::set<std::string> names;
    if (!fs::exists(cli_.out("data"))) return names;
    for (const auto& entry : fs::recursive_directory_iterator(cli_.out("data")))
      names.insert(fs::relative(entry.path(), cli_.out("data")).string());
    return names;
  }
  /// Whether a component is listed, of an installed file whose test is on record.
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
                           user.installed(kName).string() + "\nsigned by nobody\n");
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
  CHECK(user({"validate", "small.yaml"}).exit_code == 0);  // has bare numbers
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
  const auto begin = [&](const std::string& file) {
    Call asked = user.cli().prepare({"plugins", "install", file});
    asked.environment["XDG_DATA_HOME"] = user.cli().out("data");
    return std::make_unique<Process>(asked);
  };
  const auto first = begin(one), second = begin(other);
  CHECK(first->finish().exit_code == 0);
  CHECK(second->finish().exit_code == 0);
  CHECK_FALSE(fs::exists(left));
  CHECK(user.lists(kComponent));
  CHECK(user.lists("test.second_constant:constant"));
  // Both have their names, whichever came first.
  const std::string names = read_file(user.installed("names"));
  CHECK_THAT(names, ContainsSubstring("transform/negate test.tells_no_operations\n"));
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
  CHECK_THAT(asked.out, ContainsSubstring("signed by the key asked for"));

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
    CHECK_THAT(outcome.err, ContainsSubstring("not of the one asked for"));
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
  CHECK(user.lists(kComponent));  // what was installed before is still there
}

TEST_CASE("plugins remove takes out what was installed, by component or file, and nothing else") {
  const User user;
  REQUIRE(user.install(user.sent("tells_no_operations")).exit_code == 0);
  const Outcome wrong = user({"plugins", "remove", "transform/negat"});
  check_one_error_line(wrong, 2);
  CHECK_THAT(wrong.err, ContainsSubstring("did you mean 'transform/negate'?"));
  check_one_error_line(user({"plugins", "remove", "optimizer/sgd"}), 2);  // is built in
  const std::string name = GENERATE_COPY(std::string("transform/negate"), kName);
  const Outcome outcome = user({"plugins", "remove", name});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "removed " + user.installed(kName).string() + ": transform/negate\n");
  CHECK(user.files() == std::set<std::string>{"privgrad", "privgrad/plugins", "privgrad/tested"});
  CHECK_FALSE(user.lists(kComponent));
  check_one_error_line(user({"plugins", "remove", name}), 2);
}
