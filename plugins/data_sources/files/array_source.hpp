// Data sources whose rows are two arrays of numbers in files, features and targets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feature_fill.hpp"
#include "privgrad/data_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/streamed_rows.hpp"
#include "target_task.hpp"

/// The facts about one split that info() needs.
struct ArrayOutline {
  privgrad::Shape features;    ///< The shape of one example.
  std::vector<float> targets;  ///< [rows].
  /// The number of targets that did not fit and were therefore replaced by target_fill.
  std::size_t filled = 0;
  bool are_reals = false;  ///< Whether features can be NaN or infinite.
};

/// The common part of data sources whose rows are two arrays in files.
/// \tparam Place  where the arrays of one split are, made from an object among the parameters, with
///   open_features(of_any_size), has_targets(), open_targets(), targets_name(), and
///   origins_of(features, targets), whose `targets` is null if there are none.
/// \tparam Array  an open array, with shape(), is_bytes(), is_real(), fail().
template <class Place, class Array>
class ArraySource : public privgrad::DataSource, public privgrad::StreamedRows {
 public:
  ArraySource(std::string_view component, const privgrad::Params& params)
      : train_(params.object("train")), task_(component, params), fill_(component, params) {
    task_.take_fill(component, params);
    if (params.has("test")) test_.emplace(params.object("test"));
    if (!train_.has_targets()) task_.have_none();
    if (test_ && test_->has_targets() != train_.has_targets())
      throw privgrad::ConfigError(std::string(component) +
                                  ": train and test both have targets, or "
                                  "neither has");
  }

  /// \param place  the parameters that describe where a split is.
  static std::vector<privgrad::ParamSpec> params(const std::vector<privgrad::ParamSpec>& place) {
    std::vector<privgrad::ParamSpec> all = {
        privgrad::param::object("train", "Where the training examples are.", place),
        privgrad::param::object("test",
                                "Where the test examples are, which may be in the same file; "
                                "without it there is no test split.",
                                place)
            .optional(),
    };
    for (auto& spec : TargetTask::params()) all.push_back(std::move(spec));
    all.push_back(TargetTask::fill_param());
    all.push_back(FeatureFill::param());
    return all;
  }

  privgrad::DataInfo info() override {
    load();
    privgrad::DataInfo info = foreseen_info().value();
    info.shape = {train_outline_->features, task_.classes()};
    info.train_rows = train_outline_->targets.size();
    info.test_rows = test_outline_ ? test_outline_->targets.size() : 0;
    const auto add_remark = [&](const Place& place, const ArrayOutline& outline) {
      std::string remark =
          TargetTask::remark(place.targets_name(), outline.filled, outline.targets.size());
      if (!remark.empty()) info.remarks.push_back(std::move(remark));
    };
    add_remark(train_, *train_outline_);
    if (test_) add_remark(*test_, *test_outline_);
    return info;
  }

  /// Returns the facts that follow from the headers of the arrays.
  std::optional<privgrad::DataInfo> foreseen_info() override {
    privgrad::DataInfo info{.shape = {},
                            .unaccounted = train_.has_targets() ? task_.unaccounted_of_fit()
                                                                : std::vector<std::string>{},
                            .has_targets = train_.has_targets(),
                            .has_test_split = test_.has_value()};
    bool are_reals = false;
    const auto origins = [&](const Place& place) {
      const Array features = place.open_features(true);
      are_reals = are_reals || features.is_real();
      if (info.shape.features.empty() && task_.states_classes())
        info.shape = {example_of(features), task_.classes()};
      if (!place.has_targets()) return place.origins_of(features, static_cast<Array*>(nullptr));
      Array targets = place.open_targets();
      return place.origins_of(features, &targets);
    };
    info.train_origins = origins(train_);
    if (test_) info.test_origins = origins(*test_);
    fill_.add_unaccounted(are_reals, info.unaccounted);
    return info;
  }

  privgrad::Dataset read(privgrad::Split split) override {
    load();
    const bool is_train = split == privgrad::Split::train;
    if (!is_train && !test_) return privgrad::Dataset(info().shape, std::vector<float>{}, {});
    return read(is_train ? train_ : *test_, is_train ? *train_outline_ : *test_outline_);
  }

  privgrad::DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take) override {
    is_streamed_ = true;
    load();
    const auto rows_of = [](const ArrayOutline& one) {
      return static_cast<double>(one.targets.size());
    };
    const double train = rows_of(*train_outline_);
    const double all = train + (test_ ? rows_of(*test_outline_) : 0.0);
    hand_on(privgrad::Split::train, train_, *train_outline_, 0.0, all, take);
    if (test_) hand_on(privgrad::Split::test, *test_, *test_outline_, train, all, take);
    return info();
  }

 protected:
  /// \returns all targets, including those that are not numbers.
  virtual std::vector<float> targets_of(Array& targets) const = 0;
  virtual privgrad::Dataset read(const Place& place, const ArrayOutline& outline) const = 0;
  /// Prepares for reading features in order.
  /// \returns the number of rows to read at once: at most `elements` elements, if possible.
  virtual std::size_t begin_stream(Array& features, std::size_t elements) const = 0;
  /// \param to  empty on entry.
  virtual void read_bytes(Array& features, std::size_t first, std::size_t rows,
                          std::vector<std::uint8_t>& to) const = 0;
  /// \throws IoError if a feature is not finite, and there is no fill for it.
  virtual void read_reals(Array& features, std::size_t first, std::size_t rows,
                          std::vector<float>& to) const = 0;

  static privgrad::Shape example_of(const Array& features) {
    const privgrad::Shape& shape = features.shape();
    if (shape.size() < 2)
      features.fail("has the shape (" + shape_text(features) +
                    "), expected features of shape (rows x extents...)");
    return {shape.begin() + 1, shape.end()};
  }

  static void check_unchanged(const Array& features, const ArrayOutline& outline) {
    if (example_of(features) != outline.features ||
        features.shape().front() != outline.targets.size() ||
        features.is_real() != outline.are_reals)
      features.fail("has changed since its header was read");
  }

  const TargetTask& task() const { return task_; }
  const FeatureFill& fill() const { return fill_; }
  const Place& train() const { return train_; }
  const std::optional<Place>& test() const { return test_; }

 private:
  static std::string shape_text(const Array& array) {
    return array.shape().empty() ? "" : privgrad::to_text(array.shape());
  }

  /// Reads the headers and targets, in the first call only.
  void load() {
    if (train_outline_) return;
    ArrayOutline train = outline_of(train_);
    if (const std::string wrong = task_.learn(train.targets); !wrong.empty())
      throw privgrad::IoError(train_.targets_name() + ": " + wrong);
    if (test_) {
      ArrayOutline test = outline_of(*test_);
      if (test.features != train.features) {
        test_->open_features(true).fail("holds examples of " + privgrad::to_text(test.features) +
                                        ", expected " + privgrad::to_text(train.features) +
                                        " as in train");
      }
      test_outline_ = std::move(test);
    }
    train_outline_ = std::move(train);
  }

  ArrayOutline outline_of(const Place& place) const {
    const Array features = place.open_features(is_streamed_);
    ArrayOutline outline;
    outline.features = example_of(features);
    outline.are_reals = features.is_real();
    const std::size_t rows = features.shape().front();
    if (!place.has_targets()) {
      outline.targets.assign(rows, 0.0f);
      return outline;
    }
    Array targets = place.open_targets();
    if (targets.shape().empty() ||
        privgrad::element_count(targets.shape()) != targets.shape().front()) {
      targets.fail("has the shape (" + shape_text(targets) + "), expected targets of shape (rows)");
    }
    if (rows != targets.shape().front()) {
      features.fail("has " + std::to_string(rows) + " examples, but " + place.targets_name() +
                    " has " + std::to_string(targets.shape().front()) + " targets");
    }
    outline.targets = targets_of(targets);
    if (const auto row = task_.fit(outline.targets, outline.filled)) {
      targets.fail("target " + std::to_string(*row) + " is not " + task_.expected() +
                   "; target_fill says what such a row counts as");
    }
    return outline;
  }

  /// \param before, all  the number of rows before the split's rows, and the number of all rows.
  void hand_on(privgrad::Split split, const Place& place, const ArrayOutline& outline,
               double before, double all,
               const std::function<void(const privgrad::RowBlock&)>& take) const {
    Array features = place.open_features(true);
    check_unchanged(features, outline);
    const std::size_t most = begin_stream(features, std::size_t{1} << 18);
    std::vector<float> reals;
    std::vector<std::uint8_t> bytes;
    for (std::size_t first = 0; first < outline.targets.size(); first += most) {
      const std::size_t rows = std::min(most, outline.targets.size() - first);
      privgrad::RowBlock block{.split = split,
                               .features = {},
                               .scale = 1.0f,
                               .targets = std::span(outline.targets).subspan(first, rows),
                               .done = (before + static_cast<double>(first + rows)) / all};
      reals.clear();
      bytes.clear();
      if (features.is_bytes()) {
        read_bytes(features, first, rows, bytes);
        block.features = std::span<const std::uint8_t>(bytes);
      } else {
        read_reals(features, first, rows, reals);
        block.features = std::span<const float>(reals);
      }
      take(block);
    }
  }

  Place train_;
  std::optional<Place> test_;
  TargetTask task_;
  FeatureFill fill_;
  std::optional<ArrayOutline> train_outline_, test_outline_;
  bool is_streamed_ = false;  ///< Whether rows are streamed, so features may have any size.
};
