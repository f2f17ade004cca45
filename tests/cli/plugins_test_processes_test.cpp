// `privgrad plugins test` on plugins that end the process, and the records it writes.
#include "cli.hpp"

using Catch::Matchers::StartsWith;

namespace fs = std::filesystem;

namespace {

/// Makes a folder with a copy of a plugin, writable only by its owner.
fs::path own_copy(const Cli& cli, const fs::path& plugin) {
  const fs::path file = cli.out("plugins") / plugin.filename();
  fs::create_directories(file.parent_path());
  fs::copy_file(plugin, file);
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

fs::path fixture(const std::string& name) { return kFixtures / ("test_" + name + ".privgrad.so"); }

fs::path record_of(const fs::path& plugin) { return plugin.string() + ".tested.json"; }

/// Returns "VERDICT DETAIL" of a rule on a component; "" if there is no such rule.
std::string found(const Json& report, const std::string& kind, const std::string& component,
                  const std::string& rule) {
  for (const Json& one : report.at("components")) {
    if (one.at("kind") != kind || one.at("name") != component) continue;
    for (const Json& finding : one.at("findings")) {
      if (finding.at("rule") == rule) {
        return finding.at("verdict").get<std::string>() + " " +
               finding.at("detail").get<std::string>();
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("plugins test: rules may map as much memory as is said, and 0 is any amount") {
  const Cli cli;
  const fs::path file = own_copy(cli, kPlugins / "optimizers" / "sgd.privgrad.so");
  const auto test = [&](const char* mebibytes) {
    return cli({"plugins", "test", "--json", "--memory-limit", mebibytes, file}).exit_code;
  };
  CHECK(test("0") == 0);
  CHECK(test("1000") == 0);
  CHECK(test("1") == 1);  // less than the process already uses
  CHECK(test("-1") == 2);
}

TEST_CASE("plugins test: a rule that takes its process with it has failed, and the others go on") {
  const Cli cli;
  const fs::path file = own_copy(cli, fixture("dies_in_a_rule"));
  const Outcome outcome = cli({"plugins", "test", "--json", "--time-limit", "2", file});
  CHECK(outcome.exit_code == 1);
  CHECK(line_count(outcome.err) == 1);
  const Json report = Json::parse(outcome.out);
  CHECK(report.at("conforms") == false);
  const auto check = [&](const std::string& component, const std::string& says) {
    INFO(component);
    for (const char* rule : {"values_are_finite_and_not_negative", "values_are_repeatable"})
      CHECK_THAT(found(report, "schedule", component, rule), StartsWith("failed " + says));
    CHECK_THAT(found(report, "optimizer", component, "takes_steps"), StartsWith("failed " + says));
    // The rules before and after these, which never call value().
    CHECK(found(report, "schedule", component, "is_created") == "passed ");
    CHECK(found(report, "schedule", component, "accepts_a_horizon") == "passed ");
    CHECK(found(report, "schedule", component, "survives_the_suite") == "passed ");
  };
  check("crash", "it crashed: Segmentation fault");
  check("overflow_the_stack", "it crashed: Segmentation fault");
  check("abort_it", "it crashed: Aborted");
  check("exit_0", "it ended the process, with exit code 0");
  check("exit_at_once", "it ended the process, with exit code 0");
  check("exit_quickly", "it ended the process, with exit code 0");
  check("loop", "it had not ended after 2 s");
  check("take_all_memory", "it ran out of memory");
  check("throw_silence",
        "an exception that is not a privgrad::Error was thrown ((anonymous namespace)::Silent): "
        "(its what() is empty)");
  CHECK(found(report, "schedule", "behave", "values_are_repeatable") == "passed ");
}

TEST_CASE("plugins test: a plugin that ends the process while it is loaded is refused") {
  const Cli cli;
  const Outcome outcome = cli({"plugins", "test", fixture("dies_when_loaded")});
  check_one_error_line(outcome, 1);
  CHECK_THAT(outcome.err, ContainsSubstring("does not survive being loaded: it ended the process"));
}

TEST_CASE("plugins test: what passed is on record beside the plugin, by its hash") {
  const Cli cli;
  const fs::path file = own_copy(cli, kPlugins / "optimizers/sgd.privgrad.so");
  const Outcome outcome = cli({"plugins", "test", file, "--json"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(Json::parse(outcome.out).at("record") == record_of(file).string());
  const Json record = Json::parse(read_file(record_of(file)));
  const Json list = Json::parse(cli({"plugins", "list", "--json", "--plugin-dir", "plugins"}).out);
  const auto listed =
      std::find_if(list.at("plugins").begin(), list.at("plugins").end(),
                   [&](const Json& one) { return one.at("path") == file.string(); });
  REQUIRE(listed != list.at("plugins").end());
  CHECK(record.at("sha256") == listed->at("sha256"));
  CHECK(record.at("plugin") == "privgrad.sgd");
  CHECK(record.at("components").at(0).at("passed").size() > 10);
  CHECK((fs::status(record_of(file)).permissions() &
         (fs::perms::group_write | fs::perms::others_write)) == fs::perms::none);

  // A component that could not be created was not examined.
  const fs::path source = own_copy(cli, kPlugins / "data_sources/npy.privgrad.so");
  const Outcome without = cli({"plugins", "test", source});
  CHECK(without.exit_code == 0);
  CHECK_THAT(without.out, ContainsSubstring("no record: privgrad.npy:npy was not examined"));
  CHECK_FALSE(fs::exists(record_of(source)));
}

TEST_CASE("plugins test: a broken promise takes back what was on record") {
  const Cli cli;
  const fs::path file = own_copy(cli, fixture("misbehaving"));
  write_file(record_of(file), "{}");
  CHECK(cli({"plugins", "test", file}).exit_code == 1);
  CHECK_FALSE(fs::exists(record_of(file)));
}

TEST_CASE("plugins test: where no record can be beside the plugin, it is with the user's data") {
  const Cli cli;
  const fs::path file = own_copy(cli, kPlugins / "optimizers/sgd.privgrad.so");
  fs::create_directory(record_of(file));  // so that not even root can write a file there
  Call asked = cli.prepare({"plugins", "test", file, "--json"});
  asked.environment["XDG_DATA_HOME"] = cli.out("data");
  const Outcome outcome = call(asked);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string record = Json::parse(outcome.out).at("record");
  CHECK_THAT(record, StartsWith(cli.out("data/privgrad/tested").string()));
  CHECK(fs::is_regular_file(record));
}
