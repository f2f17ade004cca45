// Trained models as files: their content, and a reader for files of unknown origin.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/model/safetensors.hpp"
#include "privgrad/network.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

struct SavedComponent {
  std::string name;  ///< Full, "privgrad.standardize:standardize".
  Value params;      ///< An object with every default filled in.
};

struct SavedTransform {
  SavedComponent component;
  FittedTransform fitted;
};

/// A trained model, from raw examples to outputs, as read from its file. Nothing in it is executed
/// here; see model_use.hpp.
struct ModelFile {
  std::map<std::string, std::string> metadata;  ///< All metadata, unchanged.
  ExampleShape input;                           ///< The shape of raw examples.
  /// The names of the classes, each on one line and only for display; empty if targets are reals.
  std::vector<std::string> classes;
  /// The names of the features of raw examples, each on one line and only for display; empty if the
  /// features have no names.
  std::vector<std::string> features;
  /// The data source, with parameters for reading the same features and classes from other files
  /// (DataInfo::reading).
  std::optional<SavedComponent> data;
  std::vector<SavedTransform> preprocessing;
  SavedComponent model, backend;
  Network network;
  std::vector<float> parameters;  ///< Finite; in the order of parameter_blocks(network).
};

/// Returns a model's class names: the given names, or "0", "1", ...; empty for real targets.
std::vector<std::string> class_names(const ExampleShape& shape,
                                     const std::vector<std::string>& given);

/// Reads a model of unknown origin. Checks that its parts are consistent, that it has each tensor
/// of the network, with the right shape, and otherwise only tensors of its transforms, and that all
/// numbers are finite.
/// \param name  the name of the file, for errors.
/// \throws IoError "NAME: the error"; also for a file of a different version or program.
ModelFile parse_model_file(std::string_view bytes, const std::string& name);

/// \throws IoError as parse_model_file(), and if the file cannot be read.
ModelFile read_model_file(const std::filesystem::path& file);

/// Checks that there is each tensor of the network (F32), and otherwise only fitted values (F64) of
/// this number of transforms.
/// \throws IoError, without the file's name, if not.
void check_tensors(const TensorHeader& header, const Network& network, std::size_t transforms);

}  // namespace privgrad::core
