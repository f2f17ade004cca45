#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../files/array_source.hpp"
#include "h5_array.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

constexpr std::uint64_t kMostInMemory = std::uint64_t{1} << 33;

/// Where a split's rows are.
class Place {
 public:
  explicit Place(const Params& params)
      : file_(params.path("file")),
        features_(params.text("features")),
        targets_(params.text("targets")) {}

  /// Opening does not read the data, so the size need not be limited.
  H5Array open_features(bool) const { return {file_, features_}; }
  static bool has_targets() { return true; }
  H5Array open_targets() const { return {file_, targets_}; }

  std::vector<RowOrigin> origins_of(const H5Array& features, const H5Array* targets) const {
    const std::string file = file_identity(file_);
    return {{file, file_.string(), features.place()}, {file, file_.string(), targets->place()}};
  }

  std::string targets_name() const { return file_.string() + ": " + targets_; }
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  std::string features_, targets_;
};

class Hdf5 final : public ArraySource<Place, H5Array> {
 public:
  explicit Hdf5(const Params& params) : ArraySource("hdf5", params) {}

  std::vector<std::filesystem::path> files() override {
    std::vector<std::filesystem::path> all = {train().file()};
    if (test() && test()->file() != all.front()) all.push_back(test()->file());
    return all;
  }

 private:
  std::vector<float> targets_of(H5Array& targets) const override {
    std::vector<float> all;
    targets.any_reals(0, targets.rows(), all);
    return all;
  }

  Dataset read(const Place& place, const ArrayOutline& outline) const override {
    H5Array features = place.open_features(false);
    check_unchanged(features, outline);
    if (features.rows() > kMostInMemory / features.row_size()) {
      features.fail("is oversized: more than " + std::to_string(kMostInMemory) +
                    " elements are not read into memory; say streaming: true");
    }
    const ExampleShape example{outline.features, task().classes()};
    if (features.is_bytes()) {
      std::vector<std::uint8_t> bytes;
      read_bytes(features, 0, features.rows(), bytes);
      return Dataset(example, std::move(bytes), 1.0f, outline.targets);
    }
    std::vector<float> reals;
    read_reals(features, 0, features.rows(), reals);
    return Dataset(example, std::move(reals), outline.targets);
  }

  /// Reads whole chunks, so that each is decompressed once.
  std::size_t begin_stream(H5Array& features, std::size_t elements) const override {
    const std::size_t chunk = features.rows_of_chunk();
    return std::max<std::size_t>(1, elements / features.row_size() / chunk) * chunk;
  }

  void read_bytes(H5Array& features, std::size_t first, std::size_t rows,
                  std::vector<std::uint8_t>& to) const override {
    features.bytes(first, rows, to);
  }

  void read_reals(H5Array& features, std::size_t first, std::size_t rows,
                  std::vector<float>& to) const override {
    features.any_reals(first, rows, to);
    const auto bad = fill().fit(to);
    if (!bad) return;
    features.fail("has in row " + std::to_string(first + *bad / features.row_size()) + " element " +
                  std::to_string(*bad % features.row_size()) +
                  ", which is not a finite number within float32" + FeatureFill::remedy());
  }
};

std::vector<ParamSpec> place_params() {
  return {
      param::path("file", "An HDF5 file.").example("train.h5"),
      param::text(
          "features",
          "The data set [rows, extents...] of booleans, integers or reals in it; kept as float32, "
          "without scaling.")
          .defaults_to("/features"),
      param::text("targets", "The data set [rows] in it.").defaults_to("/targets")};
}

void register_components(Registrar& registrar) {
  registrar.add<DataSource, Hdf5>({
      .name = "hdf5",
      .summary = "Features and targets from data sets of HDF5 files.",
      .reference = "HDF5 File Format Specification 3.0; the HDF5 library reads them",
      .params = Hdf5::params(place_params()),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.hdf5", "0.1.0", "data_source/hdf5", register_components)
