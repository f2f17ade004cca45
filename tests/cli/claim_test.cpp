// Runs that begin simultaneously in one directory.
#include <set>

#include "cli.hpp"
#include "trials.hpp"

namespace fs = std::filesystem;

namespace {

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

/// Checks that all files belong to the run with this seed, and that there are no others.
void check_is_whole(const fs::path& directory, std::uint64_t seed) {
  CHECK(names_in(directory) ==
        std::set<std::string>{"facts.json", "ledger.jsonl", "manifest.yaml", "metrics.jsonl",
                              "model.safetensors", "privgrad.lock", "report.html", "schedules.json",
                              "statement.json", "summary.json"});
  CHECK_THAT(read_file(directory / "manifest.yaml"),
             ContainsSubstring("\nseed: " + std::to_string(seed) + "\n"));
  CHECK(line_count(read_file(directory / "ledger.jsonl")) == 14);
  CHECK(line_count(read_file(directory / "metrics.jsonl")) == 4);
  CHECK(Json::parse(read_file(directory / "summary.json")).at("status") == "completed");
}

}  // namespace

TEST_CASE("of two runs that begin at once in one directory, one has it and the other ends",
          "[long]") {
  const Cli cli;
  const auto begin = [&](const std::string& out, int seed) {
    return cli.prepare({"run", "small.yaml", "--out", out, "--quiet", "--threads", "1", "--set",
                        "seed=" + std::to_string(seed)});
  };
  const int races = trials(200, "races");
  for (int i = 0; i < races; ++i) {
    const std::string out = "parent-" + std::to_string(i) + "/out";
    Process first(begin(out, 1)), second(begin(out, 2));
    const Outcome outcomes[] = {first.finish(), second.finish()};
    INFO("race " << i << "\n" << outcomes[0].err << outcomes[1].err);
    const std::size_t winner = outcomes[0].exit_code == 0 ? 0 : 1;
    CHECK(outcomes[winner].exit_code == 0);
    check_one_error_line(outcomes[1 - winner], 4);
    CHECK_THAT(outcomes[1 - winner].err, ContainsSubstring("choose another --out"));
    check_is_whole(cli.out(out), winner + 1);
  }
}
