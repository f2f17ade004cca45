#include <sys/stat.h>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

Json verified(const Cli& cli, Words words, int exit_code) {
  words.insert(words.begin(), "verify");
  words.emplace_back("--json");
  const Outcome outcome = cli(words);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == exit_code);
  const Json json = Json::parse(outcome.out, nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json.at("verified") == (exit_code == 0));
  CHECK(json.at("problems").empty() == (exit_code == 0));
  return json;
}

std::string problems(const Cli& cli, const Words& words) {
  return verified(cli, words, 3).at("problems").dump();
}

/// Returns the single opening that a run has written.
fs::path opening_of(const Cli& cli) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(cli.state()))
    found.push_back(entry.path() / "opening.json");
  REQUIRE(found.size() == 1);
  return found.front();
}

mode_t mode_of(const fs::path& file) {
  struct stat facts {};
  REQUIRE(::stat(file.c_str(), &facts) == 0);
  return facts.st_mode & 0777;
}

void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  write_file(file, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("verify: a run that was just made is verified, wherever it is moved") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "out", "--quiet"}).exit_code == 0);
  fs::rename(cli.out("out"), cli.out("moved"));
  const Json json = verified(cli, {"moved"}, 0);
  CHECK(json.at("epsilon") == Json::parse(read_file(cli.out("moved/summary.json"))).at("epsilon"));
  CHECK(json.at("delta") == 1e-5);
  // zcdp is an upper bound; for only Gaussians gdp is exact, and cannot exceed zcdp.
  const Json named = json.at("accountants").at("privgrad.zcdp:zcdp");
  const Json second = json.at("accountants").at("privgrad.gdp:gdp");
  CHECK(named.at("role") == "named");
  CHECK(second.at("role") == "second");
  CHECK(second.at("epsilon") <= named.at("epsilon"));
  CHECK(json.at("signature").is_null());
  const Outcome text = cli({"verify", "moved"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.starts_with("verified: epsilon "));
  CHECK(text.err == "");
}

TEST_CASE("verify: the page carries the last lines, and is compared to the byte") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "out", "--quiet"}).exit_code == 0);
  const Json json = verified(cli, {"out"}, 0);
  const fs::path page = cli.out("out/report.html");
  CHECK_THAT(read_file(page), ContainsSubstring(json.at("last_lines").at("ledger.jsonl")));
  CHECK(read_file(page).find("does not verify") == std::string::npos);
  replace_in(page, "Completed all 12 steps", "Completed all 13 steps");
  CHECK_THAT(problems(cli, {"out"}), ContainsSubstring("report.html: differs from the page"));
  REQUIRE(cli({"report", "out"}).exit_code == 0);
  verified(cli, {"out"}, 0);
  fs::remove(page);
  CHECK_THAT(verified(cli, {"out"}, 0).at("notes").dump(), ContainsSubstring("report.html"));
}

TEST_CASE("report: a record that does not verify says so on top") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--out", "out", "--quiet"}).exit_code == 0);
  replace_in(cli.out("out/statement.json"), "\"steps\": 12", "\"steps\": 11");
  CHECK_THAT(problems(cli, {"out"}), ContainsSubstring("statement.json"));
  REQUIRE(cli({"report", "out"}).exit_code == 0);
  const std::string page = read_file(cli.out("out/report.html"));
  const std::size_t banner = page.find("This record does not verify. statement.json: is not");
  REQUIRE(banner != page.npos);
  CHECK(banner < page.find("<h1>"));
  const Outcome statement = cli({"report", "out", "--statement"});
  CHECK(statement.out.starts_with("This record does not verify."));
}

TEST_CASE("verify: a commitment tells two neighbouring data sets apart, with its opening alone") {
  const Cli cli;
  const std::string rows = "a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n";
  write_file(cli.out("rows.csv"), rows);
  const std::string data = "data={kind: csv, train: rows.csv, target: y}";
  const auto run = [&](const char* name) {
    REQUIRE(cli.on_manifest("run", {"--set", data, "--out", name, "--quiet"}).exit_code == 0);
    const std::string ledger = read_file(cli.out(name) / "ledger.jsonl");
    return Json::parse(ledger.substr(0, ledger.find('\n'))).at("data_commitment");
  };
  const Json first = run("one");
  const fs::path opening = cli.out("opening.json");
  fs::copy_file(opening_of(cli), opening);
  CHECK(mode_of(opening_of(cli)) == 0600);
  CHECK(mode_of(opening_of(cli).parent_path()) == 0700);
  verified(cli, {"one", "--data", "--opening", opening}, 0);
  // Without its opening, the commitment looks random: the same data have another commitment in each
  // run, so guesses about the data cannot be tested.
  CHECK(run("two") != first);
  CHECK_THAT(problems(cli, {"two", "--data", "--opening", opening}),
             ContainsSubstring("its commitment does not match this data and this opening"));
  // A neighbour: another target, or two exchanged rows.
  for (const char* other :
       {"a,y\n1,1\n2,1\n3,0\n4,1\n5,0\n6,1\n", "a,y\n2,1\n1,0\n3,0\n4,1\n5,0\n6,1\n"}) {
    write_file(cli.out("rows.csv"), other);
    verified(cli, {"one"}, 0);  // from its files alone
    CHECK_THAT(problems(cli, {"one", "--data", "--opening", opening}),
               ContainsSubstring("its commitment does not match this data and this opening"));
  }
  check_one_error_line(cli({"verify", "one", "--opening", opening}), 2);
  check_one_error_line(cli({"verify", "one", "--data"}), 2);
  check_one_error_line(cli({"verify", "one", "--data", "--opening", "nowhere.json"}), 4);
  // The opening is not in the run's own directory.
  const auto secret = Json::parse(read_file(opening)).at("opening").get<std::string>();
  for (const auto& entry : fs::directory_iterator(cli.out("one")))
    CHECK(read_file(entry.path()).find(secret) == std::string::npos);
}

TEST_CASE("verify: a seed opens its run's commitment, and leaves nothing else behind") {
  const Cli cli;
  REQUIRE(cli.on_manifest("run", {"--set", "seed=3", "--out", "out", "--quiet"}).exit_code == 0);
  CHECK(fs::is_empty(cli.state()));
  verified(cli, {"out", "--data"}, 0);
}

TEST_CASE("run: where the opening cannot be kept, the run is bound to no data and says so") {
  const Cli cli;
  write_file(cli.out("file"), "");
  const Outcome outcome =
      cli.on_manifest("run", {"--out", "out", "--quiet", "--state", "file/below"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err,
             ContainsSubstring("privgrad: note: the run has no commitment to its data: "));
  CHECK_THAT(outcome.err, ContainsSubstring("privgrad: note: the run left no checkpoints"));
  CHECK(line_count(outcome.err) == 2);
  const Json statement = Json::parse(read_file(cli.out("out/statement.json")));
  CHECK(statement.at("data_commitment").is_null());
  CHECK(statement.contains("no_data_commitment"));
  CHECK_THAT(verified(cli, {"out"}, 0).at("notes").dump(),
             ContainsSubstring("no commitment to its data"));
  REQUIRE(cli.on_manifest("run", {"--out", "kept", "--quiet", "--state", "mine"}).exit_code == 0);
  CHECK_FALSE(fs::is_empty(cli.out("mine")));
}

TEST_CASE("verify: a signature is of a key, of this run, and of nothing that does not verify") {
  const Cli cli;
  for (const char* name : {"one", "two"})
    REQUIRE(cli.on_manifest("run", {"--out", name, "--quiet"}).exit_code == 0);
  CHECK_THAT(verified(cli, {"one", "--sign", "k", "--new-key"}, 0).at("notes").dump(),
             ContainsSubstring("--trusted"));
  CHECK(mode_of(cli.out("k")) == 0600);
  CHECK(verified(cli, {"one", "--trusted", "k.pub"}, 0).at("signature").at("trusted") == true);
  check_one_error_line(cli({"verify", "one", "--sign", "k", "--new-key"}), 4);  // never overwritten
  verified(cli, {"two", "--sign", "other", "--new-key"}, 0);
  CHECK_THAT(problems(cli, {"one", "--trusted", "other.pub"}),
             ContainsSubstring("not of the trusted"));
  // The signature of another run.
  const std::string own = read_file(cli.out("one/signature.json"));
  write_file(cli.out("one/signature.json"), read_file(cli.out("two/signature.json")));
  CHECK_THAT(problems(cli, {"one"}),
             ContainsSubstring("signature.json: is not a signature of this run"));
  write_file(cli.out("one/signature.json"), "{}");
  CHECK_THAT(problems(cli, {"one"}),
             ContainsSubstring("signature.json: is not a signature of this run"));
  fs::remove(cli.out("one/signature.json"));
  CHECK_THAT(problems(cli, {"one", "--trusted", "k.pub"}),
             ContainsSubstring("signature.json: is missing"));
  write_file(cli.out("one/signature.json"), own);
  verified(cli, {"one", "--trusted", "k.pub"}, 0);
  // A key that others can read is refused for signing, and so is a run that does not verify.
  fs::permissions(cli.out("k"), fs::perms::others_read, fs::perm_options::add);
  check_one_error_line(cli({"verify", "two", "--sign", "k"}), 2);
  fs::remove(cli.out("two/signature.json"));
  replace_in(cli.out("two/metrics.jsonl"), "0", "1");
  CHECK(cli({"verify", "two", "--sign", "other"}).exit_code == 3);
  CHECK_FALSE(fs::exists(cli.out("two/signature.json")));
}

TEST_CASE("verify: wrong calls, and directories that hold nothing") {
  const Cli cli;
  check_one_error_line(cli({"verify"}), 2);
  check_one_error_line(cli({"verify", "nowhere"}), 4);
  fs::create_directory(cli.out("empty"));
  check_one_error_line(cli({"verify", "empty"}), 4);
  REQUIRE(cli.on_manifest("run", {"--out", "out", "--quiet"}).exit_code == 0);
  check_one_error_line(cli({"verify", "out", "--client", "1"}), 2);
  check_one_error_line(cli({"verify", "out", "--client", "many"}), 2);
  check_one_error_line(cli({"verify", "out", "--new-key"}), 2);
}

TEST_CASE("verify: a study is its runs, and what they make") {
  const Cli cli;
  write_file(cli.out("study.yaml"), R"(study: 1
name: rates
base: small.yaml
arms:
  slow: {schedules.learning_rate: 0.2}
  fast: {schedules.learning_rate: 0.5}
seeds: [1, 2]
metrics: [test_accuracy]
)");
  const Outcome made = cli({"ablate", "study.yaml", "--out", "s", "--quiet"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const Json json = verified(cli, {"s"}, 0);
  CHECK(json.at("last_lines").size() == 4);
  CHECK(json.at("epsilon") ==
        Json::parse(read_file(cli.out("s/runs/slow/seed-1/summary.json"))).at("epsilon"));
  // An option that only runs have would seem to have been checked.
  const std::vector<std::vector<std::string>> of_runs = {
      {"--data"}, {"--audit"}, {"--trusted", "k.pub"}, {"--sign", "k"}, {"--client-dir", "s"}};
  for (std::vector<std::string> option : of_runs) {
    const std::string name = option.front().substr(2, 4);
    option.insert(option.begin(), {"verify", "s"});
    const Outcome refused = cli(option);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err,
               ContainsSubstring("is a study, and " + name) && ContainsSubstring(" is for runs"));
  }
  struct Edit {
    const char* file;
    const char* from;
    const char* to;
    const char* seen;
  };
  const Edit edits[] = {
      {"results.json", "\"epsilon\": 0.99", "\"epsilon\": 0.89",
       "results.json: has another 'arms'"},
      {"results.json", "\"mean\": ", "\"mean\": 1", "results.json: has another 'arms'"},
      {"results.csv", ",completed,12,", ",completed,13,",
       "results.csv: does not follow from the runs"},
      {"study.json", "\"seeds\": [\n    1,", "\"seeds\": [\n    3,",
       "study.json: has another 'seeds'"},
      {"study.yaml", "seeds: [1, ", "seeds: [3, ", "runs/slow/seed-3"},
      {"study.yaml", "learning_rate: 0.2", "learning_rate: 0.3",
       "arms/slow/manifest.yaml: is not this arm of study.yaml: it has another "
       "schedules.learning_rate.value"},
      {"study.yaml", "  steps: 12", "  steps: 13",
       "arms/fast/manifest.yaml: is not this arm of study.yaml: it has another steps"},
      {"study.yaml", "[test_accuracy]", "[test_loss]", "study.json: has another 'metrics'"},
      {"runs/slow/seed-1/summary.json", "\"steps\": 12", "\"steps\": 11",
       "runs/slow/seed-1/summary.json"},
      {"arms/fast/manifest.yaml", "value: 0.5", "value: 0.6",
       "runs/fast/seed-1/manifest.yaml: is not the arm fast"},
      {"report.html", "</h1>", "!</h1>", "report.html: differs from the page"}};
  for (const Edit& edit : edits) {
    INFO(edit.file << " " << edit.from);
    const fs::path file = cli.out("s") / edit.file;
    const std::string before = read_file(file);
    replace_in(file, edit.from, edit.to);
    CHECK_THAT(problems(cli, {"s"}), ContainsSubstring(edit.seen));
    write_file(file, before);
  }
  fs::rename(cli.out("s/runs/fast/seed-2"), cli.out("kept"));
  CHECK_THAT(problems(cli, {"s"}), ContainsSubstring("runs/fast/seed-2"));
  fs::rename(cli.out("s/runs/fast/seed-1"), cli.out("s/runs/fast/seed-2"));
  CHECK_THAT(problems(cli, {"s"}), ContainsSubstring("seed-2/manifest.yaml: is not the arm fast"));
  check_one_error_line(cli({"verify", "s", "--data"}), 2);
}
