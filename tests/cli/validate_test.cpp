// `privgrad validate` for programs: one document with every problem, whatever its kind.
#include "cli.hpp"

namespace {

Json validated(const Outcome& outcome, int exit_code) {
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == exit_code);
  const Json answer = Json::parse(outcome.out);
  CHECK(answer.size() == 2);
  CHECK(answer.at("valid") == (exit_code == 0));
  return answer.at("problems");
}

}  // namespace

TEST_CASE("validate --json of a right manifest has no problems") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("validate", {"--json"});
  CHECK(validated(outcome, 0).empty());
  CHECK(outcome.err == "");
}

TEST_CASE("validate --json has every problem, in parts") {
  const Cli cli;
  std::string text = Cli::kManifest;
  text.replace(text.find("optimizer: {kind: sgd}"), 22, "optimizer: {kind: adaam}");
  text.replace(text.find("steps: 12"), 9, "steps: 0");
  write_file(cli.manifest(), text);
  const Outcome outcome = cli.on_manifest("validate", {"--json", "--set", "nam=x"});
  const Json problems = validated(outcome, 2);
  REQUIRE(problems.size() == 3);
  // Finds a key's line in the file.
  const auto line_of = [&](const std::string& key) {
    return 1 + std::count(text.begin(),
                          text.begin() + static_cast<std::ptrdiff_t>(text.find("\n" + key)) + 1,
                          '\n');
  };
  const Json& kind = problems.at(0);
  CHECK(kind.at("file") == "small.yaml");
  CHECK(kind.at("line") == line_of("optimizer"));
  CHECK(kind.at("column") == 19);
  CHECK(kind.at("where") == "optimizer");
  CHECK(kind.at("set").is_null());
  CHECK(kind.at("message") == "no optimizer 'adaam' is loaded; did you mean 'adam'?");
  CHECK(kind.at("nearest") == "adam");
  CHECK(kind.at("expected").is_null());
  const Json& steps = problems.at(1);
  CHECK(steps.at("line") == line_of("steps"));
  CHECK(steps.at("where") == "steps");
  CHECK(steps.at("nearest").is_null());
  CHECK(steps.at("expected").is_string());
  CHECK(steps.at("message").get<std::string>().ends_with(steps.at("expected").get<std::string>()));
  // A value from --set is not in any file.
  const Json& set = problems.at(2);
  CHECK(set.at("set") == "nam");
  CHECK(set.at("file").is_null());
  CHECK(set.at("line").is_null());
  CHECK(set.at("nearest") == "name");
  // People see the same lines as without --json.
  CHECK(outcome.err == cli.on_manifest("validate", {"--set", "nam=x"}).err);
}

TEST_CASE("validate --json says what keeps a manifest from being read, and keeps the exit code") {
  const Cli cli;
  const Json missing = validated(cli({"validate", "nowhere.yaml", "--json"}), 4);
  REQUIRE(missing.size() == 1);
  CHECK_THAT(missing.at(0).at("message").get<std::string>(), ContainsSubstring("nowhere.yaml"));
  const Json file =
      validated(cli.on_manifest("validate",
                                {"--json", "--set", "data={kind: csv, train: no.csv, target: y}"}),
                4);
  REQUIRE(file.size() == 1);
  CHECK(file.at(0).at("where") == "data.train");
  CHECK_THAT(file.at(0).at("message").get<std::string>(), ContainsSubstring("no such file"));
}

TEST_CASE("a path that --set gives is looked up where the call is made, first") {
  const Cli cli;
  std::filesystem::create_directories(cli.out("elsewhere"));
  write_file(cli.out("elsewhere/m.yaml"), Cli::kManifest);
  write_file(cli.out("here.csv"), "x,y\n1,0\n2,1\n");
  const Words call{"plan",  "elsewhere/m.yaml",
                   "--set", "data={kind: csv, train: here.csv, target: y}",
                   "--set", "evaluate_every=null"};
  CHECK(cli(call).exit_code == 0);
  // In a manifest, the same path refers to the manifest's own folder.
  std::string text = Cli::kManifest;
  const std::size_t data = text.find("data: ");
  text.replace(data, text.find('\n', data) - data, "data: {kind: csv, train: here.csv, target: y}");
  write_file(cli.out("elsewhere/m.yaml"), text);
  const Outcome outcome = cli({"validate", "elsewhere/m.yaml"});
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.err, ContainsSubstring("data.train"));
}
