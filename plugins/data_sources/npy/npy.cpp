#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../files/array_source.hpp"
#include "npy_file.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// The places of the arrays of a split.
class Files {
 public:
  explicit Files(const Params& params) : features_(params.path("features")) {
    if (params.has("targets")) targets_ = params.path("targets");
    if (params.has("features_array")) features_array_ = params.text("features_array");
    if (params.has("targets_array")) targets_array_ = params.text("targets_array");
  }

  NpyFile open_features(bool of_any_size) const {
    return {features_, features_array_,
            of_any_size ? std::numeric_limits<std::uint64_t>::max() : kMostFileBytes};
  }
  bool has_targets() const { return targets_.has_value(); }
  NpyFile open_targets() const { return {targets_.value(), targets_array_}; }

  /// Uses the names of arrays in the archive, even if the manifest spells them differently.
  std::vector<RowOrigin> origins_of(const NpyFile& features, const NpyFile* targets) const {
    std::vector<RowOrigin> all{{file_identity(features_), features_.string(), features.member()}};
    if (targets != nullptr)
      all.push_back({file_identity(*targets_), targets_->string(), targets->member()});
    return all;
  }

  std::string targets_name() const { return has_targets() ? targets_->string() : ""; }
  std::vector<std::filesystem::path> files() const {
    return has_targets() ? std::vector{features_, *targets_} : std::vector{features_};
  }

 private:
  std::filesystem::path features_;
  std::optional<std::filesystem::path> targets_;
  std::optional<std::string> features_array_, targets_array_;  ///< Names in .npz archives.
};

class Npy final : public ArraySource<Files, NpyFile> {
 public:
  explicit Npy(const Params& params) : ArraySource("npy", params) {}

  std::vector<std::filesystem::path> files() override {
    std::vector<std::filesystem::path> all = train().files();
    if (!test()) return all;
    for (std::filesystem::path& file : test()->files()) all.push_back(std::move(file));
    return all;
  }

 private:
  std::vector<float> targets_of(NpyFile& targets) const override {
    targets.take_any_number();
    return targets.reals();
  }

  Dataset read(const Files& files, const ArrayOutline& outline) const override {
    NpyFile features = files.open_features(false);
    check_unchanged(features, outline);
    const ExampleShape example{outline.features, task().classes()};
    if (features.is_bytes()) return Dataset(example, features.bytes(), 1.0f, outline.targets);
    if (fill().is_declared()) features.take_any_number();
    std::vector<float> reals = features.reals();
    fill().fit(reals);
    return Dataset(example, std::move(reals), outline.targets);
  }

  std::size_t begin_stream(NpyFile& features, std::size_t elements) const override {
    if (fill().is_declared()) features.take_any_number();
    if (!features.is_in_c_order()) {
      features.fail(
          "is in Fortran order, so that no row is there before the last element is read, and "
          "cannot be streamed; save numpy.ascontiguousarray(...) of it, or leave streaming out");
    }
    return std::max<std::size_t>(1, elements / element_count(example_of(features)));
  }

  void read_bytes(NpyFile& features, std::size_t, std::size_t rows,
                  std::vector<std::uint8_t>& to) const override {
    features.append_bytes(to, rows * element_count(example_of(features)));
  }

  void read_reals(NpyFile& features, std::size_t, std::size_t rows,
                  std::vector<float>& to) const override {
    features.append_reals(to, rows * element_count(example_of(features)));
    fill().fit(to);
  }
};

std::vector<ParamSpec> file_params() {
  return {param::path("features",
                      "Array file [rows, extents...] of booleans, integers or reals, of any width, "
                      "byte order and order of axes; kept as float32, without scaling.")
              .example("train-features.npy"),
          param::path(
              "targets",
              "Array file [rows] of the same types. Without it rows have no targets: they can be "
              "predicted, and trained on with the loss next_token.")
              .optional()
              .example("train-targets.npy"),
          param::text("features_array",
                      "Which array it is, where features is a .npz archive of more than one.")
              .optional(),
          param::text("targets_array", "The same of targets, which may be the same archive.")
              .optional()};
}

void register_components(Registrar& registrar) {
  registrar.add<DataSource, Npy>({
      .name = "npy",
      .summary = "Features and targets from NumPy array files (.npy, .npz).",
      .reference = "NEP 1, a simple file format for NumPy arrays; versions 1.0 to 3.0",
      .params = Npy::params(file_params()),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.npy", "0.1.0", "data_source/npy", register_components)
