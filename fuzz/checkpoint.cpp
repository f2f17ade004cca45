// The files from which an interrupted run is resumed, read as by `privgrad run --resume`. When the
// target starts, it makes and stops two small runs: one with a seed, and one whose keys are a
// chain. The first byte of an input chooses what is replaced, the second one the run ('0' or '1'):
//
//   e   bytes of the checkpoint's content: an offset (two bytes, the lower one first), a count (one
//       byte), and this many new bytes; repeated. The content is then
//   sealed: the hash is changed to match. c   the rest is the
//   checkpoint's content, which is sealed f   the rest is the
//   checkpoint's file, unchanged b   the rest is bindings.jsonl r   the
//   rest is resume.json
#include "privgrad/federated/any_run.hpp"
#include "privgrad/train/resumed_plan.hpp"

#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/fuzz.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"

namespace {
namespace fs = std::filesystem;
namespace core = privgrad::core;

constexpr const char* kOfSeed = R"(privgrad: 1
name: of-seed
seed: 1
data: {kind: synthetic, rows: 20, dimensions: 2}
model: linear
sampler: {kind: poisson, sample_rate: 0.5, amplification: false}
optimizer: {kind: momentum, beta: 0.9}
schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 30, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: zcdp}
steps: 4
evaluate_every: 1
output: random_iterate
checkpoint: {every_steps: 1}
)";

constexpr const char* kOfChain = R"(privgrad: 1
name: of-chain
data: {kind: synthetic, rows: 20, dimensions: 2}
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 30, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 4
evaluate_every: 1
ema_decay: 0.5
checkpoint: {every_steps: 1}
)";

constexpr std::string_view kMagic = "privgrad checkpoint 1\n";
constexpr std::size_t kNumberBytes = 8, kHashDigits = 64;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

core::RunOptions options_for(const fs::path& place) {
  return {.directory = place / "run",
          .lock = "",
          .threads = 1,
          .state = place / "state",
          .date = "2026-01-01",
          .on_progress = {}};
}

/// A run that was stopped after its second step.
struct Stopped {
  fs::path place;
  core::Manifest manifest;
  std::string newest;   ///< Name of its last checkpoint; the earlier one is removed.
  std::string head;     ///< The part of the checkpoint's file before the content.
  std::string content;  ///< The checkpoint's content.

  Stopped(const std::string& name, const char* yaml)
      : place(fuzz::scratch_folder() / name),
        manifest(core::parse_manifest(yaml, fuzz::scratch_folder() / (name + ".yaml"), {},
                                      fuzz::catalog())) {
    std::atomic<bool> stop{false};
    core::RunOptions options = options_for(place);
    options.stop = &stop;
    options.on_progress = [&](const core::Progress& progress) { stop = progress.step >= 2; };
    core::run(core::make_plan(manifest), options);
    std::string file;
    for (const char* slot : {"checkpoint-a", "checkpoint-b"}) {
      const std::string text = content_of(private_folder() / slot);
      if (file.empty() || text.substr(kMagic.size(), 1) > file.substr(kMagic.size(), 1)) {
        file = text;
        newest = slot;
      }
    }
    fs::remove(private_folder() / (newest == "checkpoint-a" ? "checkpoint-b" : "checkpoint-a"));
    head = file.substr(0, kMagic.size() + kNumberBytes);
    content = file.substr(head.size(), file.size() - head.size() - kHashDigits);
  }

  fs::path private_folder(const fs::path& where) const {
    for (const auto& entry : fs::directory_iterator(where / "state"))
      if (entry.path().filename().string().starts_with("run-")) return entry.path();
    return {};
  }
  fs::path private_folder() const { return private_folder(place); }

  std::string sealed(std::string_view some) const {
    const std::string text = head + std::string(some);
    return text + core::sha256_hex(text);
  }

  std::string edited(std::string_view edits) const {
    std::string text = content;
    while (edits.size() >= 3) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(edits[i]); };
      const std::size_t at = (byte(0) + 256u * byte(1)) % text.size();
      const std::size_t count =
          std::min({std::size_t{byte(2)}, edits.size() - 3, text.size() - at});
      text.replace(at, count, edits.substr(3, count));
      edits.remove_prefix(3 + count);
    }
    return text;
  }
};

}  // namespace

void read_input(std::string_view input) {
  static const Stopped runs[] = {{"of-seed", kOfSeed}, {"of-chain", kOfChain}};
  const char what = fuzz::take_choice(input);
  const Stopped& stopped = runs[fuzz::take_choice(input) == '1' ? 1 : 0];
  const fs::path place = fuzz::scratch_folder() / "resumed";
  fs::remove_all(place);
  fs::copy(stopped.place, place, fs::copy_options::recursive);
  const fs::path folder = stopped.private_folder(place);
  if (what == 'e') write(folder / stopped.newest, stopped.sealed(stopped.edited(input)));
  if (what == 'c') write(folder / stopped.newest, stopped.sealed(input));
  if (what == 'f') write(folder / stopped.newest, input);
  if (what == 'b') write(folder / "bindings.jsonl", input);
  if (what == 'r') write(place / "run" / core::kResumeFile, input);

  core::RunOptions options = options_for(place);
  options.resume = true;
  options.finish = true;
  core::check_resumable(options);
  const core::Plan plan =
      core::make_resumed_plan(stopped.manifest, options.directory, options.state);
  const core::RunResult result = core::run(plan, options);
  fuzz::require(result.steps <= plan.steps(), "no run makes more steps than were planned");
  fuzz::require(result.epsilon.value >= 0.0, "an epsilon is at least 0");
  fuzz::require(!core::can_be_resumed(options), "a run that was ended is over");
}
