// The catalogue of public data sets that `privgrad data fetch` can download.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"

namespace privgrad::tool {

/// A file to download.
struct DatasetFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;                  ///< 64 lower-case hex digits.
  std::vector<std::string> addresses;  ///< The addresses to try, in this order.
};

/// The conversion of downloads into files that the data source `dataset` reads.
enum class Unpack { nothing = 1, cifar10_binary };

/// A public data set that can be fetched.
struct KnownDataset {
  std::string name;
  std::string summary;
  std::uint64_t train_rows = 0;
  std::uint64_t test_rows = 0;
  Shape shape;
  std::uint64_t classes = 0;
  std::string licence;
  std::string source;  ///< Publisher and address.
  std::vector<DatasetFile> files;
  Unpack unpack = Unpack::nothing;

  std::uint64_t bytes() const;  ///< The total size of all downloads.
};

/// Returns the built-in data sets or, if the environment variable PRIVGRAD_DATASETS names a JSON
/// file of the same format, the data sets in that file.
/// \throws IoError if the file is empty or cannot be read; ConfigError with the file and the
///   mistake in it.
std::vector<KnownDataset> known_datasets();

/// \param source  the name of the text in errors.
/// \param local_http  whether addresses on this machine may use plain http.
/// \throws ConfigError with `source` and the mistake in the text.
std::vector<KnownDataset> datasets_from_json(std::string_view text, const std::string& source,
                                             bool local_http);

/// \throws ConfigError, with the nearest name or all names, if there is no such data set.
const KnownDataset& find_dataset(const std::vector<KnownDataset>& datasets,
                                 const std::string& name);

}  // namespace privgrad::tool
