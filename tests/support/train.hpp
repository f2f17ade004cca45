// Trains on a manifest in a temporary folder, for tests that examine a run's files.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/trust/ledger_reader.hpp"

using Overrides = std::vector<std::string>;

inline Overrides with(Overrides set, const Overrides& more) {
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

/// A manifest, with its plan and its run, in a temporary directory.
class Experiment {
 public:
  /// \param catalog  must outlive this object.
  explicit Experiment(const std::string& yaml, const std::vector<std::string>& overrides = {},
                      const privgrad::Catalog& catalog = house())
      : catalog_(catalog), overrides_(overrides) {
    write_file(dir_.path() / "manifest.yaml", yaml);
  }

  /// Returns the directory of the manifest, for data files.
  const std::filesystem::path& dir() const { return dir_.path(); }
  std::filesystem::path run_dir() const { return dir_.path() / "run"; }

  const privgrad::core::Plan& plan() {
    if (!plan_) {
      manifest_ = std::make_unique<privgrad::core::Manifest>(
          privgrad::core::load_manifest(dir_.path() / "manifest.yaml", overrides_, catalog_));
      plan_ = privgrad::core::make_plan(*manifest_);
    }
    return *plan_;
  }

  privgrad::core::RunResult run(int threads = 1) {
    return privgrad::core::run(
        plan(), {.directory = run_dir(), .lock = "", .threads = threads, .on_progress = {}});
  }

  privgrad::core::LedgerContents ledger() const {
    return privgrad::core::read_ledger(run_dir() / "ledger.jsonl");
  }

  /// Returns the model's parameters, including frozen ones, read from its file.
  std::vector<float> parameters() const {
    const std::string file = read_file(run_dir() / "model.safetensors");
    // In the file, the fitted transforms come first.
    std::vector<float> out(privgrad::parameter_count(plan_.value().setting->whole));
    std::memcpy(out.data(), file.data() + file.size() - out.size() * sizeof(float),
                out.size() * sizeof(float));
    return out;
  }

 private:
  TempDir dir_;
  const privgrad::Catalog& catalog_;
  std::vector<std::string> overrides_;
  std::unique_ptr<privgrad::core::Manifest> manifest_;
  std::optional<privgrad::core::Plan> plan_;
};
