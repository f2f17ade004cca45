// Loads a trained model into a C++ program and predicts with it: the one header applications need.
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

/// A trained model, as a run left it, for programs that apply it:
///
///     const privgrad::LoadedModel model("runs/e2/model.safetensors");
///     const std::vector<double> probabilities = model.predict(features);
///
/// Plugins are found where the installed package has them, and as the command finds them
/// (PRIVGRAD_PLUGIN_PATH).
///
/// Privacy: the model was released; its prediction for a row is as private as the row.
/// Threads: calls on one model never overlap; each spreads its work over the threads it was given.
class PRIVGRAD_API LoadedModel {
 public:
  struct Options {
    std::vector<std::filesystem::path> plugin_directories = {};  ///< Looked through first.
    int threads = 1;  ///< > 0; every number gives the same result.
  };

  /// \throws IoError if the file cannot be read, or is no model; ConfigError if a plugin that it
  ///   needs is not there, or it cannot be applied; PluginError.
  explicit LoadedModel(const std::filesystem::path& file);
  LoadedModel(const std::filesystem::path& file, const Options& options);
  ~LoadedModel();
  LoadedModel(LoadedModel&&) noexcept;
  LoadedModel& operator=(LoadedModel&&) noexcept;

  /// The shape of a raw example.
  const ExampleShape& input() const noexcept;
  /// The names of the classes; none where values are predicted.
  const std::vector<std::string>& classes() const noexcept;
  /// The privacy statement of the run in one line, without its date.
  const std::string& statement() const;

  /// How many numbers predict() gives for an example: a probability of each class, or the outputs
  /// of a network whose loss makes no probabilities.
  std::size_t columns() const noexcept;

  /// \param features  float32, raw, [rows, input().features...], finite.
  /// \returns [rows, columns()]; NaN for rows that overflow on their way.
  /// \throws ConfigError if that is no whole number of rows; IoError if a feature is not finite.
  std::vector<double> predict(std::span<const float> features) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace privgrad
