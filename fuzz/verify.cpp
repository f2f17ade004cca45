// The record of a run, verified as by `privgrad verify`. An input describes the difference from the
// record of a small run, which is made when the target starts: either a whole file, or a text whose
// first occurrence in a file is replaced by another text.
//
//   ==== summary.json
//   {"status": "completed"}
//   ~~~~ manifest.yaml
//   steps: 3
//   steps: 4
//
// It is read unchanged and with sealed ledgers, so that a fuzzer gets past their hashes.
#include "privgrad/verify/verify.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "harness/fuzz.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/any_run.hpp"

namespace {
namespace fs = std::filesystem;

/// Files by name.
using Record = std::map<std::string, std::string, std::less<>>;

constexpr const char* kManifest = R"(privgrad: 1
name: small
seed: 1
data: {kind: synthetic, rows: 20, dimensions: 2}
model: linear
sampler: {kind: poisson, sample_rate: 0.5, amplification: false}
optimizer: sgd
schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 30, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: zcdp}
steps: 3
)";

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Record made_record() {
  const fs::path directory = fuzz::scratch_folder() / "made";
  const auto manifest = privgrad::core::parse_manifest(
      kManifest, fuzz::scratch_folder() / "manifest.yaml", {}, fuzz::catalog());
  privgrad::core::run(privgrad::core::make_plan(manifest),
                      {.directory = directory, .lock = "", .threads = 1, .on_progress = {}});
  Record record;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_regular_file())
      record[entry.path().filename().string()] = content_of(entry.path());
  }
  return record;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Returns the beginning of the next section.
std::size_t next_section(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at);
    if (line.starts_with("==== ") || line.starts_with("~~~~ ")) return at;
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
  return text.size();
}

void apply(std::string_view input, Record& record) {
  input.remove_prefix(next_section(input));
  while (!input.empty()) {
    const std::string_view head = take_line(input);
    std::string_view content = input.substr(0, next_section(input));
    input.remove_prefix(content.size());
    const auto file = record.find(head.substr(5));
    if (file == record.end()) continue;
    if (head.starts_with("==== ")) {
      file->second = content;
      continue;
    }
    const std::string_view from = take_line(content), to = take_line(content);
    const std::size_t at = file->second.find(from);
    if (at != std::string::npos) file->second.replace(at, from.size(), to);
  }
}

privgrad::core::Verification verified(const Record& record) {
  const fs::path directory = fuzz::scratch_folder() / "record";
  fs::remove_all(directory);
  for (const auto& [name, content] : record) fuzz::scratch_file("record/" + name, content);
  auto answer =
      privgrad::core::verify_run(privgrad::core::RecordDirectory(directory), fuzz::catalog());
  fuzz::require(!answer.epsilon || *answer.epsilon >= 0.0, "an epsilon is at least 0");
  fuzz::require(!answer.verified() || (answer.epsilon && answer.delta),
                "what is verified is a guarantee");
  return answer;
}

}  // namespace

void read_input(std::string_view input) {
  static const Record made = made_record();
  Record record = made;
  apply(input, record);
  const auto answer = verified(record);
  fuzz::require(record == made || !answer.verified(),
                "no file of a run is another one, and the run is verified");
  record["ledger.jsonl"] = fuzz::sealed_ledger(record["ledger.jsonl"]);
  verified(record);
  if (!answer.verified()) throw privgrad::IoError(answer.problems.front());
}
