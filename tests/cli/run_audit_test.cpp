// Audits of finished runs: audit.json, what it is bound to, and which pages show it.
#include <array>
#include <cmath>
#include <cstdio>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Makes a run in `out` and audits it.
Json audited_run(const Cli& cli, Words more = {}) {
  Words words{"run", "small.yaml", "--out", "out", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  REQUIRE(cli(words).exit_code == 0);
  const Outcome outcome = cli({"audit", "out", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

Json verified(const Cli& cli, const Words& more = {}) {
  Words words{"verify", "out", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return Json::parse(cli(words).out);
}

void change(const Cli& cli, const char* key, const Json& value) {
  Json record = Json::parse(read_file(cli.out("out/audit.json")));
  record.at(key) = value;
  write_file(cli.out("out/audit.json"), record.dump());
  REQUIRE(cli({"report", "out"}).exit_code == 0);
}

std::string problems_after(const char* key, const Json& value, const Words& options = {}) {
  const Cli cli;
  // Repeats until an audit shows nothing. The coins of an audit follow from the run's seal, which
  // no seed determines; far fewer than half of the audits show something.
  double lower = 1.0;
  for (int attempt = 0; lower != 0.0 && attempt < 20; ++attempt) {
    fs::remove_all(cli.out("out"));
    lower = audited_run(cli).at("epsilon_lower").get<double>();
  }
  REQUIRE(lower == 0.0);
  change(cli, key, value);
  const Json result = verified(cli, options);
  CHECK(result.at("verified") == false);
  return result.at("problems").dump();
}

}  // namespace

TEST_CASE("the audit of a run stands beside its epsilon, on its page and in its statement") {
  const Cli cli;
  const Json record = audited_run(cli, {"--set", "mode=release"});
  CHECK(record == Json::parse(read_file(cli.out("out/audit.json"))));
  const Json summary = Json::parse(read_file(cli.out("out/summary.json")));
  CHECK(record.at("epsilon_upper") == summary.at("epsilon"));
  CHECK(record.at("rows") == "drawn");
  CHECK(record.at("canaries") == 60);

  const std::string page = read_file(cli.out("out/report.html"));
  CHECK_THAT(page, ContainsSubstring("at most 1.00 (proved)"));
  // This audit's coins, and thus its lower bound, are not known in advance; the text never rounds
  // it up.
  std::array<char, 32> lower{};
  std::snprintf(lower.data(), lower.size(), "at least %.2f ",
                std::floor(100.0 * record.at("epsilon_lower").get<double>()) / 100.0);
  CHECK_THAT(page, ContainsSubstring(std::string(lower.data()) + "(audited, 99 %)"));
  CHECK_THAT(page, ContainsSubstring("<svg"));
  const Outcome statement = cli({"report", "out", "--statement"});
  CHECK_THAT(statement.out, ContainsSubstring("at most 1.00 (proved)"));

  // The page matches the files, and the run still verifies.
  const Json result = verified(cli);
  CHECK(result.at("problems") == Json::array());
  CHECK_THAT(result.at("notes").dump(),
             ContainsSubstring("a lower bound proves nothing about privacy"));
}

TEST_CASE("anybody can make the audit of a run again, without its data") {
  const Cli cli;
  write_file(cli.dir() / "rows.csv", "a,b,y\n1,2,3\n2,1,0\n0,1,1\n1,1,2\n");
  const Json record =
      audited_run(cli, {"--set", "data={kind: csv, train: rows.csv, target: y, task: regression}"});
  fs::remove(cli.dir() / "rows.csv");
  const Outcome again = cli({"audit", "out", "--json", "--threads", "1"});
  CHECK(again.exit_code == 0);
  CHECK(Json::parse(again.out) == record);
  CHECK(verified(cli, {"--audit"}).at("verified") == true);
}

TEST_CASE("verify finds an audit that was changed, or is of another run") {
  CHECK_THAT(problems_after("epsilon_lower", 0.5),
             ContainsSubstring("has another 'epsilon_lower' than follows from its guesses"));
  CHECK_THAT(problems_after("epsilon_upper", 0.5),
             ContainsSubstring("says another epsilon or delta than the run proves"));
  CHECK_THAT(problems_after("confidence", 7), ContainsSubstring("numbers that no audit writes"));
  CHECK_THAT(problems_after("method", "guess"), ContainsSubstring("which no audit of such "
                                                                  "releases has"));
  CHECK_THAT(problems_after("audits", {{"manifest.yaml", "0"}}),
             ContainsSubstring("is of another run"));
  // Other guesses that lead to the same bound contradict nothing in the files, but repeating the
  // audit shows the difference.
  CHECK_THAT(problems_after("correct", 0, {"--audit"}),
             ContainsSubstring("differs from the repeated audit"));
}

TEST_CASE("a page does not show the audit of another run") {
  const Cli cli;
  audited_run(cli);
  REQUIRE(cli.on_manifest("run", {"--out", "other", "--quiet"}).exit_code == 0);
  fs::copy_file(cli.out("out/audit.json"), cli.out("other/audit.json"));
  REQUIRE(cli({"report", "other"}).exit_code == 0);
  const std::string page = read_file(cli.out("other/report.html"));
  CHECK_THAT(page, ContainsSubstring("audit.json is not an audit of this record"));
  CHECK(page.find("(audited,") == page.npos);
  CHECK(cli({"report", "other", "--statement"}).out.find("audited") == std::string::npos);
}

TEST_CASE("a run that cannot be audited gets no audit.json") {
  const Cli cli;
  const auto refusal = [&](int exit_code, const Words& more = {}) {
    Words words{"audit", "out"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = cli(words);
    check_one_error_line(outcome, exit_code);
    CHECK_FALSE(fs::exists(cli.out("out/audit.json")));
    return outcome.err;
  };
  REQUIRE(cli.on_manifest("run", {"--out", "out", "--quiet"}).exit_code == 0);
  CHECK_THAT(refusal(2, {"--set", "steps=1"}),
             ContainsSubstring("--set cannot change the manifest"));
  const std::string model = read_file(cli.out("out/model.safetensors"));
  write_file(cli.out("out/model.safetensors"), model + " ");
  CHECK_THAT(refusal(3), ContainsSubstring("does not verify (model.safetensors"));
  fs::remove_all(cli.out("out"));
  REQUIRE(
      cli.on_manifest("run", {"--out", "out", "--quiet", "--set", "privacy.noise=off"}).exit_code ==
      0);
  CHECK_THAT(refusal(3), ContainsSubstring("noise is off"));
}
