// Streamed rows (data.streaming): runs that are killed and resumed, and the use of a trained model,
// give the same results as with rows in memory.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kOnTable = R"(privgrad: 1
name: table
seed: 7
data:
  kind: csv
  train: table.csv
  target: label
  classes: 2
  target_fill: 0
  columns: [{name: "*", type: number, fill: 0}]
  split: {test: 0.25}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: sgd
schedules: {noise_multiplier: 3, clip_norm: 1, learning_rate: 0.1}
privacy: {target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 1500
evaluate_every: 20
checkpoint: {every_steps: 10}
)";

/// Rows that look random.
std::string rows_of_table() {
  std::string text = "a,b,c,label\n";
  std::uint32_t state = 1;
  for (int row = 0; row < 300; ++row) {
    for (int column = 0; column < 3; ++column) {
      state = state * 1664525u + 1013904223u;
      text += std::to_string(static_cast<int>(state >> 20) - 2048) + "e-3,";
    }
    text += (state >> 31) != 0 ? "1\n" : "0\n";
  }
  return text;
}

/// A folder with the table, and its own folder for stored rows.
struct OnTable {
  Cli cli;

  OnTable() {
    write_file(cli.dir() / "table.csv", rows_of_table());
    write_file(cli.dir() / "table.yaml", kOnTable);
  }

  Call prepare(const Words& words) const {
    Call what = cli.prepare(words);
    what.environment["XDG_CACHE_HOME"] = (cli.dir() / "home").string();
    return what;
  }
  Outcome operator()(const Words& words) const { return call(prepare(words)); }
  void succeed(const Words& words) const {
    const Outcome outcome = (*this)(words);
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.exit_code == 0);
  }

  /// Files with rows in all places where this program would store them.
  std::size_t files_of_rows() const {
    std::size_t count = 0;
    for (const fs::path& folder : {cli.dir() / "home", cli.dir() / "kept"}) {
      if (!fs::exists(folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(folder))
        count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  std::string predicted_by(const std::string& model, const std::string& more) const {
    succeed({"predict", model, "--data",
             "{kind: csv, train: table.csv, unlabelled: true" + more + "}", "--out", "p.csv",
             "--quiet"});
    return read_file(cli.dir() / "p.csv");
  }

  Json evaluated_by(const std::string& model, const std::string& more) const {
    const Outcome outcome = (*this)(
        {"evaluate", model, "--json", "--data", "{kind: csv, train: table.csv" + more + "}"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    Json json = Json::parse(outcome.out);
    json.erase("model");
    return json;
  }
};

}  // namespace

TEST_CASE("a run on streamed rows that is killed goes on, and comes to the model of rows in memory",
          "[resume]") {
  const Words keep = GENERATE(Words{}, Words{"--cache=kept"});
  const auto with = [&](Words words) {
    words.insert(words.end(), keep.begin(), keep.end());
    return words;
  };
  const OnTable on;
  on.succeed({"run", "table.yaml", "--out", "memory", "--quiet"});
  const fs::path metrics = on.cli.out("killed/metrics.jsonl");
  {
    Process process(on.prepare(
        with({"run", "table.yaml", "--set", "data.streaming=true", "--out", "killed", "--quiet"})));
    REQUIRE(Process::wait_for([&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; }));
    process.send(SIGKILL);
    CHECK(process.finish().signal == SIGKILL);
  }
  REQUIRE_FALSE(fs::exists(on.cli.out("killed/summary.json")));
  CHECK(on.files_of_rows() == (keep.empty() ? 0 : 1));

  // Rows other than the run's initial rows are refused, streamed or stored.
  std::string other = rows_of_table();
  other[other.size() - 2] = other[other.size() - 2] == '0' ? '1' : '0';
  write_file(on.cli.dir() / "table.csv", other);
  const Outcome refused = on(with({"run", "--resume", "killed", "--quiet"}));
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  write_file(on.cli.dir() / "table.csv", rows_of_table());

  on.succeed(with({"run", "--resume", "killed", "--quiet"}));
  CHECK(on.files_of_rows() == (keep.empty() ? 0 : 1));
  const std::string expected = on.predicted_by("memory", "");
  CHECK(on.predicted_by("killed", "") == expected);
  on.succeed({"verify", "killed"});
}

TEST_CASE("predict and evaluate stream rows, and answer as with rows in memory") {
  const OnTable on;
  on.succeed({"run", "table.yaml", "--set", "steps=40", "--out", "model", "--quiet"});
  const std::string expected = on.predicted_by("model", "");
  CHECK(line_count(expected) == 301);
  CHECK(on.predicted_by("model", ", streaming: true") == expected);
  CHECK(on.evaluated_by("model", ", streaming: true") == on.evaluated_by("model", ""));
  CHECK(on.files_of_rows() == 0);
}

TEST_CASE("kept rows that are damaged, or of another table, are read anew or refused",
          "[features][privacy]") {
  const OnTable on;
  on.succeed({"run", "table.yaml", "--set", "steps=20", "--out", "memory", "--quiet"});
  const std::string expected = read_file(on.cli.out("memory/metrics.jsonl"));
  const auto run = [&](const std::string& folder) {
    fs::remove_all(on.cli.out("streamed"));
    return on({"run", "table.yaml", "--set", "steps=20", "--set", "data.streaming=true",
               "--cache=" + folder, "--out", "streamed", "--quiet"});
  };
  const auto file_in = [&](const std::string& folder) {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(on.cli.dir() / folder))
      all.push_back(entry.path());
    REQUIRE(all.size() == 1);
    return all.front();
  };
  // Another table of the same size.
  std::string other = rows_of_table();
  other[other.size() - 2] = other[other.size() - 2] == '0' ? '1' : '0';
  write_file(on.cli.dir() / "table.csv", other);
  REQUIRE(run("others").exit_code == 0);
  REQUIRE(read_file(on.cli.out("streamed/metrics.jsonl")) != expected);
  write_file(on.cli.dir() / "table.csv", rows_of_table());
  // This comes last, because the table is now the file from which these rows were read.
  REQUIRE(run("kept").exit_code == 0);

  const fs::path file = file_in("kept");
  const std::string whole = read_file(file);
  const auto check = [&](const std::string& text) {
    write_file(file, text);
    const Outcome outcome = run("kept");
    INFO(outcome.err);
    if (outcome.exit_code != 0) return check_one_error_line(outcome, outcome.exit_code);
    CHECK(read_file(on.cli.out("streamed/metrics.jsonl")) == expected);
  };
  check(whole);
  check(read_file(file_in("others")));
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{100}, std::size_t{4096}, whole.size() / 2, whole.size() - 1}) {
    INFO("cut off at " << length);
    check(whole.substr(0, length));
  }
  for (std::size_t at = 3; at < whole.size(); at += whole.size() / 24) {
    INFO("bits at " << at);
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x41);
    check(flipped);
  }
}
