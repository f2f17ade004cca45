// Finds the files of a well-known data set by its name, in the user's folder or the cache.
#pragma once

#include <optional>
#include <string>

#include "../idx/idx_source.hpp"

/// The files of a data set, found by its name.
struct DatasetFiles {
  IdxFiles train;
  std::optional<IdxFiles> test;  ///< Nothing if the folder contains no test split.
};

/// Searches for the data set in PRIVGRAD_DATA_DIR/NAME, then in PRIVGRAD_DATA_DIR itself, then in
/// the cache that `privgrad data fetch` fills. The first place that contains one of its files is
/// used.
///
/// Files are named like MNIST's: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-... or
/// test-..., with or without .gz, optionally preceded by the data set's name and a dash. In
/// PRIVGRAD_DATA_DIR itself this prefix is required, unless the folder has that name: mnist and
/// fashion-mnist have files of the same names, and must not be mixed up.
///
/// \param hint  advice for the end of the error message if the data set is not found.
/// \throws IoError if the data set is not found, or lacks a file.
DatasetFiles find_dataset(const std::string& name, const std::string& hint);
