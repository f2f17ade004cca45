#include <tuple>

#include "cli.hpp"
#include "shared_files.hpp"

namespace fs = std::filesystem;

namespace {

const Json* find_component(const Json& list, const std::string& kind, const std::string& name) {
  for (const Json& component : list.at("plugins")) {
    if (component.at("kind") == kind && component.at("name") == name) return &component;
  }
  return nullptr;
}

/// Makes a plugin directory with a copy of one built-in plugin, writable only by its owner.
fs::path copy_plugin(const Cli& cli, const std::string& room, const std::string& name) {
  const fs::path file = cli.out("plugins") / (name + ".privgrad.so");
  fs::create_directories(file.parent_path());
  fs::copy_file(kPlugins / room / (name + ".privgrad.so"), file);
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

/// Changes the last byte, which belongs to the section table, so the code stays the same.
void change_last_byte(const fs::path& file) {
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() + 1);
  write_file(file, bytes);
}

}  // namespace

TEST_CASE("plugins list --json tells kind, name, version, path and ABI of every component") {
  const Cli cli;
  const Outcome outcome = cli({"plugins", "list", "--json"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  const Json list = Json::parse(outcome.out);
  CHECK(list.at("refused").empty());
  for (const auto& [kind, name] :
       {std::pair("accountant", "zcdp"), std::pair("aggregator", "gaussian"),
        std::pair("backend", "cpu"), std::pair("clipping", "flat"), std::pair("data_source", "idx"),
        std::pair("model", "mlp"), std::pair("optimizer", "adam"), std::pair("sampler", "poisson"),
        std::pair("schedule", "uniform"), std::pair("transform", "pca")}) {
    INFO(kind << "/" << name);
    const Json* component = find_component(list, kind, name);
    REQUIRE(component != nullptr);
    CHECK_FALSE(component->at("version").get<std::string>().empty());
    CHECK(fs::is_regular_file(component->at("path").get<std::string>()));
    CHECK(component->at("abi").get<std::string>().starts_with("privgrad="));
    CHECK(component->at("sha256").get<std::string>().size() == 64);
  }
}

TEST_CASE("plugins list lines its columns up") {
  const Cli cli;
  const std::string text = cli({"plugins", "list"}).out;
  const std::size_t column = text.find("NAME");
  for (std::size_t begin = 0; text[begin] != '\n'; begin = text.find('\n', begin) + 1) {
    CHECK(text[begin + column - 1] == ' ');
    CHECK(text[begin + column] != ' ');
  }
}

TEST_CASE("plugins describe --json tells type, unit, default, range and source") {
  const Cli cli;
  const Outcome outcome = cli({"plugins", "describe", "optimizer/momentum", "--json"});
  CHECK(outcome.exit_code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("kind") == "optimizer");
  CHECK(json.at("name") == "momentum");
  CHECK_THAT(json.at("reference").get<std::string>(), ContainsSubstring("Polyak"));
  const Json& beta = json.at("parameters").at(0);
  CHECK(beta.at("name") == "beta");
  CHECK(beta.at("type") == "real");
  CHECK(beta.at("unit") == "");
  CHECK(beta.at("default") == 0.9);
  CHECK(beta.at("range") ==
        Json{{"min", 0.0}, {"max", 1.0}, {"min_exclusive", false}, {"max_exclusive", true}});
}

TEST_CASE("plugins describe takes short and full names") {
  const Cli cli;
  const std::string page = cli({"plugins", "describe", "optimizer/momentum"}).out;
  CHECK_THAT(page, ContainsSubstring("heavy ball"));
  for (const char* id :
       {"momentum", "privgrad.momentum:momentum", "optimizer/privgrad.momentum:momentum"}) {
    CHECK(cli({"plugins", "describe", id}).out == page);
  }
}

TEST_CASE("a refused plugin is warned about once, and the rest works") {
  const Cli cli;
  const fs::path file = copy_plugin(cli, "optimizers", "sgd");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  const Outcome list = cli({"plugins", "list", "--json", "--plugin-dir", file.parent_path()});
  CHECK(list.exit_code == 0);
  CHECK(list.err.starts_with("privgrad: warning: " + file.string()));
  CHECK(line_count(list.err) == 1);
  const Json json = Json::parse(list.out);
  REQUIRE(json.at("refused").size() == 1);
  CHECK(json.at("refused").at(0).at("path") == file.string());
  CHECK(find_component(json, "optimizer", "sgd") != nullptr);  // a built-in one

  const Outcome run = cli.on_manifest("run", {"--json", "--quiet", "--plugin-dir", "plugins"});
  CHECK(run.exit_code == 0);
  CHECK(line_count(run.err) == 1);
}

TEST_CASE("of two plugins of one name the first directory's is used, with a warning") {
  const Cli cli;
  const fs::path file = copy_plugin(cli, "optimizers", "sgd");
  change_last_byte(file);  // with identical bytes it would be the same plugin
  const Outcome list = cli({"plugins", "list", "--json", "--plugin-dir", file.parent_path()});
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.err, ContainsSubstring("'privgrad.sgd' was found already"));
  const Json json = Json::parse(list.out);
  CHECK(find_component(json, "optimizer", "sgd")->at("path") == file.string());
}

TEST_CASE("a run can be repeated with --locked until a byte of a plugin changes") {
  const Cli cli;
  const fs::path file = copy_plugin(cli, "optimizers", "sgd");
  change_last_byte(file);
  const Words dir{"--plugin-dir", file.parent_path(), "--quiet"};
  const auto run = [&](Words words) {
    words.insert(words.end(), dir.begin(), dir.end());
    return cli(words);
  };
  REQUIRE(run({"run", "small.yaml", "--out", "first"}).exit_code == 0);
  const std::string lock = read_file(cli.out("first/privgrad.lock"));
  for (const char* used :
       {"privgrad.synthetic", "privgrad.linear", "privgrad.full_batch", "privgrad.gaussian",
        "privgrad.sgd", "privgrad.uniform", "privgrad.constant", "privgrad.zcdp", "privgrad.cpu"}) {
    CHECK_THAT(lock, ContainsSubstring("name = \"" + std::string(used) + "\""));
  }
  CHECK(lock.find("privgrad.adam") == std::string::npos);

  const Outcome beside = run({"run", "first/manifest.yaml", "--locked", "--out", "second"});
  CHECK(beside.exit_code == 0);
  CHECK(read_file(cli.out("second/privgrad.lock")) == lock);
  const Outcome named =
      run({"run", "small.yaml", "--locked=first/privgrad.lock", "--out", "third"});
  CHECK(named.exit_code == 0);

  change_last_byte(file);
  const Outcome changed = run({"run", "first/manifest.yaml", "--locked", "--out", "fourth"});
  CHECK(changed.exit_code == 1);
  CHECK(changed.out == "");
  CHECK_THAT(changed.err, ContainsSubstring("privgrad: error: "));
  CHECK_THAT(changed.err, ContainsSubstring("sgd.privgrad.so"));
  CHECK_FALSE(fs::exists(cli.out("fourth")));
}

TEST_CASE("run --locked without a lock file is exit code 4") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--locked"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("privgrad.lock"));
}

TEST_CASE("plugins new writes a project without a token left in it") {
  const Cli cli;
  Words suite{"plugins", "new", "all", "--vendor", "ac-me"};
  std::string list;
  const auto check = [&](const Words& words, const std::string& name, const std::string& room) {
    const Outcome outcome = cli(words);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK_THAT(read_file(cli.out(name) / "CMakeLists.txt"), ContainsSubstring("KIND " + room));
    for (const auto& entry : fs::recursive_directory_iterator(cli.out(name))) {
      if (entry.is_regular_file()) CHECK(read_file(entry.path()).find('@') == std::string::npos);
    }
    return read_file(cli.out(name) / (name + ".cpp"));
  };
  for (const std::string kind : {"accountant", "aggregator", "backend", "clipping", "data_source",
                                 "model", "optimizer", "sampler", "schedule", "transform"}) {
    const std::string name = "my_" + kind;
    CHECK_THAT(check({"plugins", "new", kind, name, "--vendor", "acme"}, name, kind + "s"),
               ContainsSubstring("PRIVGRAD_PLUGIN(\"acme." + name + "\", \"0.1.0\",\n" +
                                 std::string(16, ' ') + "\"" + kind + "/" + name + "\","));
    suite.push_back(kind);
    list += kind + "/all_" + kind + "\"\n" + std::string(16, ' ') + "\" ";
  }
  suite.push_back("schedule/my_own");
  CHECK_THAT(check(suite, "all", "suites"), ContainsSubstring("\"" + list + "schedule/my_own\","));
  CHECK(read_file(cli.out("all/my_own.hpp")).find("class MyOwn final") != std::string::npos);
}

TEST_CASE("plugins new says what is wrong with kinds and names") {
  const Cli cli;
  const auto [words, why] = GENERATE(table<Words, std::string>(
      {{{"shedule", "x"}, "did you mean 'schedule'?"},
       {{"suite", "shedule", "model"}, "did you mean 'schedule'?"},
       {{"accountant", "schedule", "model"}, "the name of the plugin comes before its kinds"},
       {{"suite", "model", "model"}, "two components are called 'suite_model'"},
       {{"suite", "model/", "schedule"}, "NAME of model/ is ''"},
       {{"Suite", "model", "schedule"}, "NAME is 'Suite'"},
       {{"schedule"}, "is missing"}}));
  Words call{"plugins", "new"};
  call.insert(call.end(), words.begin(), words.end());
  const Outcome outcome = cli(call);
  check_one_error_line(outcome, 2);
  CHECK_THAT(outcome.err, ContainsSubstring(why));
}

TEST_CASE("plugins new overwrites nothing and leaves nothing half-written") {
  const Cli cli;
  fs::create_directory(cli.out("taken"));
  write_file(cli.out("taken") / "mine.txt", "mine");
  check_one_error_line(cli({"plugins", "new", "schedule", "x", "--dir", "taken"}), 4);
  CHECK(read_file(cli.out("taken") / "mine.txt") == "mine");

  Call limited = cli.prepare({"plugins", "new", "schedule", "fresh"});
  limited.file_size = 300;  // below the size of the template's source
  check_one_error_line(call(limited), 4);
  for (const auto& entry : fs::directory_iterator(cli.dir())) {
    CHECK((entry.path() == cli.manifest() || entry.path().filename() == "taken"));
  }
}

TEST_CASE("plugins test examines a file, and fails with what is not a plugin") {
  const Cli cli;
  const std::string sgd = (kPlugins / "optimizers/sgd.privgrad.so").string();
  const Outcome outcome = cli({"plugins", "test", sgd, "--json"});
  CHECK(outcome.exit_code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("conforms") == true);
  CHECK(json.at("components").at(0).at("full_name") == "privgrad.sgd:sgd");
  for (const Json& finding : json.at("components").at(0).at("findings")) {
    CHECK(finding.at("verdict") == "passed");
  }
  write_file(cli.out("no.privgrad.so"), "no library");
  check_one_error_line(cli({"plugins", "test", "no.privgrad.so"}), 1);
  write_file(cli.out("notes.txt"), "no library");
  for (const auto& [file, code, why] : {std::tuple("notes.txt", 2, "not named like a plugin"),
                                        std::tuple("absent.privgrad.so", 4, "no such file"),
                                        std::tuple("absent.txt", 4, "no such file")}) {
    const Outcome refused = cli({"plugins", "test", file});
    check_one_error_line(refused, code);
    CHECK_THAT(refused.err, ContainsSubstring(file + std::string(": ")));
    CHECK_THAT(refused.err, ContainsSubstring(why));
  }
}

TEST_CASE("plugins test checks the rules that are asked for, and puts nothing on record") {
  const Cli cli;
  fs::copy_file(kPlugins / "optimizers/sgd.privgrad.so", cli.out("sgd.privgrad.so"));
  fs::permissions(cli.out("sgd.privgrad.so"), fs::perms::owner_all);
  const auto rules = [&](Words words) {
    words.insert(words.begin(), {"plugins", "test", "sgd.privgrad.so"});
    const Json json = printed_json(cli, words);
    std::vector<std::string> names;
    for (const Json& finding : json.at("components").at(0).at("findings"))
      names.push_back(finding.at("rule"));
    return names;
  };
  const auto some = rules({"--rule", "declares_itself"});
  CHECK_FALSE(fs::exists(cli.out("sgd.privgrad.so.tested.json")));
  CHECK(std::count(some.begin(), some.end(), "declares_itself") == 1);
  CHECK(std::count(some.begin(), some.end(), "declares_parameter_names") == 0);
  const auto all = rules({});
  CHECK(fs::exists(cli.out("sgd.privgrad.so.tested.json")));
  CHECK(all.size() > some.size() + 5);
  // The rules on which others depend are included, in order.
  CHECK(std::includes(all.begin(), all.end(), some.begin(), some.end(),
                      [&](const std::string& a, const std::string& b) {
                        return std::find(all.begin(), all.end(), a) <
                               std::find(all.begin(), all.end(), b);
                      }));
  const Outcome unknown = cli({"plugins", "test", "sgd.privgrad.so", "--rule", "is_good"});
  check_one_error_line(unknown, 2);
  CHECK_THAT(unknown.err, ContainsSubstring("--rule is 'is_good'"));
  // A broken rule is found if it is selected.
  const std::string bad = (kFixtures / "test_misbehaving.privgrad.so").string();
  CHECK(cli({"plugins", "test", bad, "--rule", "declares_itself"}).exit_code == 0);
  CHECK(cli({"plugins", "test", bad, "--rule", "values_are_finite_and_not_negative"}).exit_code ==
        1);
}

TEST_CASE("plugins test says which promise a plugin breaks, and exits with 1") {
  const Cli cli;
  const std::string file = (kFixtures / "test_misbehaving.privgrad.so").string();
  const Outcome outcome = cli({"plugins", "test", file});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, ContainsSubstring("schedule test.misbehaving:thrower"));
  CHECK_THAT(outcome.out, ContainsSubstring("values_are_finite_and_not_negative"));
  CHECK_THAT(outcome.out, ContainsSubstring("an unexpected NumericError was thrown"));
  CHECK(line_count(outcome.err) == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("break a promise of their interface"));

  const Outcome as_json = cli({"plugins", "test", file, "--json"});
  CHECK(as_json.exit_code == 1);
  CHECK(Json::parse(as_json.out).at("conforms") == false);
}

TEST_CASE(
    "plugins test, data fetch and export say which program they need where it is not installed") {
  const Cli cli;
  const fs::path command = cli.out("elsewhere/bin/privgrad");
  fs::create_directories(command.parent_path());
  fs::create_directories(cli.out("elsewhere/lib"));
  fs::copy_file(kProgram, command);
  for (const auto& library : fs::directory_iterator(kPlugins.parent_path().parent_path())) {
    if (library.path().filename().string().starts_with("libprivgrad_sdk.so")) {
      fs::copy(library, cli.out("elsewhere/lib") / library.path().filename());
    }
  }
  const std::string sgd = (kPlugins / "optimizers/sgd.privgrad.so").string();
  for (const auto& [words, program] : {std::pair(Words{"plugins", "test", sgd}, "conformance"),
                                       std::pair(Words{"data", "fetch", "mnist"}, "fetch"),
                                       std::pair(Words{"export", "m", "--out", "o"}, "export")}) {
    Call without = cli.prepare(words);
    without.words.front() = command;
    const Outcome outcome = call(without);
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring("elsewhere/lib/privgrad/privgrad-" +
                                              std::string(program) + ": is missing; "));
  }
}

TEST_CASE("the component pages in docs/ are up to date") {
  if (!fs::exists(kPlugins / "clusters/mpi.privgrad.so"))
    PRIVGRAD_SKIP("no MPI to build the plugin mpi with: apt-get install libopenmpi-dev");
  const Cli cli;
  REQUIRE(cli({"plugins", "docs", "pages"}).exit_code == 0);
  std::size_t pages = 0;
  for (const auto& entry : fs::directory_iterator(cli.out("pages"))) {
    ++pages;
    INFO("run: privgrad plugins docs docs/components");
    CHECK(read_file(entry.path()) ==
          read_file(kSource / "docs/components" / entry.path().filename()));
  }
  const auto kept = fs::directory_iterator(kSource / "docs/components");
  CHECK(static_cast<std::size_t>(std::distance(begin(kept), end(kept))) == pages);
}

TEST_CASE("schema is a JSON Schema that knows the components") {
  const Cli cli;
  const Outcome outcome = cli({"schema"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  const Json schema = Json::parse(outcome.out);
  CHECK_THAT(schema.at("$schema").get<std::string>(), ContainsSubstring("json-schema.org"));
  CHECK_THAT(outcome.out, ContainsSubstring("momentum"));
}
