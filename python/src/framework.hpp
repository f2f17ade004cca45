// The functions behind the Python package: plan, run, audit, predict and the other calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/api/accounting.hpp"
#include "privgrad/api/noise_error.hpp"
#include "privgrad/federated/remote_clients.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/train/run.hpp"

namespace privgrad::python {

/// A manifest as passed from Python.
struct ManifestText {
  bool is_file = false;
  std::string text;                    ///< The path of the file, or its text.
  std::string name;                    ///< The name of a text in errors.
  std::vector<std::string> overrides;  ///< Overrides of the form KEY=VALUE.
};

/// Receives progress reports of a run, as JSON.
using Listener = std::function<void(const std::string&)>;

/// The stop flag and the listener of a long call.
struct Watch {
  const std::atomic<bool>* stop = nullptr;
  Listener listener;
};

class Keeping;

struct RunCall {
  std::optional<ManifestText> manifest;  ///< The manifest; if absent, resumes `directory`.
  std::optional<std::filesystem::path> directory;
  std::optional<std::filesystem::path> state;  ///< If absent: the user's own folder; empty: none.
  std::optional<std::filesystem::path> locked;
  std::optional<std::string> cache;  ///< The cache, as in Keeping.
  int threads = 0;                   ///< The number of threads; 0: all.
  bool finish = false;
  bool alone = false;  ///< Use one process, whatever the manifest's key `cluster` says.
};

struct AuditCall {
  std::optional<ManifestText> manifest;  ///< The manifest; if absent, audits `directory`.
  std::string directory;
  std::optional<std::uint64_t> canaries, runs;
  std::optional<double> confidence;
  std::optional<std::string> neighbours;
  bool exposure = false;
  int threads = 0;  ///< The number of threads; 0: all.
};

struct StudyCall {
  bool is_file = false;
  std::string text;  ///< The path of the file, or its text.
  std::string name;  ///< The name of a text in errors.
  std::vector<std::string> overrides;
  std::optional<std::string> directory;  ///< If absent: studies/NAME.
  std::optional<std::string> cache;      ///< The cache, as in Keeping.
  /// The number of runs at a time; 0: as many as fit on the cores.
  int jobs = 0;
  int threads = 0;  ///< The threads per run; 0: the cores divided by the runs at a time.
  bool dry_run = false;
};

/// A model's predictions for rows.
struct PredictedRows {
  std::string json;  ///< "model", "split", "private", "classes", "remarks", "kept".
  std::size_t rows = 0, columns = 0;
  bool are_probabilities = false;
  std::vector<double> numbers;          ///< [rows, columns]; probabilities, or values.
  std::vector<std::int64_t> predicted;  ///< [rows], -1 for none; empty for a regression.
};

struct VerifyCall {
  std::string directory;
  std::optional<std::uint64_t> client;
  std::vector<std::string> client_dirs;
  bool data = false, audit = false, new_key = false;
  std::optional<std::string> opening, trusted, sign;
};

/// The arguments of a server whose clients are separate programs.
struct ServeCall {
  ManifestText manifest;
  std::string facts;  ///< The clients' facts, as in facts.json.
  std::optional<std::filesystem::path> directory;
  std::optional<std::filesystem::path> state;  ///< If absent: the user's own folder; empty: none.
  int threads = 0;                             ///< The number of threads; 0: all.
};

/// The loaded plugins, and the command's calls as functions: texts in, JSON out. Threads: calls may
/// overlap, except while plugins are loaded.
class Framework {
 public:
  /// \param program  the path of the command in the package.
  /// \throws ConfigError, PluginError
  Framework(const std::vector<std::string>& plugin_dirs, std::string program);

  /// \param accountant  if absent, the accountant with the best proof.
  std::string account(const std::optional<std::string>& accountant, const std::string& adjacency,
                      const std::string& event, std::optional<double> delta,
                      std::optional<double> epsilon) const;
  std::string calibrate(const std::optional<std::string>& accountant, const std::string& adjacency,
                        const api::CalibrationQuestion& question) const;
  /// \param manifests  one or two.
  std::string noise_error(const std::vector<ManifestText>& manifests,
                          const api::NoiseQuestion& question) const;
  std::string plugins() const;
  /// Returns the plugin files that have been refused so far; loads nothing.
  std::string refused() const;
  std::string describe(const std::string& component) const;
  std::string schema(bool of_studies) const;
  void validate(const ManifestText& manifest) const;
  /// \param cache  the folder, as in Keeping, in which streamed rows are stored.
  std::string plan(const ManifestText& manifest, const std::optional<std::string>& cache) const;
  /// Returns the resolved section data.
  std::string data_section(const ManifestText& manifest) const;
  /// Returns a section data with the declarations that its source suggests.
  std::string suggest(const std::string& section) const;
  /// Returns how a model's rows are read: the name of their source, and its parameters; "null" if
  /// the model does not say.
  std::string reading(const std::string& model) const;
  std::string run(const RunCall& call, const Watch& watch) const;
  std::string verify(const VerifyCall& call) const;
  std::string evaluate(const std::string& model, const std::optional<std::string>& data,
                       const std::optional<std::string>& split, int threads) const;
  /// \param keep  columns of the rows' table to copy to the result.
  PredictedRows predict(const std::string& model, const std::optional<std::string>& data,
                        const std::optional<std::string>& split, std::vector<std::string> keep,
                        int threads) const;
  std::string audit(const AuditCall& call, const Watch& watch) const;
  std::string ablate(const StudyCall& call, const Watch& watch) const;

  /// Returns the facts on which server and clients must agree (core::common_ground_of()).
  std::string common_ground(const ManifestText& manifest) const;
  /// Like run(), for a federated run.
  std::string serve(const ServeCall& call, core::RemoteClients& clients, const Watch& watch) const;

  const Catalog& catalog() const { return catalog_; }

  /// Loads a manifest for a process that may lack its data.
  core::Manifest load_without_data(const ManifestText& manifest) const;
  core::Manifest load_with_data(const ManifestText& manifest) const {
    return load(manifest, catalog());
  }

 private:
  std::string resumed(const RunCall& call, core::RunOptions options, const Keeping& keeping,
                      const Watch& watch) const;
  static std::string made(const core::Plan& plan, core::RunOptions options, const Watch& watch);
  core::Manifest load(const ManifestText& manifest, const Catalog& catalog) const;

  std::vector<std::filesystem::path> plugin_dirs_;
  std::filesystem::path program_;
  host::PluginHost host_;
  host::PluginHost with_prototypes_;  ///< The same plugins with a second catalog.
  Catalog catalog_;                   ///< The loaded plugins and the Python prototypes.
};

}  // namespace privgrad::python
