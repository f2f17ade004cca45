// The manifest of a run: its fields, and how to read, check and print one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/streaming.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/tensor_source.hpp"
#include "privgrad/trust/account_terms.hpp"

namespace privgrad::core {

/// The most planned steps, summed over all owners of data with separate plans: a plan needs some
/// 300 bytes per step, so at most 1.5 GB in total.
inline constexpr std::uint64_t kMostSteps = 5'000'000;

enum class Mode { research = 1, release };

/// Who adds the noise of a federated run: each client, or the server.
enum class Aggregation { fed_avg = 1, dp_fed_avg };

std::string_view to_text(Aggregation aggregation);

/// The kind of numbers with which a run computes sums and noise.
enum class Arithmetic {
  exact = 1,  ///< Whole numbers: the guarantee covers the exact bits that are released.
  floating,   ///< Floating-point numbers: the guarantee is about nearby real numbers.
};

/// The arithmetic's name in manifests: "exact", "float".
std::string_view to_text(Arithmetic arithmetic);

/// How the losses are estimated for an adaptive number of local iterations.
enum class EstimateMode { private_sums = 1, from_models, unaccounted };

std::string_view to_text(EstimateMode mode);

struct Federated {
  std::uint64_t clients = 0, rounds = 0;  ///< > 0.
  Aggregation aggregation = Aggregation::fed_avg;
  bool equal_weights = false;
  double client_drop_rate = 0.0, straggler_rate = 0.0;
  std::vector<std::uint64_t> sizes;  ///< Declared, public, > 0, one per client; empty: not given.
  bool shards_are_given = false;     ///< If so, neighbours differ in one client's shard only.
  bool label_histograms = true;
  EstimateMode estimates = EstimateMode::private_sums;
  double estimate_share = 0.0;
  std::optional<double> estimate_noise;
  double estimate_bound = 0.0;
  bool paced_by_largest = false;  ///< Whether adaptive local iterations divide the largest budget.
  double client_clip_norm = 0.0;  ///< From here to client_aggregator: only for dp_fed_avg.
  double server_learning_rate = 0.0;
  /// The least number of rounds between two rounds of a client; if absent, the charge is for the
  /// drawn participation.
  std::optional<std::uint64_t> min_separation;
  std::optional<std::uint64_t> max_participations;  ///< > 0; only with min_separation.
  ComponentUse client_clipping, server_optimizer;
  ComponentUse client_aggregator;  ///< For clients without noise; a manifest cannot choose it.
  ComponentUse partition, participation, local_iterations;
};

/// privacy.account: the account of the private data, which all runs on this data share.
struct AccountUse {
  std::filesystem::path file;  ///< Absolute.
  AccountTerms terms;
  std::string opened;   ///< The hash of the account's first line.
  ComponentUse filter;  ///< The accountant of the account's terms.
};

/// The section `augmentation`: the kinds of alterations, and the number of altered copies of each
/// example; a step uses the copies' mean gradient.
struct Augmentation {
  std::size_t copies = 1;  ///< > 0.
  bool flip = false, crop = false;
};

/// Maps tensors of the model to their sources in the file of weights; nothing: the model itself
/// initializes the tensor, whatever the file contains. TensorSource::block is empty.
using TensorNames = std::map<std::string, std::optional<TensorSource>>;

/// The initial weights of a model: model.weights.
struct WeightsUse {
  std::filesystem::path file;  ///< Absolute.
  /// Whether the manifest declares that the weights saw none of the run's private rows uncharged.
  bool is_public = false;
  TensorNames names;  ///< model.weights.map.
};

/// The section `checkpoint`: how often a run writes a state from which it can be resumed.
struct CheckpointWish {
  /// Whether the manifest has the section. If so, a failure to write is an error; otherwise the run
  /// continues.
  bool is_given = false;
  bool is_off = false;
  std::uint64_t every_steps = 0;  ///< 0: checkpoints are made by time.
  double every_seconds = 60.0;    ///< > 0.
};

/// Adapters of low rank for weights that stay fixed: model.lora.
struct Lora {
  std::size_t rank = 0;              ///< > 0.
  double alpha = 0.0;                ///< > 0; the adapters' output is multiplied by alpha / rank.
  std::vector<std::string> targets;  ///< Patterns.
};

/// report.train_accuracy: releases of the accuracy on the private training rows.
struct AccuracyReport {
  StatisticNoise noise;        ///< A share is for all releases together.
  std::uint64_t every = 0;     ///< Steps between two releases; 0: only the final model.
  std::uint64_t patience = 0;  ///< Releases without a new best value that end the run; 0: no limit.
};

/// data.sample: a part of the training rows, chosen by a public draw.
struct DataSample {
  std::uint64_t rows = 0;
  std::optional<std::uint64_t> seed;  ///< If absent: the run's seed.
};

/// A manifest that was checked against the loaded plugins. Nothing in it depends on data.
struct Manifest {
  std::string name;
  Mode mode = Mode::research;
  ComponentUse data;
  std::vector<ComponentUse> transforms;
  /// data.size: the declared, public number of training rows; if the number is released
  /// (size_noise), the public guess data.size.about.
  std::optional<std::uint64_t> dataset_size;
  /// data.size.statistic: private: the noise with which the number of training rows is released.
  std::optional<StatisticNoise> size_noise;
  bool test_is_public = false;       ///< data.test_is_public.
  std::optional<DataSample> sample;  ///< data.sample; if absent: all training rows are used.
  /// data.read_off_rows: facts that were derived from the rows before this run, each described in a
  /// few words.
  std::vector<std::string> read_off_rows;
  std::optional<Streaming> streaming;  ///< data.streaming; if absent: rows are in memory.
  ComponentUse model, backend, sampler, clipping, aggregator, optimizer;
  ComponentUse cluster;  ///< May be missing; not part of `resolved` or components_of().
  std::optional<WeightsUse> weights;          ///< model.weights.
  std::vector<std::string> train;             ///< model.train: patterns; empty: all layers.
  std::optional<Lora> lora;                   ///< model.lora; an empty `train` then means no layer.
  Arithmetic arithmetic = Arithmetic::exact;  ///< aggregator.arithmetic.
  ComponentUse clip_norm, learning_rate;      ///< schedules.*
  ComponentUse noise_multiplier, noise_std;   ///< schedules.*; exactly one is given.
  ComponentUse batch_size;                    ///< schedules.*; may be missing.
  std::optional<double> target_epsilon;
  double target_delta = 0.0;
  /// privacy.noise: off, for comparisons without privacy; research mode only.
  bool noise_off = false;
  bool scale_all_noise = false;  ///< privacy.calibrate: all.
  Adjacency adjacency = Adjacency::add_or_remove_one;
  ComponentUse accountant;            ///< The accountant that guards the budget.
  std::vector<ComponentUse> also;     ///< Other accountants to report.
  std::optional<AccountUse> account;  ///< privacy.account.
  std::function<void()> on_trial;  ///< Called before a plan tries a scale of noise; may be empty.
  std::uint64_t steps = 0;         ///< 0: auto, the plan chooses the number.
  bool steps_minimise_bound = false;  ///< Whether `utility` chose the number of steps.
  /// Whether the plan chooses the learning rate; if so, learning_rate has no component.
  bool auto_learning_rate = false;
  /// If given, the run is reproducible and must not be released.
  std::optional<std::uint64_t> seed;
  /// Steps, or rounds, between measurements for the progress line; 0: about 20 measurements, once
  /// the plan has chosen the number of steps.
  std::uint64_t evaluate_every = 0;
  /// Whether to measure the norm of the mean training loss's gradient; research mode only.
  bool gradient_norm = false;
  std::size_t microbatch_size = 0;  ///< Most examples in memory at once; 0: the backend decides.
  bool random_iterate = false;      ///< Keep the model before a random step, not the last model.
  std::optional<Augmentation> augmentation;       ///< If absent: examples are not altered.
  std::optional<AccuracyReport> report_accuracy;  ///< If absent: no accuracy is released.
  /// report.class_counts: the noise with which class counts are released; if absent: not released.
  std::optional<StatisticNoise> class_count_noise;
  /// report.class_counts.largest_weight, for model.class_weights: balanced; absent if the model has
  /// its own class weights, or none.
  std::optional<double> largest_class_weight;
  /// ema_decay: the decay of the moving average of the parameters, in (0, 1); if absent: no
  /// average.
  std::optional<double> ema_decay;
  bool keeps_average = false;          ///< Keep the moving average instead of the last model.
  std::optional<Federated> federated;  ///< If absent: a central run.

  CheckpointWish checkpoint;
  std::vector<std::string> allowed_plugins;  ///< allow.plugins: 64 lower-case hex digits each.
  bool allow_large_delta = false;            ///< allow.large_delta.

  Value resolved;  ///< The whole manifest with every default filled in and full component names.

  /// Returns the position of a dotted key ("FILE:LINE:COLUMN", or "--set KEY", or the file's name
  /// for a default).
  std::string position_of(std::string_view dotted_key) const;
  /// The positions of all given dotted keys; the key "" means the whole manifest.
  std::map<std::string, std::string, std::less<>> positions;
};

/// Returns "POSITION: error: KEY: WHAT", for a key of the manifest.
std::string error_text(const Manifest& manifest, std::string_view key, std::string_view what);
/// Make errors to throw: error_at() for mistakes in the manifest, privacy_error_at() for refusals
/// that protect privacy.
ManifestError error_at(const Manifest& manifest, std::string_view key, std::string_view what);
PrivacyError privacy_error_at(const Manifest& manifest, std::string_view key,
                              std::string_view what);

/// A change to a manifest that another file requests.
struct ManifestChange {
  std::string key;   ///< Dotted, as for `--set`.
  Value value;       ///< Replaces the whole node; null removes the key.
  std::string file;  ///< The name, for errors, of the file to which the value's marks refer.
};

/// Reads a manifest, applies `--set KEY=VALUE` overrides, and checks it against the catalog.
///
/// KEY is dotted, with indices into lists ("data.transforms.0.to"); missing nodes are created.
/// VALUE is YAML and replaces the whole node, so `optimizer=adam` removes the previous parameters.
/// `null` removes the key. Relative paths are looked up beside the manifest, then in
/// PRIVGRAD_DATA_DIR; paths in overrides are looked up in the working directory before both.
///
/// Reports all problems at once. The worst problem determines the type of the error, whose text has
/// a line "POSITION: error: ..." for each problem.
/// \throws ManifestError if the manifest is wrong.
/// \throws PrivacyError if the manifest is valid, but contains something that release mode refuses.
/// \throws IoError if the manifest, or a file that it names, is missing or cannot be read.
/// \param changes  applied after the overrides.
Manifest load_manifest(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog, const std::vector<ManifestChange>& changes = {});

/// Whether the files that a manifest names must exist.
enum class DataFiles {
  are_there = 1,
  may_be_missing,  ///< For a plan that is not run: paths remain as written.
};

/// Loads a manifest whose text is already in memory; `file` is its name in errors, and relative
/// paths are looked up beside it.
Manifest parse_manifest(std::string_view text, const std::filesystem::path& file,
                        const std::vector<std::string>& overrides, const Catalog& catalog,
                        DataFiles data_files = DataFiles::are_there);

/// Loads a manifest that was already parsed, as part of `file`.
Manifest check_manifest(Value root, const std::filesystem::path& file,
                        const std::vector<std::string>& overrides, const Catalog& catalog,
                        const std::vector<ManifestChange>& changes = {},
                        DataFiles data_files = DataFiles::are_there);

/// Returns the manifest's tree with `--set` overrides applied, but nothing checked.
/// \throws ManifestError if an override is malformed.
Value with_overrides(Value root, const std::vector<std::string>& overrides);

/// Reads the text of a manifest or a study, up to one byte more than the limit for YAML.
/// \throws IoError if the file cannot be read.
std::string read_yaml_file(const std::filesystem::path& file);

/// Returns the components that the manifest names, each with its place ("data.transforms.0").
std::vector<const ComponentUse*> components_of(const Manifest& manifest);

/// A plugin that contains a component of the manifest or its certifier.
struct UsedPlugin {
  std::shared_ptr<const PluginIdentity> plugin;
  const ComponentUse* use = nullptr;  ///< The first component that needs the plugin.
};
std::vector<UsedPlugin> plugins_of(const Manifest& manifest);

/// Whether a plugin without a record of being tested is accepted by its hash (allow.plugins).
bool is_allowed_by_hash(const std::vector<std::string>& allowed, const PluginIdentity& plugin);

/// Returns the hashes in allow.plugins that no plugin of the manifest has.
std::vector<std::string> allowed_for_nothing(const Manifest& manifest);

/// Returns why a run in release mode must not use a plugin, such as the plugin of --cluster;
/// nothing if the run may. Reading a manifest checks the plugins that it names.
std::optional<std::string> why_refused(const Manifest& manifest, const PluginIdentity& plugin);

/// Returns a value as YAML, in block style except for lists of scalars. Reading the text gives an
/// equal value, with reals exact to the last bit. Loading a resolved manifest from such a text
/// gives the same run.
/// \throws ConfigError if a text in the value is not UTF-8.
std::string to_yaml(const Value& value);

}  // namespace privgrad::core
