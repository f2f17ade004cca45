#include "page.hpp"

namespace {

std::string first_sentence(const Json& statement) {
  const std::string first = statement.at("prose").at(0);
  return first.substr(0, first.find_first_of(":;"));
}

/// Returns the whole prose as one text.
std::string prose(const Json& statement) {
  std::string all;
  for (const Json& paragraph : statement.at("prose")) all += paragraph.get<std::string>() + "\n";
  return all;
}

/// Sends the signal to a run in the directory `run` when this file of the run exists.
void stop_long_run(const Cli& cli, int signal, const std::string& once_there,
                   const Words& more = {}) {
  Words words{"run",    "small.yaml",
              "--set",  "steps=60000",
              "--set",  "model={kind: mlp, hidden: [512]}",
              "--set",  "evaluate_every=10",
              "--out",  "run",
              "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  Process process(cli.prepare(words));
  REQUIRE(Process::wait_for([&] { return std::filesystem::exists(cli.out("run/" + once_there)); }));
  process.send(signal);
  process.finish();
}

}  // namespace

// The list comes from Ponomareva et al. 2023, "How to DP-fy ML", section 5.3.3.
TEST_CASE("a statement has all that a reader needs to judge a guarantee") {
  const Cli cli;
  page_of_run(cli, {"--set", "mode=release", "--set", "privacy.also=[{kind: rdp}]"});
  const Json statement = statement_of(cli);
  const Json summary = Json::parse(read_file(cli.out("run/summary.json")));
  CHECK(statement.at("setting") == "central");
  CHECK(statement.at("unit") == "example");
  CHECK(statement.at("adjacency") == "zero_out");
  CHECK(statement.at("released") == "all_iterates");
  CHECK(statement.at("tuning") == "not_included");
  CHECK(statement.at("epsilon") == summary.at("epsilon"));
  CHECK(statement.at("delta") == 1e-5);
  CHECK(statement.at("target_epsilon") == 1.0);
  CHECK(statement.at("bound") == "upper");
  CHECK(statement.at("accountant") == "zcdp");
  CHECK(statement.at("also").at(0).at("accountant") == "rdp");
  CHECK(statement.at("charged_steps") == 12);
  CHECK(statement.at("sampling").at("sampler") == "privgrad.full_batch:full_batch");
  CHECK(statement.at("sampling").at("expected_batch_size") ==
        Json{{"smallest", 60.0}, {"largest", 60.0}});
  CHECK(statement.at("mechanism").at("aggregator") == "privgrad.gaussian:gaussian");
  CHECK(statement.at("mechanism").at("clip_norm") == Json{{"smallest", 1.0}, {"largest", 1.0}});
  CHECK_THAT(statement.at("mechanism").at("charged_as").get<std::string>(),
             ContainsSubstring("12 x gaussian of noise multiplier"));
  CHECK(statement.at("unaccounted").empty());
  CHECK(statement.at("randomness") == "operating_system");
  CHECK(statement.at("arithmetic") == "exact");
  CHECK(statement.at("floating_point") == "exact");
  CHECK(statement.at("versions").at("plugins").size() >= 8);
  CHECK(statement.at("stain") == "");
  CHECK(summary.at("statement") == statement);

  const std::string all = prose(statement);
  for (const char* text :
       {"noised sums of all 12 steps that were paid for are (epsilon, "
        "delta)-differentially private",
        "an upper bound, by the accountant zcdp", "For the 12 planned steps",
        "one training example", "whose contribution is replaced by zero", "all iterates at once",
        "this run alone", "The bits that were released are covered",
        "the sampler that ran is the one that was accounted"}) {
    CHECK_THAT(all, ContainsSubstring(text));
  }
  CHECK(first_sentence(statement).starts_with("Who is protected. Each single training example"));
}

TEST_CASE("what stains a guarantee is its first sentence, in the statement and in the model file") {
  struct Case {
    Words set;
    const char* begins;
    const char* model;
  };
  const std::vector<Case> all{
      {{},
       "The guarantee below covers the model, not everything that the run shows",
       "; not covered: training metrics and test metrics"},
      {{"--set", "privacy.noise=off"},
       "This run is not differentially private",
       "not private: no noise was added"},
      {{"--set", "seed=7"}, "Not for release", "not for release (seeded noise): epsilon "},
      {{"--set", "data.transforms=[{kind: standardize}]"},
       "The guarantee below has a gap",
       "; not covered: standardize, training metrics and test metrics"},
      {{"--set", "mode=release"},
       "Who is protected. Each single",
       "all iterates, without tuning\""},
  };
  int number = 0;
  for (const Case& one : all) {
    const Cli cli;
    page_of_run(cli, one.set);
    INFO(++number);
    const Json statement = statement_of(cli);
    CHECK(first_sentence(statement).starts_with(one.begins));
    CHECK_THAT(read_file(cli.out("run/model.safetensors")), ContainsSubstring(one.model));
    const Outcome printed = cli({"report", "run", "--statement"});
    CHECK(printed.exit_code == 0);
    CHECK(printed.out.starts_with(one.begins));
  }
}

TEST_CASE("a guarantee with a gap is not said to cover the model") {
  for (const char* set : {"data.transforms=[{kind: standardize}]", "aggregator.arithmetic=float"}) {
    INFO(set);
    const Cli cli;
    page_of_run(cli, {"--set", set});
    const std::string stain = statement_of(cli).at("stain");
    CHECK_THAT(stain, ContainsSubstring("Nor does it cover everything that the run shows: the "
                                        "training metrics and test metrics"));
    CHECK_THAT(stain, !ContainsSubstring("covers the model"));
  }
}

TEST_CASE("a statement names whose word the number of examples is") {
  const Cli cli;
  const auto size_is = [&](const Words& set, const std::string& run) {
    page_of_run(cli, set, run);
    return statement_of(cli, run).at("dataset_size_is");
  };
  CHECK(size_is({}, "a") == "public");
  CHECK(size_is({"--set", "privacy.adjacency=add_or_remove_one"}, "b") == "read_from_the_data");
  CHECK(size_is({"--set", "privacy.adjacency=add_or_remove_one", "--set", "data.size=50"}, "c") ==
        "declared");
  CHECK(statement_of(cli, "c").at("dataset_size") == 50);
}

TEST_CASE("a statement is about the steps that were charged") {
  const Cli cli;
  page_of_run(cli, {"--set", "schedules.noise_multiplier=10"});
  const Json statement = statement_of(cli);
  const Json summary = Json::parse(read_file(cli.out("run/summary.json")));
  CHECK(statement.at("status") == "budget_exhausted");
  CHECK(statement.at("charged_steps") == summary.at("steps"));
  CHECK(statement.at("planned_steps") == 12);
  CHECK_THAT(statement.at("mechanism").at("charged_as").get<std::string>(),
             ContainsSubstring(summary.at("steps").dump() + " x gaussian"));
}

TEST_CASE("a run that diverges is accounted for in full: releases decided when it ended") {
  const Cli cli;
  page_of_run(cli, {"--set", "schedules.learning_rate=1e38", "--set", "schedules.clip_norm=1e10"});
  const Json statement = statement_of(cli);
  REQUIRE(statement.at("status") == "diverged");
  CHECK(statement.at("accounted_steps") == 12);
  CHECK(statement.at("charged_steps") < 12);
  CHECK(statement.at("lower").is_null());
  // The cost of the whole run.
  page_of_run(cli, {}, "whole");
  CHECK(statement.at("epsilon") == statement_of(cli, "whole").at("epsilon"));
  CHECK_THAT(statement.at("prose").dump(), ContainsSubstring("releases decided when that was"));
}

TEST_CASE("a lower bound is shortened downwards") {
  const Cli cli;
  page_of_run(cli, {"--set", "privacy.accountant=pld"});
  const Json statement = statement_of(cli);
  const double lower = statement.at("lower");
  const std::string begins = "the true value is at least ";
  const std::string all = prose(statement);
  const std::size_t at = all.find(begins);
  REQUIRE(at != all.npos);
  const double shown = std::stod(all.substr(at + begins.size()));
  CHECK(shown <= lower);
  CHECK(shown > 0.999 * lower);
}

TEST_CASE("a run without noise was charged for nothing, and no budget guarded it") {
  const Cli cli;
  page_of_run(cli, {"--set", "privacy.noise=off"});
  const Json statement = statement_of(cli);
  CHECK(statement.at("noise") == false);
  CHECK(statement.at("steps") == 12);
  CHECK(statement.at("charged_steps") == 0);
  CHECK(statement.at("target_epsilon").is_null());
  CHECK(statement.at("epsilon").is_null());
}

TEST_CASE("a statement names the mode, and whose the test rows are") {
  const Cli cli;
  page_of_run(cli, {}, "research");
  CHECK(statement_of(cli, "research").at("mode") == "research");
  CHECK(statement_of(cli, "research").at("test_rows") == "private");
  page_of_run(cli, {"--set", "mode=release", "--set", "data.test_is_public=true"}, "release");
  CHECK(statement_of(cli, "release").at("mode") == "release");
  CHECK(statement_of(cli, "release").at("test_rows") == "declared_public");
  CHECK_THAT(prose(statement_of(cli, "release")),
             ContainsSubstring("the manifest declares those rows public"));
  page_of_run(cli, {"--set", "data.test_rows=0"}, "alone");
  CHECK(statement_of(cli, "alone").at("test_rows") == "none");
}

TEST_CASE("of schedules that vary, a statement gives both ends") {
  const Cli cli;
  page_of_run(cli, {"--set",
                    "schedules.clip_norm={kind: list, values: [1, 1, 1, 1, 2, 2, 2, 2, "
                    "0.5, 0.5, 0.5, 0.5]}"});
  const Json statement = statement_of(cli);
  CHECK(statement.at("mechanism").at("clip_norm") == Json{{"smallest", 0.5}, {"largest", 2.0}});
  CHECK_THAT(prose(statement), ContainsSubstring("L2 norm of at most 0.5 to 2"));
}

TEST_CASE("what was charged beside the steps is part of what was charged") {
  const Cli cli;
  page_of_run(cli, {"--set", "steps=1000", "--set", "schedules.noise_multiplier=20", "--set",
                    "federated={clients: 2, rounds: 3, partition: iid, local_iterations: {kind: "
                    "ali_dpfl}, estimates: private, estimate_noise: 30}"});
  const Json statement = statement_of(cli);
  const std::string charged = statement.at("mechanism").at("charged_as");
  CHECK_THAT(charged, ContainsSubstring("3 x gaussian of noise multiplier 30"));
  CHECK_THAT(charged, ContainsSubstring("x gaussian of noise multiplier 20"));
}

TEST_CASE("while a run goes on, its statement says that it has not ended and what it can cost") {
  const Cli cli;
  stop_long_run(cli, SIGKILL, "ledger.jsonl", {"--set", "schedules.noise_multiplier=1e6"});
  const Json statement = statement_of(cli);
  CHECK(statement.at("status") == "unfinished");
  CHECK(statement.at("charged_steps") == 60'000);
  CHECK(statement.at("epsilon") > 0.0);
  CHECK(first_sentence(statement).starts_with("The guarantee below covers the model"));
  CHECK_THAT(statement.at("prose").at(0).get<std::string>(),
             ContainsSubstring("This run has not come to its end"));
  CHECK(statement.at("short").get<std::string>().starts_with("unfinished, at most epsilon"));
}

TEST_CASE("of a run that somebody stopped, the statement says what that is not part of") {
  const Cli cli;
  stop_long_run(cli, SIGINT, "ledger.jsonl", {"--set", "checkpoint=off"});
  const Json statement = statement_of(cli);
  REQUIRE(statement.at("status") == "interrupted");
  CHECK(statement.at("accounted_steps") == statement.at("charged_steps"));
  CHECK_THAT(statement.at("prose").dump(), ContainsSubstring("Somebody stopped the run."));
}

TEST_CASE("a run without noise that goes on was charged for nothing either") {
  const Cli cli;
  stop_long_run(cli, SIGKILL, "statement.json", {"--set", "privacy.noise=off"});
  const Json statement = statement_of(cli);
  CHECK(statement.at("status") == "unfinished");
  CHECK(statement.at("charged_steps") == 0);
}

TEST_CASE("a statement in a terminal keeps to 100 columns") {
  const Cli cli;
  page_of_run(cli);
  std::istringstream lines(cli({"report", "run", "--statement"}).out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE(
    "what rests on the word of the manifest's author is listed, in full, wherever it counts") {
  const Cli cli;
  std::string rows = "age,sex,answer\n";
  for (int i = 0; i < 40; ++i) rows += std::to_string(i) + (i % 2 == 0 ? ",f,yes\n" : ",m,no\n");
  write_file(cli.out("t.csv"), rows);
  const std::string data =
      "data={kind: csv, train: t.csv, target: answer, labels: ['no', 'yes'], other_label: 'no', "
      "size: 41, columns: [{name: age, type: number, min: 0, max: 110, fill: 50}, {name: sex, "
      "type: category, values: [f, m], other: true}], transforms: [{kind: standardize, mean: [40, "
      "0.5, 0.5, 0], std: [20, 1, 1, 1]}]}";
  const Words set{"--set", data, "--set", "privacy.adjacency=add_or_remove_one"};
  const Json declared = Json::parse(R"json([
    {"key": "data.size", "value": "41"},
    {"key": "data.target", "value": "\"answer\""},
    {"key": "data.labels", "value": "[\"no\", \"yes\"]"},
    {"key": "data.other_label", "value": "\"no\""},
    {"key": "data.columns.0", "value": "{name: \"age\", type: \"number\", min: 0, max: 110, fill: 50}"},
    {"key": "data.columns.1", "value": "{name: \"sex\", type: \"category\", values: [\"f\", \"m\"], other: true}"},
    {"key": "data.transforms.0.mean", "value": "[40, 0.5, 0.5, 0]"},
    {"key": "data.transforms.0.std", "value": "[20, 1, 1, 1]"}])json");
  const auto by_key = [](Json list) {
    std::sort(list.begin(), list.end());
    return list;
  };
  const std::string page = visible(page_of_run(cli, set));
  const Json statement = statement_of(cli);
  CHECK(by_key(statement.at("declared")) == by_key(declared));
  Words words = set;
  const Outcome plan = cli.on_manifest("plan", words);
  CHECK_THAT(plan.out, ContainsSubstring("declared by the author and taken as public\n"));
  words.emplace_back("--json");
  CHECK(Json::parse(cli.on_manifest("plan", words).out).at("declared") == statement.at("declared"));
  CHECK_THAT(page, ContainsSubstring("Declared by the author and taken as public"));
  for (const Json& one : declared) {
    const std::string key = one.at("key"), value = one.at("value");
    INFO(key);
    CHECK_THAT(prose(statement), ContainsSubstring(key + " = " + value));
    CHECK_THAT(page, ContainsSubstring(key));
    CHECK_THAT(plan.out, ContainsSubstring(value));
  }
  CHECK_THAT(page, ContainsSubstring("max: 110"));
  CHECK(cli({"verify", "run"}).exit_code == 0);

  // A long list is shortened for people, and complete for programs.
  std::string eighths = "[0.125";
  for (int i = 1; i < 80; ++i) eighths += ", 0.125";
  eighths += "]";
  page_of_run(
      cli,
      {"--set", "data.dimensions=80", "--set",
       "data.transforms=[{kind: standardize, mean: " + eighths + ", std: " + eighths + "}]"},
      "many");
  const Json many = statement_of(cli, "many");
  const Json whole{{"key", "data.transforms.0.mean"}, {"value", eighths}};
  const Json& listed = many.at("declared");
  CHECK(std::find(listed.begin(), listed.end(), whole) != listed.end());
  CHECK(prose(many).find(eighths) == std::string::npos);
  CHECK_THAT(prose(many), ContainsSubstring("data.transforms.0.mean = [0.125, 0.125"));
}
