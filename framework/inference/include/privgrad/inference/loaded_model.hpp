// Loads a trained model into a C++ program and predicts with it: the only header that is needed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// A trained model from a run, for programs that apply it:
///
///     const privgrad::LoadedModel model("runs/e2/model.safetensors");
///     const std::vector<double> probabilities = model.predict(features);
///
/// Plugins are searched for in the installed package, and in the directories that the command
/// searches (PRIVGRAD_PLUGIN_PATH).
///
/// Privacy: the model was released; its prediction for a row is as private as the row. Threads:
/// calls on one model must not overlap; each call divides its work among `threads` threads.
class PRIVGRAD_API LoadedModel {
 public:
  struct Options {
    std::vector<std::filesystem::path> plugin_directories = {};  ///< Searched first.
    int threads = 1;  ///< > 0; the result does not depend on it.
  };

  /// \throws IoError if the file cannot be read, or does not contain a model; ConfigError if a
  ///   plugin is missing, or the model cannot be applied; PluginError if a plugin fails.
  explicit LoadedModel(const std::filesystem::path& file);
  LoadedModel(const std::filesystem::path& file, const Options& options);
  ~LoadedModel();
  LoadedModel(LoadedModel&&) noexcept;
  LoadedModel& operator=(LoadedModel&&) noexcept;

  /// The shape of a raw example.
  const ExampleShape& input() const noexcept;
  /// The names of the classes; empty if values are predicted.
  const std::vector<std::string>& classes() const noexcept;
  /// The privacy statement of the run in one line, without its date; "" if the file has none.
  const std::string& statement() const;

  /// The number of outputs of predict() per example: one probability per class or, if the loss does
  /// not define probabilities, the network's outputs.
  std::size_t columns() const noexcept;

  /// \param features  float32, raw, [rows, input().features...], finite.
  /// \returns [rows, columns()]; NaN for rows whose computation overflows.
  /// \throws ConfigError if the size is not a whole number of rows; IoError if a feature is not
  ///   finite.
  std::vector<double> predict(std::span<const float> features) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace privgrad
