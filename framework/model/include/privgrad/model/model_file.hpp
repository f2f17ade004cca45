// Trained models as files: their content, and reading them even if anybody may have made them.
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

/// The version of the metadata of model files; it grows when a reader of the last version would
/// misunderstand the next.
inline constexpr std::string_view kModelFormat = "1";

/// A component as a model file names it.
struct SavedComponent {
  std::string name;  ///< Full, "privgrad.standardize:standardize".
  Value params;      ///< An object, every default filled in.
};

/// One transform of a model file, with the values that it has learnt.
struct SavedTransform {
  SavedComponent component;
  FittedTransform fitted;
};

/// A trained model, from raw examples to outputs, as read from its file. Nothing in it is executed
/// here: model_use.hpp does that.
struct ModelFile {
  std::map<std::string, std::string> metadata;  ///< All of it, unchanged.
  ExampleShape input;                           ///< The shape of raw examples.
  /// The names of the classes, each one line that is only shown; none where targets are reals.
  std::vector<std::string> classes;
  /// The names of the features of raw examples, likewise; none: they have no names.
  std::vector<std::string> features;
  /// The data source, with the parameters that make the same features and classes of other files
  /// (DataInfo::reading).
  std::optional<SavedComponent> data;
  std::vector<SavedTransform> preprocessing;
  SavedComponent model, backend;
  Network network;
  std::vector<float> parameters;  ///< Finite; laid out as parameter_blocks(network) says.
};

/// The names of a model's classes: those given, or "0", "1", ...; none for real targets.
std::vector<std::string> class_names(const ExampleShape& shape,
                                     const std::vector<std::string>& given);

/// Reads a model that anybody may have made. Checks that its parts fit together, that each tensor
/// is there once with the network's shape and finite numbers, and that there are no others.
/// \param name  of the file, for errors.
/// \throws IoError "NAME: the error"; also for a file of another version, and one that is not
///   PrivGrad's.
ModelFile parse_model_file(std::string_view bytes, const std::string& name);

/// \throws IoError as above, and if the file cannot be read.
ModelFile read_model_file(const std::filesystem::path& file);

/// The tensors that a model file of this network and these transforms has beside the fitted ones.
/// \throws IoError without the file's name if there are others, or of other shapes.
void check_tensors(const TensorHeader& header, const Network& network, std::size_t transforms);

}  // namespace privgrad::core
