#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../files/feature_fill.hpp"
#include "../files/target_task.hpp"
#include "npy_file.hpp"
#include "privgrad/data_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/foreseen_info.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/streamed_rows.hpp"

namespace {

using privgrad::ConfigError;
using privgrad::DataInfo;
using privgrad::Dataset;
using privgrad::IoError;
using privgrad::Shape;
using privgrad::Split;
namespace param = privgrad::param;

struct Files {
  std::filesystem::path features;
  std::filesystem::path targets;
  std::optional<std::string> features_array, targets_array;  ///< In .npz archives.
};

Files files_of(const privgrad::Params& params) {
  const auto name = [&](const char* key) {
    return params.has(key) ? std::optional(params.text(key)) : std::nullopt;
  };
  return {params.path("features"), params.path("targets"), name("features_array"),
          name("targets_array")};
}

/// One split, as far as info() needs it.
struct Outline {
  Shape features;              ///< The shape of one example.
  std::vector<float> targets;  ///< [rows].
  std::size_t filled = 0;      ///< How many targets did not fit, and count as target_fill.
  bool are_reals = false;      ///< Whether features can be NaN or infinite.
};

/// The array as the archive calls it, however the manifest spells that.
privgrad::RowOrigin origin(const std::filesystem::path& path, const NpyFile& array) {
  return {privgrad::file_identity(path), path.string(), array.member()};
}

class Npy final : public privgrad::DataSource,
                  public privgrad::DataFiles,
                  public privgrad::ForeseesInfo,
                  public privgrad::StreamedRows {
 public:
  explicit Npy(const privgrad::Params& params)
      : train_(files_of(params.object("train"))), task_("npy", params), fill_("npy", params) {
    task_.take_fill("npy", params);
    if (params.has("test")) test_ = files_of(params.object("test"));
  }

  DataInfo info() override {
    load();
    DataInfo info = foreseen_info();
    info.shape = {train_outline_->features, task_.classes()};
    info.train_rows = train_outline_->targets.size();
    info.test_rows = test_outline_ ? test_outline_->targets.size() : 0;
    const auto add_remark = [&](const Files& files, const Outline& outline) {
      std::string remark =
          TargetTask::remark(files.targets.string(), outline.filled, outline.targets.size());
      if (!remark.empty()) info.remarks.push_back(std::move(remark));
    };
    add_remark(train_, *train_outline_);
    if (test_) add_remark(*test_, *test_outline_);
    return info;
  }

  /// By the headers of the files.
  DataInfo foreseen_info() override {
    DataInfo info{.shape = {},
                  .unaccounted = task_.unaccounted_of_fit(),
                  .has_test_split = test_.has_value()};
    bool are_reals = false;
    const auto origins = [&](const Files& files) {
      constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
      const NpyFile features(files.features, files.features_array, kAny);
      const NpyFile targets(files.targets, files.targets_array, kAny);
      are_reals = are_reals || features.is_real();
      return std::vector{origin(files.features, features), origin(files.targets, targets)};
    };
    info.train_origins = origins(train_);
    if (test_) info.test_origins = origins(*test_);
    fill_.add_unaccounted(are_reals, info.unaccounted);
    return info;
  }

  std::vector<std::filesystem::path> files() override {
    std::vector<std::filesystem::path> all = {train_.features, train_.targets};
    if (test_) all.insert(all.end(), {test_->features, test_->targets});
    return all;
  }

  DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take) override {
    most_bytes_ = std::numeric_limits<std::uint64_t>::max();
    load();
    const auto rows_of = [](const Outline& one) { return static_cast<double>(one.targets.size()); };
    const double all = rows_of(*train_outline_) + (test_ ? rows_of(*test_outline_) : 0.0);
    hand_on(Split::train, train_, *train_outline_, 0.0, all, take);
    if (test_) hand_on(Split::test, *test_, *test_outline_, rows_of(*train_outline_), all, take);
    return info();
  }

  Dataset read(Split split) override {
    load();
    if (split == Split::train) return read(train_, *train_outline_);
    if (test_) return read(*test_, *test_outline_);
    return Dataset(info().shape, std::vector<float>{}, {});
  }

 private:
  /// Reads the headers and targets, once.
  void load() {
    if (train_outline_) return;
    Outline train = outline_of(train_);
    if (const std::string wrong = task_.learn(train.targets); !wrong.empty()) {
      throw IoError(train_.targets.string() + ": " + wrong);
    }
    if (test_) {
      Outline test = outline_of(*test_);
      if (test.features != train.features) {
        throw IoError(test_->features.string() + ": holds examples of " +
                      privgrad::to_text(test.features) + ", expected " +
                      privgrad::to_text(train.features) + " as in " + train_.features.string());
      }
      test_outline_ = std::move(test);
    }
    train_outline_ = std::move(train);
  }

  Outline outline_of(const Files& files) const {
    const NpyFile features(files.features, files.features_array, most_bytes_);
    check_features(features);
    NpyFile targets(files.targets, files.targets_array);
    if (targets.shape().empty() ||
        privgrad::element_count(targets.shape()) != targets.shape().front()) {
      targets.fail("has the shape (" + shape_text(targets) + "), expected targets of shape (rows)");
    }
    if (features.shape().front() != targets.shape().front()) {
      features.fail("has " + std::to_string(features.shape().front()) + " examples, but " +
                    files.targets.string() + " has " + std::to_string(targets.shape().front()) +
                    " targets");
    }
    Outline outline;
    outline.features.assign(features.shape().begin() + 1, features.shape().end());
    outline.are_reals = features.is_real();
    targets.take_any_number();  // what does not fit is looked at next
    outline.targets = targets.reals();
    if (const auto row = task_.fit(outline.targets, outline.filled)) {
      targets.fail("target " + std::to_string(*row) + " is not " + task_.expected() +
                   "; target_fill says what such a row counts as");
    }
    return outline;
  }

  /// \param before, all  rows that come before these, and in all.
  void hand_on(Split split, const Files& files, const Outline& outline, double before, double all,
               const std::function<void(const privgrad::RowBlock&)>& take) const {
    NpyFile features(files.features, files.features_array, most_bytes_);
    check_unchanged(features, outline);
    if (fill_.is_declared()) features.take_any_number();
    if (!features.is_in_c_order()) {
      throw ConfigError(
          "npy: " + files.features.string() +
          ": is in Fortran order, so that no row is there before the last element is read, and "
          "cannot be streamed; save numpy.ascontiguousarray(...) of it, or leave streaming out");
    }
    const std::size_t width = privgrad::element_count(outline.features);
    constexpr std::size_t kBlock = std::size_t{1} << 18;  // elements
    const std::size_t most = std::max<std::size_t>(1, kBlock / width);
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
        bytes.clear();
        features.append_bytes(bytes, rows * width);
        block.features = std::span<const std::uint8_t>(bytes);
      } else {
        reals.clear();
        features.append_reals(reals, rows * width);
        fill_.fit(reals);
        block.features = std::span<const float>(reals);
      }
      take(block);
    }
  }

  static void check_unchanged(const NpyFile& features, const Outline& outline) {
    check_features(features);
    const Shape& shape = features.shape();
    if (shape.front() != outline.targets.size() ||
        !std::equal(outline.features.begin(), outline.features.end(), shape.begin() + 1,
                    shape.end()) ||
        features.is_real() != outline.are_reals) {
      features.fail("has changed since its header was read");
    }
  }

  Dataset read(const Files& files, const Outline& outline) const {
    NpyFile features(files.features, files.features_array);
    check_unchanged(features, outline);
    const privgrad::ExampleShape example{outline.features, task_.classes()};
    if (features.is_bytes()) {
      return Dataset(example, features.bytes(), 1.0f, outline.targets);
    }
    if (fill_.is_declared()) features.take_any_number();
    std::vector<float> reals = features.reals();
    fill_.fit(reals);
    return Dataset(example, std::move(reals), outline.targets);
  }

  static void check_features(const NpyFile& features) {
    if (features.shape().size() < 2) {
      features.fail("has the shape (" + shape_text(features) +
                    "), expected features of shape (rows x extents...)");
    }
  }

  static std::string shape_text(const NpyFile& file) {
    return file.shape().empty() ? "" : privgrad::to_text(file.shape());
  }

  Files train_;
  std::optional<Files> test_;
  TargetTask task_;
  FeatureFill fill_;
  std::optional<Outline> train_outline_;
  std::optional<Outline> test_outline_;
  std::uint64_t most_bytes_ = kMostFileBytes;  ///< For an array's elements.
};

std::vector<privgrad::ParamSpec> file_params() {
  return {
      param::path("features",
                  "Array file [rows, extents...] of booleans, integers or reals, of any width, "
                  "byte order and order of axes; kept as float32, without scaling.")
          .example("train-features.npy"),
      param::path("targets", "Array file [rows] of the same types.").example("train-targets.npy"),
      param::text("features_array",
                  "Which array it is, where features is a .npz archive of more than one.")
          .optional(),
      param::text("targets_array", "The same of targets, which may be the same archive.")
          .optional()};
}

void register_components(privgrad::Registrar& registrar) {
  std::vector<privgrad::ParamSpec> params = {
      param::object("train", "The training files.", file_params()),
      param::object("test", "The test files; without them there is no test split.", file_params())
          .optional(),
  };
  for (auto& spec : TargetTask::params()) params.push_back(std::move(spec));
  params.push_back(TargetTask::fill_param());
  params.push_back(FeatureFill::param());
  registrar.add<privgrad::DataSource, Npy>({
      .name = "npy",
      .summary = "Features and targets from NumPy array files (.npy, .npz).",
      .reference = "NEP 1, a simple file format for NumPy arrays; versions 1.0 to 3.0",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.npy", "0.1.0", register_components)
