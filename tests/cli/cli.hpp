// Calls the command in its own folder, for tests of options, messages and exit codes.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "process.hpp"

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// A folder in which the program is called, with a small manifest of public synthetic data.
class Cli {
 public:
  Cli() { write_file(manifest(), kManifest); }

  std::filesystem::path dir() const { return dir_.path(); }
  std::filesystem::path manifest() const { return dir() / "small.yaml"; }
  /// Returns the user's folder for state, as the program finds it.
  std::filesystem::path state() const { return state_.path() / "privgrad"; }
  std::filesystem::path out(const std::string& name) const { return dir() / name; }

  /// Returns the call `privgrad WORDS...`, which the test may change before it is made.
  Call prepare(const Words& words) const {
    Call what{.words = {kProgram},
              .environment = {{"XDG_STATE_HOME", (state_.path()).string()}},
              .directory = dir()};
    what.words.insert(what.words.end(), words.begin(), words.end());
    return what;
  }
  Outcome operator()(const Words& words) const { return call(prepare(words)); }

  /// Runs privgrad COMMAND small.yaml MORE...
  Outcome on_manifest(const std::string& command, Words more = {}) const {
    more.insert(more.begin(), {command, "small.yaml"});
    return (*this)(more);
  }

  static constexpr const char* kManifest = R"(privgrad: 1
name: small
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules:
  noise_multiplier: {kind: uniform}
  clip_norm: 1
  learning_rate: 0.5
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 12
evaluate_every: 3
)";

 private:
  TempDir dir_, state_;
};

/// Returns the output of a successful call with --json.
inline Json printed_json(const Cli& cli, Words words) {
  words.emplace_back("--json");
  const Outcome outcome = cli(words);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

inline std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Checks for exactly one line on standard error, as for a failure, and an empty standard output.
inline void check_one_error_line(const Outcome& outcome, int exit_code) {
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out == "");
  CHECK(outcome.err.starts_with("privgrad: error: "));
  CHECK(line_count(outcome.err) == 1);
}
