// Test rows that are declared public but are training rows: refused because of their origin.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Returns forty rows of two columns.
std::string rows() {
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i)
    text += "0." + std::to_string(i % 7) + "," + std::to_string(i % 2) + "\n";
  return text;
}

/// Plans with these test rows and with a.csv as training rows.
Outcome planned(const Cli& cli, const std::string& train, const std::string& test,
                const Words& more = {}) {
  write_file(
      cli.dir() / "m.yaml",
      "privgrad: 1\n"
      "data: {kind: csv, train: " +
          train + ", test: " + test +
          ", target: y, classes: 2, test_is_public: true}\n"
          "model: linear\nsampler: full_batch\noptimizer: sgd\n"
          "schedules: {clip_norm: 1, learning_rate: 0.5}\n"
          "privacy: {target_epsilon: 1, target_delta: 1e-3, adjacency: zero_out, accountant: "
          "zcdp}\nsteps: 2\n");
  Words words{"plan", "m.yaml"};
  words.insert(words.end(), more.begin(), more.end());
  return cli(words);
}

void check_refused(const Outcome& outcome) {
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, ContainsSubstring("m.yaml:2:"));
  CHECK_THAT(outcome.err, ContainsSubstring("test rows are public, but they are training rows"));
}

}  // namespace

TEST_CASE("test rows declared public are refused where they are the training file's", "[privacy]") {
  const Cli cli;
  for (const char* name : {"a.csv", "b.csv"}) write_file(cli.dir() / name, rows());
  check_refused(planned(cli, "a.csv", "a.csv"));
  check_refused(planned(cli, "a.csv", "./a.csv"));
  check_refused(planned(cli, "a.csv", "a.csv", {"--set", "data.streaming=true"}));
  fs::create_symlink("a.csv", cli.dir() / "link.csv");
  check_refused(planned(cli, "a.csv", "link.csv"));
  fs::create_hard_link(cli.dir() / "a.csv", cli.dir() / "hard.csv");
  check_refused(planned(cli, "a.csv", "hard.csv"));
  check_refused(planned(cli, "'?.csv'", "b.csv"));  // one of several files
}

TEST_CASE("test rows declared public are refused where their range overlaps the training rows'",
          "[privacy]") {
  using namespace std::string_literals;
  const Cli cli;
  write_file(cli.dir() / "images", "\0\0\x08\x03\0\0\0\6\0\0\0\1\0\0\0\1\1\2\3\4\5\6"s);
  write_file(cli.dir() / "labels", "\0\0\x08\x01\0\0\0\6\0\1\0\1\0\1"s);
  const auto with_test_rows = [&](const std::string& which) {
    write_file(cli.dir() / "m.yaml",
               "privgrad: 1\n"
               "data: {kind: idx, train: {images: images, labels: labels}, test: {images: images, "
               "labels: labels}, classes: 2, test_is_public: true, limit: 3, " +
                   which +
                   "}\nmodel: linear\nsampler: full_batch\noptimizer: sgd\n"
                   "schedules: {clip_norm: 1, learning_rate: 0.5}\n"
                   "privacy: {target_epsilon: 1, target_delta: 1e-3, adjacency: zero_out, "
                   "accountant: zcdp}\nsteps: 2\n");
    return cli({"plan", "m.yaml"});
  };
  check_refused(with_test_rows("test_limit: 2"));
  check_refused(with_test_rows("test_skip: 2"));
  check_refused(with_test_rows("test_skip: 1, test_limit: 1"));
  CHECK(with_test_rows("test_skip: 3").exit_code == 0);
}

TEST_CASE("whether rows are equal decides nothing that leaves a run, and data describe tells it",
          "[privacy]") {
  const Cli cli;
  write_file(cli.dir() / "a.csv", rows());
  // As many rows as in a.csv, with the same content; and one row fewer.
  write_file(cli.dir() / "copy.csv", rows());
  std::string other = rows();
  other.replace(other.find("0.3,"), 4, "0.9,");
  write_file(cli.dir() / "other.csv", other);
  const Outcome copy = planned(cli, "a.csv", "copy.csv"),
                changed = planned(cli, "a.csv", "other.csv");
  CHECK(copy.exit_code == 0);
  CHECK(changed.exit_code == 0);
  CHECK(copy.err == changed.err);

  const auto common = [&](const char* test) {
    const Outcome told = cli({"data", "describe", "a.csv", "--set", "target=y", "--set",
                              "classes=2", "--set", std::string("test=") + test, "--json"});
    INFO(told.err);
    REQUIRE(told.exit_code == 0);
    return Json::parse(told.out).at("test_rows_in_train");
  };
  CHECK(common("copy.csv") == 40);
  CHECK(common("other.csv") == 39);
}
