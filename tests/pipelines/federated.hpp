// Manifests of federated runs, and readers for their clients' ledgers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "privgrad/trust/ledger_reader.hpp"
#include "train.hpp"

/// Common code of the tests of federated runs.
namespace federated {

using namespace privgrad;
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// DP-FedAvg by clients on two clusters; each test changes a line or two.
inline constexpr const char* kBase = R"(privgrad: 1
name: federated
seed: 1
data: {kind: synthetic, rows: 400, test_rows: 100, dimensions: 10, test_is_public: true}
model: {kind: linear}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 6, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 40
federated: {clients: 4, rounds: 10, local_iterations: 3}
)";

inline const std::string kAli = "federated.local_iterations={kind: ali_dpfl}";

inline std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> lines;
  const std::string text = read_file(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(Json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

/// Returns every ledger of the run, after checking it.
inline std::vector<core::LedgerContents> ledgers(const Experiment& experiment,
                                                 std::size_t clients) {
  std::vector<core::LedgerContents> all;
  for (std::size_t i = 0; i < clients; ++i) {
    all.push_back(core::read_ledger(experiment.run_dir() / "ledgers" /
                                    ("client-" + std::to_string(i) + ".jsonl")));
  }
  return all;
}

inline Json clients_of(const Experiment& experiment) {
  return Json::parse(read_file(experiment.run_dir() / "clients.json")).at("clients");
}

}  // namespace federated
