// Converts the CIFAR-10 archive, as published, into IDX files.
#pragma once

#include <atomic>
#include <filesystem>

#include "known_datasets.hpp"

namespace privgrad::tool {

/// The IDX files of one split.
struct SplitFiles {
  std::filesystem::path images, labels;
};

/// Reads the binary version of CIFAR-10, a gzip-compressed tar archive of five training batches and
/// one of test examples, and writes it as IDX files: images [examples, 32, 32, 3], channels last,
/// as the models expect them (the archive has a plane per channel), and labels [examples].
///
/// A batch is a sequence of records: a label, then height x width pixels of each channel. Names in
/// the archive never become file names: the function looks for the six batches and skips all other
/// files.
/// \returns false if it was stopped.
/// \throws IoError if the file is not such an archive or a write fails; the caller must remove the
///   files written so far.
bool convert_cifar10(const std::filesystem::path& archive, const KnownDataset& dataset,
                     const SplitFiles& train, const SplitFiles& test,
                     const std::atomic<bool>* stop);

}  // namespace privgrad::tool
