#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../files/feature_fill.hpp"
#include "../files/target_task.hpp"
#include "h5_array.hpp"
#include "privgrad/data_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/foreseen_info.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/streamed_rows.hpp"

namespace {

namespace param = privgrad::param;
using privgrad::DataInfo;
using privgrad::Dataset;
using privgrad::Shape;
using privgrad::Split;

constexpr std::uint64_t kMostInMemory = std::uint64_t{1} << 33;

/// Where the rows of a split lie.
struct Place {
  std::filesystem::path file;
  std::string features, targets;
};

Place place_of(const privgrad::Params& params) {
  return {params.path("file"), params.text("features"), params.text("targets")};
}

/// One split, as far as info() needs it.
struct Outline {
  Shape features;              ///< The shape of one example.
  std::vector<float> targets;  ///< [rows].
  std::size_t filled = 0;      ///< How many targets did not fit, and count as target_fill.
  bool are_reals = false;      ///< Whether features can be NaN or infinite.
};

privgrad::RowOrigin origin(const std::filesystem::path& file, const H5Array& array) {
  return {privgrad::file_identity(file), file.string(), array.place()};
}

class Hdf5 final : public privgrad::DataSource,
                   public privgrad::DataFiles,
                   public privgrad::ForeseesInfo,
                   public privgrad::StreamedRows {
 public:
  explicit Hdf5(const privgrad::Params& params)
      : train_(place_of(params.object("train"))), task_("hdf5", params), fill_("hdf5", params) {
    task_.take_fill("hdf5", params);
    if (params.has("test")) test_ = place_of(params.object("test"));
  }

  DataInfo info() override {
    load();
    DataInfo info = foreseen_info();
    info.shape = {train_outline_->features, task_.classes()};
    info.train_rows = train_outline_->targets.size();
    info.test_rows = test_outline_ ? test_outline_->targets.size() : 0;
    const auto add_remark = [&](const Place& place, const Outline& outline) {
      std::string remark = TargetTask::remark(place.file.string() + ": " + place.targets,
                                              outline.filled, outline.targets.size());
      if (!remark.empty()) info.remarks.push_back(std::move(remark));
    };
    add_remark(train_, *train_outline_);
    if (test_) add_remark(*test_, *test_outline_);
    return info;
  }

  /// By the types of the data sets.
  DataInfo foreseen_info() override {
    DataInfo info{.shape = {},
                  .unaccounted = task_.unaccounted_of_fit(),
                  .has_test_split = test_.has_value()};
    bool are_reals = false;
    const auto origins = [&](const Place& place) {
      const H5Array features(place.file, place.features), targets(place.file, place.targets);
      are_reals = are_reals || features.is_real();
      return std::vector{origin(place.file, features), origin(place.file, targets)};
    };
    info.train_origins = origins(train_);
    if (test_) info.test_origins = origins(*test_);
    fill_.add_unaccounted(are_reals, info.unaccounted);
    return info;
  }

  Dataset read(Split split) override {
    load();
    if (split == Split::train) return read(train_, *train_outline_);
    if (test_) return read(*test_, *test_outline_);
    return Dataset(info().shape, std::vector<float>{}, {});
  }

  std::vector<std::filesystem::path> files() override {
    std::vector<std::filesystem::path> all = {train_.file};
    if (test_ && test_->file != train_.file) all.push_back(test_->file);
    return all;
  }

  DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take) override {
    load();
    const auto rows_of = [](const Outline& one) { return static_cast<double>(one.targets.size()); };
    const double all = rows_of(*train_outline_) + (test_ ? rows_of(*test_outline_) : 0.0);
    hand_on(Split::train, train_, *train_outline_, 0.0, all, take);
    if (test_) hand_on(Split::test, *test_, *test_outline_, rows_of(*train_outline_), all, take);
    return info();
  }

 private:
  /// Reads shapes and targets, once.
  void load() {
    if (train_outline_) return;
    Outline train = outline_of(train_);
    if (const std::string wrong = task_.learn(train.targets); !wrong.empty())
      throw privgrad::IoError(train_.file.string() + ": " + train_.targets + ": " + wrong);
    if (test_) {
      Outline test = outline_of(*test_);
      if (test.features != train.features) {
        throw privgrad::IoError(
            test_->file.string() + ": holds examples of " + privgrad::to_text(test.features) +
            ", expected " + privgrad::to_text(train.features) + " as in " + train_.file.string());
      }
      test_outline_ = std::move(test);
    }
    train_outline_ = std::move(train);
  }

  static Shape example_of(const H5Array& features) {
    if (features.shape().size() < 2) {
      features.fail("has the shape (" + privgrad::to_text(features.shape()) +
                    "), expected features of shape (rows x extents...)");
    }
    return {features.shape().begin() + 1, features.shape().end()};
  }

  Outline outline_of(const Place& place) const {
    const H5Array features(place.file, place.features);
    const H5Array targets(place.file, place.targets);
    Outline outline;
    outline.features = example_of(features);
    outline.are_reals = features.is_real();
    if (targets.row_size() != 1) {
      targets.fail("has the shape (" + privgrad::to_text(targets.shape()) +
                   "), expected targets of shape (rows)");
    }
    if (features.rows() != targets.rows()) {
      features.fail("has " + std::to_string(features.rows()) + " examples, but '" + place.targets +
                    "' has " + std::to_string(targets.rows()) + " targets");
    }
    targets.any_reals(0, targets.rows(), outline.targets);
    if (const auto row = task_.fit(outline.targets, outline.filled)) {
      targets.fail("has in row " + std::to_string(*row) + " another thing than " +
                   task_.expected() + "; target_fill says what such a row counts as");
    }
    return outline;
  }

  Dataset read(const Place& place, const Outline& outline) const {
    const H5Array features(place.file, place.features);
    check_unchanged(features, outline);
    if (features.rows() > kMostInMemory / features.row_size()) {
      features.fail("is oversized: more than " + std::to_string(kMostInMemory) +
                    " elements are not read into memory; say streaming: true");
    }
    const privgrad::ExampleShape example{outline.features, task_.classes()};
    if (features.is_bytes()) {
      std::vector<std::uint8_t> bytes;
      features.bytes(0, features.rows(), bytes);
      return Dataset(example, std::move(bytes), 1.0f, outline.targets);
    }
    std::vector<float> reals;
    read_reals(features, 0, features.rows(), reals);
    return Dataset(example, std::move(reals), outline.targets);
  }

  /// \param before, all  rows that come before these, and in all.
  void hand_on(Split split, const Place& place, const Outline& outline, double before, double all,
               const std::function<void(const privgrad::RowBlock&)>& take) const {
    const H5Array features(place.file, place.features);
    check_unchanged(features, outline);
    // Whole chunks: each is unpacked once.
    constexpr std::size_t kBlock = std::size_t{1} << 18;
    const std::size_t chunk = features.rows_of_chunk();
    const std::size_t most = std::max<std::size_t>(1, kBlock / features.row_size() / chunk) * chunk;
    std::vector<float> reals;
    std::vector<std::uint8_t> bytes;
    for (std::size_t first = 0; first < outline.targets.size(); first += most) {
      const std::size_t rows = std::min(most, outline.targets.size() - first);
      privgrad::RowBlock block{.split = split,
                               .features = {},
                               .scale = 1.0f,
                               .targets = std::span(outline.targets).subspan(first, rows),
                               .done = (before + static_cast<double>(first + rows)) / all};
      if (features.is_bytes()) {
        features.bytes(first, rows, bytes);
        block.features = std::span<const std::uint8_t>(bytes);
      } else {
        read_reals(features, first, rows, reals);
        block.features = std::span<const float>(reals);
      }
      take(block);
    }
  }

  /// \throws IoError  a feature is not finite, and nothing was declared for that.
  void read_reals(const H5Array& features, std::size_t first, std::size_t rows,
                  std::vector<float>& to) const {
    features.any_reals(first, rows, to);
    const auto bad = fill_.fit(to);
    if (!bad) return;
    features.fail("has in row " + std::to_string(first + *bad / features.row_size()) + " element " +
                  std::to_string(*bad % features.row_size()) +
                  ", which is not a finite number within float32" + FeatureFill::remedy());
  }

  static void check_unchanged(const H5Array& features, const Outline& outline) {
    if (features.rows() != outline.targets.size() || example_of(features) != outline.features ||
        features.is_real() != outline.are_reals)
      features.fail("has changed since its shape was read");
  }

  Place train_;
  std::optional<Place> test_;
  TargetTask task_;
  FeatureFill fill_;
  std::optional<Outline> train_outline_, test_outline_;
};

std::vector<privgrad::ParamSpec> place_params() {
  return {
      param::path("file", "An HDF5 file.").example("train.h5"),
      param::text(
          "features",
          "The data set [rows, extents...] of booleans, integers or reals in it; kept as float32, "
          "without scaling.")
          .defaults_to("/features"),
      param::text("targets", "The data set [rows] in it.").defaults_to("/targets")};
}

void register_components(privgrad::Registrar& registrar) {
  std::vector<privgrad::ParamSpec> params = {
      param::object("train", "Where the training examples are.", place_params()),
      param::object(
          "test",
          "Where the test examples are, which may be the same file; without it there is no "
          "test split.",
          place_params())
          .optional(),
  };
  for (auto& spec : TargetTask::params()) params.push_back(std::move(spec));
  params.push_back(TargetTask::fill_param());
  params.push_back(FeatureFill::param());
  registrar.add<privgrad::DataSource, Hdf5>({
      .name = "hdf5",
      .summary = "Features and targets from data sets of HDF5 files.",
      .reference = "HDF5 File Format Specification 3.0; the HDF5 library reads them",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.hdf5", "0.1.0", register_components)
