// Release mode only uses plugins with a record of having passed their tests.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kRelease = R"(privgrad: 1
name: small
mode: release
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules:
  noise_multiplier: {kind: uniform}
  clip_norm: 1
  learning_rate: 0.5
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 3
)";

/// A manifest in release mode, and a plugin folder with a copy of `sgd` that takes precedence over
/// the built-in one.
class Release {
 public:
  Release() : file_(cli.out("plugins") / "sgd.privgrad.so") {
    write_file(cli.manifest(), kRelease);
    fs::create_directories(file_.parent_path());
    fs::copy_file(kPlugins / "optimizers/sgd.privgrad.so", file_);
    fs::permissions(file_, fs::perms::owner_all);
    // The copy differs from the built-in file in the last byte, which belongs to the section table.
    std::string bytes = read_file(file_);
    bytes.back() = static_cast<char>(bytes.back() + 1);
    write_file(file_, bytes);
  }

  Outcome call_it(const std::string& command, Words more = {}) const {
    more.insert(more.end(), {"--plugin-dir", "plugins"});
    return cli.on_manifest(command, more);
  }
  Outcome run(Words more = {}) const {
    more.insert(more.end(), {"--quiet", "--json", "--out", "run"});
    return call_it("run", more);
  }
  std::string hash() const {
    const Json list =
        Json::parse(cli({"plugins", "list", "--json", "--plugin-dir", "plugins"}).out);
    for (const Json& one : list.at("plugins")) {
      if (one.at("path") == file_.string()) return one.at("sha256");
    }
    return "";
  }
  Json statement() const { return Json::parse(read_file(cli.out("run/statement.json"))); }
  /// Returns the statement's entry about the plugin of this name.
  Json tested(const std::string& name) const {
    const Json all = statement();
    for (const Json& plugin : all.at("versions").at("plugins")) {
      if (plugin.at("name") == name) return plugin.at("tested");
    }
    return nullptr;
  }
  fs::path file() const { return file_; }
  fs::path record() const { return file_.string() + ".tested.json"; }
  void test_it() const { REQUIRE(cli({"plugins", "test", file_}).exit_code == 0); }

  Cli cli;

 private:
  fs::path file_;
};

/// Returns the text without the warning that the built-in plugin of that name was not loaded.
std::string without_warning(const std::string& err) {
  const std::size_t end = err.find('\n');
  return err.starts_with("privgrad: warning: ") ? err.substr(end + 1) : err;
}

void check_refused(const Outcome& outcome, const std::string& why) {
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(line_count(without_warning(outcome.err)) == 1);
  CHECK_THAT(outcome.err, ContainsSubstring(why));
}

}  // namespace

TEST_CASE("release mode takes the built-in plugins, which are tested when they are built") {
  const Cli cli;
  write_file(cli.manifest(), kRelease);
  const Outcome outcome = cli.on_manifest("run", {"--quiet", "--out", "run"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json statement = Json::parse(read_file(cli.out("run/statement.json")));
  CHECK(statement.at("versions").at("plugins").size() >= 8);
  for (const Json& plugin : statement.at("versions").at("plugins"))
    CHECK(plugin.at("tested") == true);
}

TEST_CASE("every built-in plugin is on record") {
  const Cli cli;
  const Json list = Json::parse(cli({"plugins", "list", "--json"}).out);
  CHECK(list.at("plugins").size() >= 55);
  for (const Json& component : list.at("plugins")) {
    INFO(component.at("full_name"));
    CHECK(component.at("tested") == true);
  }
}

TEST_CASE("release mode refuses a plugin without a record, and says both ways out") {
  const Release release;
  const std::string expected =
      "small.yaml:7:12: error: optimizer: release mode refuses plugin privgrad.sgd (" +
      release.file().string() + ", sha256 " + release.hash() +
      "), which has no record of passed tests; run: privgrad plugins test " +
      release.file().string() + ", or accept it as it is: allow: {plugins: [" + release.hash() +
      "]}\n";
  for (const char* command : {"run", "plan", "validate"}) {
    const Outcome outcome = release.call_it(command);
    CHECK(outcome.exit_code == 3);
    CHECK(without_warning(outcome.err) == expected);
    CHECK(outcome.out == "");
  }

  release.test_it();
  REQUIRE(release.run().exit_code == 0);
  CHECK(release.tested("privgrad.sgd") == true);
}

TEST_CASE("release mode takes what is allowed by its hash, and every output says so") {
  const Release release;
  const Words allowed{"--set", "allow={plugins: [" + release.hash() + "]}"};
  const Outcome outcome = release.run(allowed);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(release.tested("privgrad.sgd") == "allowed");
  CHECK(release.tested("privgrad.zcdp") == true);
  CHECK_THAT(release.statement().at("prose").dump(),
             ContainsSubstring("Allowed by hash, without a record of having passed the conformance "
                               "tests: privgrad.sgd."));
  CHECK_THAT(release.statement().at("short").get<std::string>(),
             ContainsSubstring("allowed untested: privgrad.sgd"));
  CHECK_THAT(read_file(release.cli.out("run/report.html")),
             ContainsSubstring("allowed by hash without a record"));

  // The hash of another file allows nothing.
  const std::string other(64, 'a');
  check_refused(release.call_it("plan", {"--set", "allow={plugins: [" + other + "]}"}),
                "allow: {plugins: [" + release.hash() + "]}");
}

TEST_CASE("a hash that allows nothing is noted") {
  const Cli cli;
  const std::string other(64, 'a');
  const Outcome outcome = cli.on_manifest(
      "run", {"--quiet", "--out", "run", "--set", "allow={plugins: [" + other + "]}"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err ==
        "privgrad: note: allow.plugins: " + other + " is of no plugin that this manifest uses\n");
}

TEST_CASE("research mode takes any plugin, and says what is not on record") {
  const Release release;
  REQUIRE(release.run({"--set", "mode=research"}).exit_code == 0);
  CHECK(release.tested("privgrad.sgd") == false);
  CHECK_THAT(release.statement().at("prose").dump(),
             ContainsSubstring("Not on record as having passed the conformance tests: "
                               "privgrad.sgd."));
  const std::string warned =
      "Not on record as having passed the conformance tests: privgrad.sgd</p>";
  CHECK_THAT(read_file(release.cli.out("run/report.html")), ContainsSubstring(warned));

  // A record made later changes the statement, but the statement still verifies for the run.
  release.test_it();
  const Outcome verified = release.cli({"verify", "run", "--plugin-dir", "plugins"});
  INFO(verified.err << verified.out);
  CHECK(verified.exit_code == 0);
  CHECK(verified.out.find("are not the files that the run had") == std::string::npos);
}

TEST_CASE("of the plugins that lie beside the program, no page warns where no test has been run") {
  const Cli cli;
  // A program with the plugins of its build, as `make run` makes it: without records.
  const fs::path program = cli.out("built/bin/privgrad");
  fs::create_directories(program.parent_path());
  fs::copy_file(kProgram, program);
  fs::create_directories(cli.out("built/lib/privgrad"));
  for (const auto& library : fs::directory_iterator(kPlugins.parent_path().parent_path())) {
    if (library.path().filename().string().starts_with("libprivgrad_sdk.so"))
      fs::copy(library, cli.out("built/lib") / library.path().filename());
  }
  const fs::path plugins = cli.out("built/lib/privgrad/plugins");
  fs::copy(kPlugins, plugins, fs::copy_options::recursive);
  for (const auto& file : fs::recursive_directory_iterator(plugins))
    if (file.path().extension() == ".json") fs::remove(file.path());
  Call run = cli.prepare({"run", "small.yaml", "--quiet", "--out", "run"});
  run.words.front() = program;
  run.environment["XDG_DATA_HOME"] = cli.out("none").string();
  const Outcome outcome = call(run);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json statement = Json::parse(read_file(cli.out("run/statement.json")));
  for (const Json& plugin : statement.at("versions").at("plugins"))
    CHECK(plugin.at("tested") == "built_in");
  CHECK_THAT(
      statement.at("prose").dump(),
      ContainsSubstring("Built with PrivGrad, and not yet run through the conformance tests"));
  CHECK(statement.at("prose").dump().find("Not on record") == std::string::npos);
  CHECK(read_file(cli.out("run/report.html")).find("Not on record") == std::string::npos);
}

TEST_CASE("a record counts for the very file that it names, and if nobody else may write it") {
  const Release release;
  release.test_it();
  const std::string good = read_file(release.record());
  REQUIRE(release.call_it("validate").exit_code == 0);
  const auto with = [&](const std::string& text) {
    write_file(release.record(), text);
    return release.call_it("validate");
  };
  const auto edited = [&](const std::function<void(Json&)>& edit) {
    Json json = Json::parse(good);
    edit(json);
    return with(json.dump());
  };
  check_refused(edited([](Json& json) { json["sha256"] = std::string(64, 'b'); }),
                "is about another file");
  check_refused(edited([](Json& json) { json["suite"] = 0; }), "version 0 of the test suite");
  check_refused(edited([](Json& json) { json["record"] = 2; }), "is of another version");
  check_refused(edited([](Json& json) { json["components"] = Json::array(); }),
                "does not say that optimizer sgd passed");
  check_refused(edited([](Json& json) { json["components"][0]["conforms"] = false; }),
                "does not say that optimizer sgd passed");
  check_refused(edited([](Json& json) { json["components"] = 7; }), "is not a record");
  check_refused(edited([](Json& json) { json["suite"] = "1"; }), "is not a record");
  check_refused(with(""), "not a JSON object");
  check_refused(with(std::string(100000, '[')), "not a JSON object");

  REQUIRE(with(good).exit_code == 0);
  fs::permissions(release.record(), fs::perms::others_write, fs::perm_options::add);
  check_refused(release.call_it("validate"), "others may write to it");
  fs::permissions(release.record(), fs::perms::owner_read | fs::perms::owner_write);
  if (::geteuid() == 0) {
    // Owned by another user: only root can make such a file.
    REQUIRE(::chown(release.record().c_str(), 12345, 12345) == 0);
    check_refused(release.call_it("validate"), "belongs to neither root nor you");
  }
}

TEST_CASE("a record is found with the user's data, too") {
  const Release release;
  release.test_it();
  const fs::path moved = release.cli.out("data/privgrad/tested") / (release.hash() + ".json");
  fs::create_directories(moved.parent_path());
  fs::rename(release.record(), moved);
  CHECK(release.call_it("validate").exit_code == 3);
  Call with = release.cli.prepare({"validate", "small.yaml", "--plugin-dir", "plugins"});
  with.environment["XDG_DATA_HOME"] = release.cli.out("data");
  CHECK(call(with).exit_code == 0);
}
