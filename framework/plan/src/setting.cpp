#include "privgrad/plan/setting.hpp"

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "frozen_features.hpp"
#include "privgrad/data/apply_transform.hpp"
#include "privgrad/data/breach.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/data/open_source.hpp"
#include "privgrad/data/sampled_source.hpp"
#include "privgrad/data/streamed_transforms.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/model/augmented_program.hpp"
#include "privgrad/model/lora.hpp"
#include "privgrad/model/trainable_layers.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/plan/before_reading.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/program_around.hpp"
#include "unaccounted.hpp"

namespace privgrad::core {
namespace {

std::optional<StatisticRequest> request_of(const ComponentUse& use, const Transform& transform,
                                           const ExampleShape& shape) {
  const auto* asks = dynamic_cast<const BoundedStatistic*>(&transform);
  std::optional<StatisticRequest> request;
  if (asks != nullptr) request = use.with_position([&] { return asks->request(shape); });
  const auto refuse = [&](const char* what) {
    throw PluginError(use.component->full_name() + ": broke its contract: " + what);
  };
  if (request.has_value() != (transform.statistic() == Statistic::released))
    refuse("its request for a release contradicts its statement about its numbers");
  if (request && !transform.is_restorable())
    refuse("what it learns from a released statistic cannot be kept (is_restorable() says no)");
  return request;
}

/// \returns the shape of the model's input examples.
ExampleShape plan_transforms(const std::vector<ComponentUse>& transforms, bool is_streamed,
                             Setting& setting) {
  ExampleShape shape = setting.info.shape;
  for (const ComponentUse& use : transforms) {
    const auto transform = use.make<Transform>();
    const ExampleShape before = shape;
    shape = use.with_position([&] {
      if (dynamic_cast<const Partition*>(transform.get()) != nullptr) {
        throw ConfigError(use.name() +
                          " shares examples out among clients and changes none; its place is "
                          "federated.partition");
      }
      return transform->output_shape(shape);
    });
    if (is_streamed) use.with_position([&] { check_streamable(use, *transform); });
    setting.statistics.push_back(transform->statistic());
    setting.requests.push_back(request_of(use, *transform, before));
    setting.by_row.push_back(transform->is_by_row());
    setting.has_costly_rows = setting.has_costly_rows || is_worth_keeping(*transform);
    setting.is_restorable.push_back(transform->is_restorable());
  }
  return shape;
}

/// Notes the program's abilities, which decide whether the proof covers the exact bits.
void look_at_program(const Manifest& manifest, Setting& setting) {
  if (manifest.noise_off) return;
  const std::unique_ptr<Executor> executor = make_executor(1);
  ComponentPtr<Backend> backend;
  // Uses weights of 1, because the class counts that determine the weights are not yet released.
  const std::vector<double> weights(
      manifest.largest_class_weight ? setting.network.input.classes : 0, 1.0);
  const auto program = compile_program(manifest, setting, backend, *executor, weights);
  const auto* clipping = ability_of<ExactClipping>(*program);
  setting.program = {.clipping = clipping != nullptr && !setting.scales_coordinates,
                     .rows = ability_of<ReproducibleRows>(*program) != nullptr};
  if (!setting.program.clipping) return;
  setting.pass.rows =
      manifest.microbatch_size > 0 ? manifest.microbatch_size : clipping->microbatch_rows();
  setting.pass.bytes = clipping->pass_bytes(setting.pass.rows);
}

std::uint64_t public_size(const Manifest& manifest, const DataInfo& info) {
  if (!size_is_public(manifest)) return declared_size(manifest).value_or(info.train_rows);
  const std::uint64_t size = manifest.dataset_size.value_or(info.train_rows);
  if (size != info.train_rows) {
    throw error_at(manifest, "data.size",
                   "is " + std::to_string(size) + ", but there are " +
                       std::to_string(info.train_rows) + " training examples; under " +
                       std::string(to_text(manifest.adjacency)) +
                       " the size is public and must be the real one");
  }
  return size;
}

}  // namespace

std::map<std::string, std::string> hashes_of_files(const Model& model) {
  std::map<std::string, std::string> hashes;
  for (const auto& [name, bytes] : model.files()) hashes[name] = sha256_hex(bytes);
  return hashes;
}

std::optional<std::uint64_t> declared_size(const Manifest& manifest) {
  if (manifest.dataset_size || !manifest.federated || manifest.federated->sizes.empty())
    return manifest.dataset_size;
  const std::vector<std::uint64_t>& sizes = manifest.federated->sizes;
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

PrivacyUnit unit_of(const std::optional<Federated>& federated) {
  const bool is_per_client = federated && federated->aggregation == Aggregation::dp_fed_avg;
  return is_per_client ? PrivacyUnit::client : PrivacyUnit::example;
}

bool size_is_public(const Manifest& manifest) {
  if (manifest.adjacency == Adjacency::add_or_remove_one) return false;
  return unit_of(manifest.federated) == PrivacyUnit::example ||
         manifest.adjacency == Adjacency::zero_out;
}

namespace {

void check_names(const ComponentUse& data, const DataInfo& info) {
  const auto check = [&](const std::vector<std::string>& names, std::size_t count,
                         const std::string& what) {
    if (names.empty() || names.size() == count) return;
    throw PluginError(data.component->full_name() + ": names " + std::to_string(names.size()) +
                      " " + what + ", and has " + std::to_string(count));
  };
  check(info.class_names, info.shape.classes, "classes");
  check(info.feature_names, element_count(info.shape.features), "features");
  try {
    value_to_json(info.reading).dump();
  } catch (const nlohmann::json::exception&) {
    throw PluginError(data.component->full_name() + ": its reading has a text that is not UTF-8");
  }
}

/// Fits the weights of the file to the model, and finds frozen layers and adapters.
/// \param weights  the file of model.weights; null if there is no file, or if it is not read.
void plan_weights(const Manifest& manifest, const TensorFile* weights, Setting& setting) {
  if (weights != nullptr) {
    setting.initial = std::make_shared<const InitialWeights>(
        fit_weights(manifest, setting.whole, setting.model->sources(setting.whole), *weights));
    setting.weights = setting.initial->facts;
  }
  if (setting.recorded) {
    setting.weights = setting.recorded->weights;
    if (setting.weights.has_value() != manifest.weights.has_value()) {
      throw error_at(manifest, "model.weights",
                     "and what the run recorded of its weights contradict each other");
    }
  }
  const std::vector<std::string> nothing;
  setting.frozen_layers =
      frozen_layers(manifest, setting.whole, setting.weights ? setting.weights->loaded : nothing);
  if (trains_in_part(manifest, setting.whole, setting.frozen_layers))
    setting.lora = lora_layout(manifest, setting.whole, setting.frozen_layers);
  if (setting.frozen_layers == 0) return;
  if (manifest.streaming) {
    throw error_at(manifest, "data.streaming",
                   "is true, but the outputs of frozen layers (model.train) are kept in memory; "
                   "leave one of the two out");
  }
  for (const ParameterBlock& block : parameter_blocks(setting.whole)) {
    if (block.node < setting.frozen_layers) setting.frozen_parameters += element_count(block.shape);
  }
  const auto executor = make_executor(1);
  // refuses layers that cannot be compiled
  static_cast<void>(compile_frozen_layers(manifest, setting, *executor));
}

/// Records the files that determine the network; for a repeated run, checks them.
void plan_model_files(const Manifest& manifest, Setting& setting) {
  setting.model_files = hashes_of_files(*setting.model);
  if (!setting.recorded || setting.recorded->model_files == setting.model_files) return;
  std::string names;
  for (const auto& [name, hash] : setting.model_files) {
    const auto recorded = setting.recorded->model_files.find(name);
    const bool is_same =
        recorded != setting.recorded->model_files.end() && recorded->second == hash;
    if (!is_same) names += (names.empty() ? "" : ", ") + name;
  }
  throw error_at(manifest, "model",
                 (names.empty() ? "its files are" : names + " is") + " not what the run has read");
}

/// Refuses augmentation if the examples are not images, or if the run does not support it.
void check_augmentation(const Manifest& manifest, const Setting& setting) {
  if (!manifest.augmentation) return;
  const auto refuse = [&](const std::string& what) {
    throw error_at(manifest, "augmentation", what);
  };
  const Shape& shape = setting.network.input.features;
  if (setting.frozen_layers > 0) {
    refuse(
        "alters images, but what enters the layers that are trained are outputs of frozen ones, "
        "which are computed once; train all layers");
  }
  if (shape.size() != 2 && shape.size() != 3) {
    refuse("alters images, [height, width] or [height, width, channels]; the model sees " +
           privgrad::to_text(shape));
  }
  if (manifest.federated && !supports(Engine::federated, Trait::augmentation))
    refuse("is for central runs");
}

/// \returns whether the clipping shifts and scales coordinates. Refuses such a clipping in
///   federated runs that do not support it.
bool scales_coordinates(const ComponentUse& clipping, const std::optional<Federated>& federated) {
  const auto scales = [](const ComponentUse& use) {
    const auto made = use.make<Clipping>();
    return dynamic_cast<const CoordinateScaling*>(made.get()) != nullptr;
  };
  const auto refuse_in = [&](const ComponentUse& use) {
    if (!scales(use)) return;
    use.with_position([&] {
      throw ConfigError(use.name() +
                        " scales the coordinates of gradients by what a run has released, and is "
                        "for central runs; use another clipping");
    });
  };
  if (!federated || supports(Engine::federated, Trait::coordinate_scaling)) return scales(clipping);
  refuse_in(clipping);
  if (federated->client_clipping.is_given()) refuse_in(federated->client_clipping);
  return false;
}

/// Sets everything that follows from the shape of the examples.
/// \param weights  the file of model.weights, or null.
void plan_model(const Manifest& manifest, const TensorFile* weights, Setting& setting) {
  if (element_count(setting.info.shape.features) == 0) {
    throw IoError(error_text(
        manifest, "data",
        "examples of " + privgrad::to_text(setting.info.shape.features) + " have no features"));
  }
  const ExampleShape shape =
      plan_transforms(manifest.transforms, manifest.streaming.has_value(), setting);
  setting.model = manifest.model.make<Model>();
  manifest.model.with_position([&] {
    setting.whole = setting.model->network(shape);
    check_network(setting.whole);
  });
  plan_model_files(manifest, setting);
  plan_weights(manifest, weights, setting);
  setting.network = last_part(setting.whole, setting.frozen_layers);
  if (setting.lora) {
    try {
      setting.network =
          network_with_adapters(setting.network, *setting.lora, network_before_training(setting));
      check_network(setting.network);
    } catch (const ConfigError& problem) {
      throw error_at(manifest, manifest.lora ? "model.lora" : "model.train",
                     std::string("makes no network: ") + problem.what());
    }
  }
  check_augmentation(manifest, setting);
  setting.parameters = parameter_count(setting.network);
  setting.groups = parameter_groups(setting.network);
  setting.scales_coordinates = scales_coordinates(manifest.clipping, manifest.federated);
  look_at_program(manifest, setting);
}

bool overlap(const RowOrigin& a, const RowOrigin& b) {
  return a.file == b.file && a.part == b.part && a.first < b.end && b.first < a.end;
}

/// Refuses test rows that are declared public but are training rows, judged by the origin of rows.
/// The content of rows is not compared: a refusal because two rows are equal would reveal whether
/// someone's row is in the data.
void check_public_rows(const Manifest& manifest, const DataInfo& info) {
  if (!manifest.test_is_public) return;
  for (const RowOrigin& test : info.test_origins) {
    for (const RowOrigin& train : info.train_origins) {
      if (!overlap(test, train)) continue;
      throw privacy_error_at(manifest, "data.test_is_public",
                             "says that test rows are public, but they are training rows, which "
                             "are private: " +
                                 test.name + (test.name == train.name ? "" : " is " + train.name) +
                                 "; name other test rows, or leave test_is_public out");
    }
  }
}

}  // namespace

namespace {

/// The facts that the source reports about its rows before it reads any.
DataInfo foreseen_info(const Manifest& manifest, const ComponentUse& data) {
  DataInfo foreseen = data.with_position([&] {
    const auto source = data.make<DataSource>();
    return source->foreseen_info().value_or(DataInfo{});
  });
  for (std::string& fact : foreseen.unaccounted) fact = shown_line(fact);
  check_public_rows(manifest, foreseen);
  return foreseen;
}

void require_targets(const Manifest& manifest, const Setting& setting) {
  if (setting.info.has_targets || setting.network.loss == Loss::next_token) return;
  throw ConfigError(error_text(manifest, "data",
                               "its rows have no targets, so they can only be predicted; name the "
                               "targets to train on"));
}

/// In release mode, or with data.test_is_public, makes the part of a setting that is known before a
/// row is read, and throws all errors that depend only on this part. In other runs, only notes
/// facts about the weights.
/// \param weights  the file of model.weights, or null.
void foresee(const Manifest& manifest, const TensorFile* weights, Setting& setting) {
  if (weights != nullptr) setting.weights = facts_of(*weights);
  if (manifest.mode != Mode::release && !manifest.test_is_public) return;
  setting.info = foreseen_info(manifest, manifest.data);
  if (!setting.info.shape.features.empty()) {
    plan_model(manifest, weights, setting);
    require_targets(manifest, setting);
  }
  refuse_foreseen(manifest, setting);
}

/// Checks that the rows have the shape for which the model was planned.
void check_foreseen_shape(const ComponentUse& data, const ExampleShape& foreseen,
                          const ExampleShape& shape) {
  if (foreseen.features == shape.features && foreseen.classes == shape.classes) return;
  throw PluginError(data.component->full_name() +
                    ": broke its contract: it foresaw examples of another shape than it has");
}

void check_rows(const Manifest& manifest, Setting& setting) {
  // If the number of rows is private, and declared or released, no error may reveal that it is 0.
  if (setting.info.train_rows == 0 && (size_is_public(manifest) || !declared_size(manifest)))
    throw IoError(error_text(manifest, "data", "there are no training examples"));
  setting.dataset_size = public_size(manifest, setting.info);
}

}  // namespace

void refuse_before_reading(const Manifest& manifest, const ComponentUse& data) {
  if (manifest.mode != Mode::release && !manifest.test_is_public) return;
  Setting foreseen;
  foreseen.info = foreseen_info(manifest, data);
  refuse_foreseen(manifest, foreseen);
}

std::shared_ptr<Setting> make_setting(const Manifest& manifest) {
  std::optional<TensorFile> weights;
  if (manifest.weights) weights = read_safetensors_file(manifest.weights->file);
  auto setting = std::make_shared<Setting>();
  setting->plan_key = run_key(manifest.seed);
  foresee(manifest, weights ? &*weights : nullptr, *setting);
  const ExampleShape foreseen = setting->info.shape;
  setting->data = manifest.data.with_position([&] {
    auto source = open_source(manifest.data, manifest.streaming);
    if (!manifest.sample) return source;
    const auto& [rows, seed] = *manifest.sample;
    return sampled(std::move(source), rows, seed ? seed : manifest.seed);
  });
  setting->info = manifest.data.with_position([&] { return setting->data->info(); });
  // These texts appear in statements, pages and terminals; a source may have read them from a file.
  for (std::string& fact : setting->info.unaccounted) fact = shown_line(fact);
  for (std::string& name : setting->info.class_names) name = shown_line(name);
  for (std::string& name : setting->info.feature_names) name = shown_line(name);
  for (std::string& remark : setting->info.remarks) remark = shown_line(remark);
  check_names(manifest.data, setting->info);
  if (setting->info.test_rows > 0 && !setting->info.has_test_split) {
    throw PluginError(manifest.data.component->full_name() +
                      ": broke its contract: it has test rows without a test split");
  }
  check_public_rows(manifest, setting->info);
  check_rows(manifest, *setting);
  if (setting->model == nullptr) {
    plan_model(manifest, weights ? &*weights : nullptr, *setting);
  } else {
    check_foreseen_shape(manifest.data, foreseen, setting->info.shape);
  }
  require_targets(manifest, *setting);
  return setting;
}

std::shared_ptr<Setting> make_setting(const Manifest& manifest, const PublicFacts& recorded) {
  auto setting = std::make_shared<Setting>();
  // The facts contain only the public size; the actual numbers of examples may be private.
  setting->info = {.shape = recorded.shape,
                   .train_rows = recorded.dataset_size,
                   .test_rows = recorded.has_test_rows ? std::size_t{1} : std::size_t{0},
                   .unaccounted = recorded.unaccounted,
                   .first_rows_only = recorded.first_rows_only,
                   .rows_chosen_by_value = recorded.rows_chosen_by_value,
                   .class_names = recorded.class_names,
                   .feature_names = recorded.feature_names,
                   .reading = recorded.reading,
                   .has_test_split = recorded.has_test_rows};
  setting->recorded = recorded;
  if (recorded.scales)
    setting->kept = std::make_shared<KeptNumbers>(*recorded.scales, recorded.optimized);
  setting->plan_key = run_key(manifest.seed);
  check_rows(manifest, *setting);
  plan_model(manifest, nullptr, *setting);
  if (setting->dataset_size != recorded.dataset_size) {
    throw error_at(manifest, "data.size",
                   "is " + std::to_string(setting->dataset_size) + ", but the run recorded " +
                       std::to_string(recorded.dataset_size));
  }
  return setting;
}

std::unique_ptr<Program> compile_program(const Manifest& manifest, const Setting& setting,
                                         ComponentPtr<Backend>& backend, Executor& executor,
                                         const std::vector<double>& class_weights) {
  if (backend == nullptr) backend = manifest.backend.make<Backend>();
  std::unique_ptr<Program> program = manifest.backend.with_position([&] {
    if (class_weights.empty()) return backend->compile(setting.network, executor);
    Network weighted = setting.network;
    weighted.class_weights = class_weights;
    check_network(weighted);
    return backend->compile(weighted, executor);
  });
  const std::string who = manifest.backend.component->full_name();
  if (program == nullptr) throw PluginError(who + ": gave no program");
  const std::size_t parameters = parameter_count(setting.network);
  if (program->parameter_count() != parameters) {
    throw PluginError(who + ": its program has " + std::to_string(program->parameter_count()) +
                      " parameters, the model describes " + std::to_string(parameters));
  }
  if (!manifest.augmentation) return program;
  return std::make_unique<AugmentedProgram>(std::move(program), setting.network.input.features,
                                            *manifest.augmentation);
}

}  // namespace privgrad::core
