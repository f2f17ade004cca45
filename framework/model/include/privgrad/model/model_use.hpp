// Applies a saved model to new examples: its transforms, its network, and its predictions.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/model.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/predictions.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// A saved model that can be applied: its transforms with their learnt values, and its network in
/// the backend that trained it.
///
/// Privacy: contains released values; its predictions for rows are as private as the rows. Threads:
/// calls on one model must not overlap.
class TrainedModel {
 public:
  /// \param name  the name of the file, for errors.
  /// \param executor  outlives the model.
  /// \throws ConfigError if a component is missing, or cannot apply the model (a transform that
  ///   does not disclose its learnt values, a program without outputs); IoError if the file's parts
  ///   are inconsistent; PluginError if the backend makes no program for the network.
  TrainedModel(ModelFile file, std::string name, const Catalog& catalog, Executor& executor);

  /// A transform with its learnt values restored, and the shapes of examples before and after it.
  struct Stage {
    ComponentPtr<Transform> transform;
    ExampleShape before, after;
  };

  const ModelFile& file() const noexcept { return file_; }
  /// The stages, in the order in which they are applied.
  const std::vector<Stage>& stages() const noexcept { return stages_; }

  /// \throws ConfigError for other features, for more classes, and for reals instead of classes or
  ///   the reverse.
  void check_examples(const ExampleShape& shape) const;

  /// \param raw  examples in the form of the model's data source.
  /// \param on_progress  receives the number of finished rows, on the calling thread; may be empty.
  /// \returns predictions with the same bits on any number of threads; a row whose computation
  ///   overflows has outputs that are not finite.
  /// \throws ConfigError as check_examples().
  Predictions predict(const Dataset& raw,
                      const std::function<void(std::size_t)>& on_progress = {}) const;

 private:
  void add_transform(const SavedTransform& saved, const Catalog& catalog, ExampleShape& shape);
  /// \param features  the features of some rows, [rows, ...]; replaced by the network's inputs.
  void apply_transforms(std::vector<float>& features, std::size_t rows) const;
  void make_program(const Catalog& catalog);

  ModelFile file_;
  std::string name_;
  Executor& executor_;
  std::vector<Stage> stages_;
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_;
  const Outputs* outputs_ = nullptr;
};

}  // namespace privgrad::core
