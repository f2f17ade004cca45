#include "privgrad/model/model_use.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kBlockRows = 4096;  // the number of rows between two progress reports
constexpr std::size_t kTaskRows = 64;

/// Makes a component that a file names. Errors about its parameters name the file.
template <class Interface>
ComponentPtr<Interface> make_saved(const SavedComponent& saved, const std::string& where,
                                   const Catalog& catalog) {
  const Component& component = catalog.find<Interface>(saved.name);
  try {
    return Catalog::create<Interface>(
        component,
        Params::make(component.full_name(), component.factory.info.params, saved.params));
  } catch (const ConfigError& problem) {
    throw IoError(where + shown_line(problem.what()));
  }
}

}  // namespace

TrainedModel::TrainedModel(ModelFile file, std::string name, const Catalog& catalog,
                           Executor& executor)
    : file_(std::move(file)), name_(std::move(name)), executor_(executor) {
  ExampleShape shape = file_.input;
  for (const SavedTransform& saved : file_.preprocessing) add_transform(saved, catalog, shape);
  if (shape.features != file_.network.input.features ||
      shape.classes != file_.network.input.classes) {
    throw IoError(name_ + ": its preprocessing makes examples of " +
                  privgrad::to_text(shape.features) + ", its network takes " +
                  privgrad::to_text(file_.network.input.features));
  }
  make_program(catalog);
}

void TrainedModel::add_transform(const SavedTransform& saved, const Catalog& catalog,
                                 ExampleShape& shape) {
  if (!saved.fitted.is_known) {
    throw ConfigError(name_ + ": cannot be applied: its transform " + saved.component.name +
                      " does not disclose its learnt values (is_restorable() is false)");
  }
  const std::string where = name_ + ": its transform " + saved.component.name + ": ";
  Stage stage{make_saved<Transform>(saved.component, where, catalog), shape, {}};
  try {
    stage.after = stage.transform->output_shape(shape);
    if (!stage.transform->is_restorable())
      throw ConfigError("this version of the transform refuses the learnt values");
    stage.transform->restore(saved.fitted.values);
    // Tries a row of zeros first, to learn before reading the data whether all parts accept
    // examples of this shape.
    Dataset zero(shape, std::vector<float>(element_count(shape.features)), {0.0f});
    if (stage.transform->is_by_row()) {
      apply_to_each_row(*stage.transform, stage.after.features, zero, executor_);
    } else {
      stage.transform->apply(zero);
    }
    if (zero.shape().features != stage.after.features || zero.rows() != 1)
      throw ConfigError("its examples differ from its own description");
  } catch (const ConfigError& problem) {
    throw IoError(where + shown_line(problem.what()));
  }
  shape = stage.after;
  stages_.push_back(std::move(stage));
}

void TrainedModel::make_program(const Catalog& catalog) {
  const SavedComponent& maker = file_.backend;
  backend_ = make_saved<Backend>(maker, name_ + ": its backend: ", catalog);
  program_ = backend_->compile(file_.network, executor_);
  if (program_ == nullptr || program_->parameter_count() != file_.parameters.size())
    throw PluginError(maker.name + ": gave no program for the network of " + name_);
  outputs_ = ability_of<Outputs>(*program_);
  if (outputs_ == nullptr) {
    throw ConfigError(name_ + ": cannot be applied: " + maker.name +
                      " can train, but does not give outputs (its program is not an Outputs)");
  }
  program_->load_parameters(file_.parameters);
}

void TrainedModel::check_examples(const ExampleShape& shape) const {
  const bool are_classes = file_.input.classes > 0;
  if (shape.features != file_.input.features) {
    throw ConfigError("the examples have features of " + privgrad::to_text(shape.features) +
                      ", those of the model " + privgrad::to_text(file_.input.features));
  }
  if ((shape.classes > 0) != are_classes) {
    throw ConfigError(are_classes ? "the targets are reals, those of the model are classes"
                                  : "the targets are classes, those of the model are reals");
  }
  if (shape.classes > file_.input.classes) {
    throw ConfigError("the targets are of " + std::to_string(shape.classes) +
                      " classes, those of the model of " + std::to_string(file_.input.classes));
  }
}

Predictions TrainedModel::predict(const Dataset& raw,
                                  const std::function<void(std::size_t)>& on_progress) const {
  check_examples(raw.shape());
  Predictions result = Predictions::of_rows(file_.network, raw.rows());
  for (std::size_t first = 0; first < raw.rows(); first += kBlockRows) {
    std::vector<std::uint32_t> rows(std::min(kBlockRows, raw.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    std::vector<float> features(rows.size() * raw.row_size()), targets(rows.size());
    raw.gather(rows, features, targets);
    apply_transforms(features, rows.size());
    result.take_tokens(first, features, rows.size());
    outputs_of(
        *outputs_, features, rows.size(),
        std::span(result.values).subspan(first * result.outputs, rows.size() * result.outputs),
        executor_);
    if (on_progress) on_progress(first + rows.size());
  }
  return result;
}

void TrainedModel::apply_transforms(std::vector<float>& features, std::size_t rows) const {
  for (const Stage& stage : stages_) {
    const std::size_t before = element_count(stage.before.features);
    const std::size_t after = element_count(stage.after.features);
    if (stage.transform->is_by_row()) {
      std::vector<float> changed(rows * after);
      executor_.for_each_chunk((rows + kTaskRows - 1) / kTaskRows, [&](std::size_t task) {
        const std::size_t first = task * kTaskRows, count = std::min(kTaskRows, rows - first);
        stage.transform->apply_rows(
            stage.before.features, count,
            std::span<const float>(features).subspan(first * before, count * before),
            std::span(changed).subspan(first * after, count * after));
      });
      features = std::move(changed);
      continue;
    }
    Dataset block(stage.before, std::move(features), std::vector<float>(rows, 0.0f));
    stage.transform->apply(block);
    if (block.rows() != rows || block.shape().features != stage.after.features)
      throw PluginError(name_ + ": the examples of a transform differ from its own description");
    const auto made = block.features();
    features.assign(made.begin(), made.end());
  }
}

}  // namespace privgrad::core
