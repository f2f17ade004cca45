// `privgrad ablate --shard`: a study whose runs are spread over several machines.
#include "study_workplace.hpp"

TEST_CASE("the shards of a study, made apart and copied together, are the study", "[ablate]") {
  const Workplace work;
  REQUIRE(work.ablate({"--out", "s"}).exit_code == 0);
  const std::string csv = work.csv("s"), json = work.json("s");
  const fs::path whole = work.out("whole");
  fs::rename(work.out("s"), whole);
  std::size_t runs = 0;
  for (const std::string shard : {"1/3", "2/3", "3/3"}) {
    const Outcome outcome = work.ablate({"--out", "s", "--shard", shard});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK_FALSE(fs::exists(work.out("s/results.csv")));
    CHECK(work.finished("s") == 4);
    runs += work.finished("s");
    fs::rename(work.out("s"), work.out("shard-" + shard.substr(0, 1)));
  }
  CHECK(runs == 12);
  fs::rename(work.out("shard-1"), work.out("s"));
  for (const char* other : {"shard-2", "shard-3"})
    fs::copy(work.out(other) / "runs", work.out("s/runs"), fs::copy_options::recursive);
  const auto made = run_times(work.out("s"));
  REQUIRE(work.ablate({"--out", "s"}).exit_code == 0);
  CHECK(run_times(work.out("s")) == made);
  CHECK(work.csv("s") == csv);
  CHECK(work.json("s") == json);
}

TEST_CASE("a shard has runs of each arm, is continued, and says what is next", "[ablate]") {
  const Workplace work;
  const Json json = Json::parse(work.ablate({"--shard", "2/2", "--json"}).out);
  CHECK(json.at("shard") == 2);
  CHECK(json.at("shards") == 2);
  CHECK(json.at("runs") == 6);
  for (const char* arm : {"uniform+sgd", "uniform+momentum", "exponential+sgd"})
    CHECK(fs::exists(work.out("studies/tiny/runs") / arm));
  const auto made = run_times(work.out("studies/tiny"));
  const Outcome again = work.ablate({"--shard", "2/2"});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, ContainsSubstring("shard 2 of 2: its 6 runs are done"));
  CHECK(run_times(work.out("studies/tiny")) == made);
}

TEST_CASE("a shard that cannot be is refused in one line, and nothing is left", "[ablate]") {
  const Workplace work;
  for (const char* shard : {"0/2", "3/2", "2", "1/0", "a/b", "1/2/3", ""}) {
    INFO(shard);
    const Outcome outcome = work.ablate({"--shard", shard});
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("--shard"));
  }
  const std::string study = read_file(work.dir() / "s.yaml");
  write_file(work.dir() / "s.yaml",
             study + "search: {over: {schedules.learning_rate: [0.1, 0.2]}, seeds: [101]}\n");
  CHECK_THAT(work.ablate({"--shard", "1/2"}).err, ContainsSubstring("leave --shard out"));
  CHECK_FALSE(fs::exists(work.out("studies")));
}
