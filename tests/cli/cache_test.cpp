// --cache, and the commands that list and delete stored files.
#include <sys/stat.h>

#include "cli.hpp"

namespace {

namespace fs = std::filesystem;

/// Training of a head on a frozen layer, with the small manifest's data.
struct Head : Cli {
  Head() {
    write_file(dir() / "base.yaml", std::string(kData) + kBase);
    write_file(dir() / "head.yaml", std::string(kData) + kOnTop);
    REQUIRE((*this)({"run", "base.yaml", "--out", "base", "--quiet"}).exit_code == 0);
  }

  /// Calls the program with a folder for the user's caches.
  Outcome in_cache(const Words& words) const {
    Call what = prepare(words);
    what.environment["XDG_CACHE_HOME"] = (dir() / "caches").string();
    return call(what);
  }
  fs::path folder() const { return dir() / "caches" / "privgrad" / "features"; }

  static constexpr const char* kData = R"(privgrad: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4}
sampler: full_batch
optimizer: sgd
seed: 3
)";
  static constexpr const char* kBase = R"(name: base
model: {kind: mlp, hidden: [5]}
schedules: {clip_norm: 1, learning_rate: 0.1}
privacy: {noise: off, target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";
  static constexpr const char* kOnTop = R"(name: head
model: {kind: mlp, hidden: [5], weights: {file: base/model.safetensors}, train: [last]}
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 3
)";
};

}  // namespace

TEST_CASE("run --cache keeps features in the user's place for caches, and says so") {
  const Head cli;
  const Outcome first = cli.in_cache({"run", "head.yaml", "--out", "a", "--cache", "--quiet"});
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK_THAT(first.err,
             ContainsSubstring("privgrad: note: kept the outputs of frozen layers for 60 "
                               "examples") &&
                 ContainsSubstring(cli.folder().string()));
  const Outcome second = cli.in_cache({"run", "head.yaml", "--out", "b", "--cache", "--quiet"});
  CHECK_THAT(second.err, ContainsSubstring("note: took the outputs of frozen layers for 60"));
  CHECK(read_file(cli.out("a/model.safetensors")) == read_file(cli.out("b/model.safetensors")));

  const Json list = Json::parse(cli.in_cache({"cache", "list", "--json"}).out);
  CHECK(list.at("folder") == cli.folder().string());
  REQUIRE(list.at("features").size() == 2);
  std::vector<int> rows;
  for (const Json& one : list.at("features")) {
    rows.push_back(one.at("rows"));
    CHECK(one.at("row_size") == 5);
  }
  std::sort(rows.begin(), rows.end());
  CHECK(rows == std::vector<int>{20, 60});
  // A hash of private rows would confirm guesses about them, so no output shows one.
  const std::string shown = cli.in_cache({"cache", "list"}).out + list.dump() + first.err;
  for (const auto& entry : fs::directory_iterator(cli.folder()))
    CHECK(shown.find(entry.path().stem().string()) == shown.npos);

  const Outcome removed = cli.in_cache({"cache", "delete"});
  CHECK(removed.exit_code == 0);
  CHECK_THAT(removed.out, ContainsSubstring("removed 2 files, "));
  CHECK_FALSE(fs::exists(cli.folder()));
  CHECK_THAT(cli.in_cache({"cache", "list"}).out, ContainsSubstring("no features are kept in"));
}

TEST_CASE("without --cache nothing is kept anywhere") {
  const Head cli;
  CHECK(cli.in_cache({"run", "head.yaml", "--out", "a", "--quiet"}).exit_code == 0);
  CHECK_FALSE(fs::exists(cli.dir() / "caches"));
}

TEST_CASE("a cache folder that is open to others is refused before anything is read") {
  const Head cli;
  fs::create_directory(cli.dir() / "open");
  REQUIRE(::chmod((cli.dir() / "open").c_str(), 0755) == 0);
  const Outcome outcome = cli({"run", "head.yaml", "--out", "a", "--cache=open"});
  check_one_error_line(outcome, 2);
  CHECK_THAT(outcome.err, ContainsSubstring("mode 0700"));
  CHECK_FALSE(fs::exists(cli.out("a")));
  check_one_error_line(cli({"cache", "delete", "--dir", "open"}), 2);
  check_one_error_line(cli({"run", "head.yaml", "--out", "a", "--cache=head.yaml"}), 4);
}

TEST_CASE("a manifest without layers or transforms to keep anything of is told so") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--out", "a", "--cache=kept", "--quiet"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("has neither"));
  CHECK(fs::is_empty(cli.dir() / "kept"));
}

TEST_CASE("a study keeps the features of all its runs once") {
  const Head cli;
  write_file(cli.dir() / "study.yaml", R"(study: 1
base: head.yaml
arms:
  one: {}
  two: {schedules.learning_rate: 0.2}
seeds: 2
baseline: one
metrics: [test_loss]
)");
  const Outcome outcome =
      cli({"ablate", "study.yaml", "--out", "study", "--cache=kept", "--jobs", "1", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("as private as the data, until privgrad cache delete"));
  // Four runs on the same data: two splits.
  const Json list = Json::parse(cli({"cache", "list", "--dir", "kept", "--json"}).out);
  CHECK(list.at("features").size() == 2);
}

TEST_CASE(
    "files of a cache that are damaged, exchanged or of other data make the run without a cache",
    "[features][privacy]") {
  const Head cli;
  int runs = 0;
  const auto model = [&](const Words& more) {
    const std::string out = "run" + std::to_string(++runs);
    Words words{"run", "head.yaml", "--out", out, "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = cli(words);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return std::pair(read_file(cli.out(out + "/model.safetensors")), outcome.err);
  };
  const std::string expected = model({}).first;
  model({"--cache=kept"});
  model({"--cache=others", "--set", "seed=4"});
  const auto files_in = [&](const std::string& folder) {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(cli.dir() / folder))
      all.push_back(entry.path());
    REQUIRE(all.size() == 2);
    if (fs::file_size(all[0]) < fs::file_size(all[1])) std::swap(all[0], all[1]);
    return all;
  };
  const std::vector<fs::path> files = files_in("kept"), others = files_in("others");
  const std::string train = read_file(files[0]), test = read_file(files[1]);
  const auto check = [&](const std::string& first, const std::string& second) {
    write_file(files[0], first);
    write_file(files[1], second);
    const auto [made, said] = model({"--cache=kept"});
    CHECK(made == expected);
    CHECK((said.find("are damaged") != said.npos) == (first != train || second != test));
  };
  check(train, test);
  check(test, train);
  check(read_file(others[0]), read_file(others[1]));
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{20}, train.size() / 2, train.size() - 64, train.size() - 1}) {
    INFO("cut off at " << length);
    check(train.substr(0, length), test);
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{30}, train.size() - 65 - 300 * 4,
                               train.size() - 700, train.size() - 65, train.size() - 1}) {
    INFO("bits at " << at);
    std::string flipped = train;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x41);
    check(flipped, test);
  }
}
