// Verifies a run, and edits its files, for tests of verification.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/verify/verify.hpp"
#include "train.hpp"

/// Common code of the tests of verification.
namespace verify {

using namespace privgrad;
namespace fs = std::filesystem;
using Json = nlohmann::json;

inline core::Verification check(const fs::path& directory) {
  return core::verify_run(core::RecordDirectory(directory), house());
}

inline std::string all_of(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text + "\n";
  return all;
}

inline std::string problems_of(const Experiment& experiment) {
  return all_of(check(experiment.run_dir()).problems);
}

inline std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  const std::string text = read_file(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

inline void write_lines(const fs::path& file, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  write_file(file, text);
}

/// Returns the files of a run, including its subfolders.
inline std::vector<std::string> files_of(const fs::path& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), directory).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Writes changed ledger lines with a valid chain, as anyone with this program
/// could.
inline void write_chain(const fs::path& file, const std::vector<Json>& lines) {
  std::string text, previous;
  std::uint64_t number = 0;
  for (Json line : lines) {
    line.erase("hash");
    line["line"] = ++number;
    line["previous"] = previous;
    std::string sealed = line.dump();
    previous = core::sha256_hex(sealed);
    sealed.pop_back();
    text += sealed + ",\"hash\":\"" + previous + "\"}\n";
  }
  write_file(file, text);
}

inline std::vector<Json> json_lines(const fs::path& file) {
  std::vector<Json> lines;
  for (const std::string& line : lines_of(file)) lines.push_back(Json::parse(line));
  return lines;
}

inline constexpr const char* kCentral = R"(privgrad: 1
name: central
seed: 1
data: {kind: synthetic, rows: 200, test_rows: 40, dimensions: 5}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.1}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 20
)";

inline constexpr const char* kFederated = R"(privgrad: 1
name: federated
seed: 1
data: {kind: synthetic, rows: 400, test_rows: 100, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 6, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 20
federated: {clients: 3, rounds: 5, local_iterations: 3}
)";

inline constexpr const char* kCorrelated = R"(privgrad: 1
name: tree
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 5}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 7}
aggregator: {kind: tree, momentum: 0.9}
optimizer: {kind: sgd}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 100
)";

inline constexpr const char* kAdaptive = R"(privgrad: 1
name: adaptive
seed: 1
data: {kind: synthetic, rows: 400, size: 400, test_rows: 100, dimensions: 5, test_is_public: true}
model: {kind: linear}
sampler: full_batch
optimizer: {kind: sgd}
schedules:
  noise_multiplier: {kind: descent_check, initial: 20, every: 5, raise: 0.5, loss_bound: 2, check_noise_multiplier: 30}
  clip_norm: 1.0
  learning_rate: 0.5
privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 40
)";

}  // namespace verify
