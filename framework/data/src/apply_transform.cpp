#include "privgrad/data/apply_transform.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/data/kept_features.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/transform.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kMostSamples = 64;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Returns the rows to check: all rows if there are few; otherwise the first, the last and some
/// unpredictable rows.
std::vector<std::uint32_t> sampled_rows(std::size_t rows) {
  std::vector<std::uint32_t> chosen(std::min(rows, kMostSamples));
  if (rows <= kMostSamples) {
    std::iota(chosen.begin(), chosen.end(), 0u);
    return chosen;
  }
  for (std::uint32_t& row : chosen) row = static_cast<std::uint32_t>(unforeseen(rows));
  chosen.front() = 0;
  chosen.back() = static_cast<std::uint32_t>(rows - 1);
  return chosen;
}

std::vector<float> features_of(const Dataset& data, std::span<const std::uint32_t> rows) {
  std::vector<float> features(rows.size() * data.row_size()), targets(rows.size());
  data.gather(rows, features, targets);
  return features;
}

/// Records a split before a transform, to check what the transform must leave unchanged.
class Before {
 public:
  Before(const ComponentUse& use, std::string_view split, const Dataset& data)
      : use_(use),
        split_(split),
        shape_(data.shape()),
        targets_(data.targets().begin(), data.targets().end()),
        rows_(sampled_rows(data.rows())),
        features_(features_of(data, rows_)) {}

  void check_examples(const Dataset& after) const {
    if (after.rows() != targets_.size()) {
      refuse("returned " + std::to_string(after.rows()) + " " + std::string(split_) +
             " examples for " + std::to_string(targets_.size()));
    }
    if (!same_bits(targets_, after.targets()))
      refuse("changed targets of the " + std::string(split_) + " examples, or their order");
  }

  void check_unchanged(const Dataset& after) const {
    check_examples(after);
    const bool same = after.row_size() * rows_.size() == features_.size() &&
                      same_bits(features_, features_of(after, rows_));
    if (!same) refuse("changed the " + std::string(split_) + " examples while it was fitted");
  }

  void check_shape(const ExampleShape& told, const Dataset& after) const {
    if (after.shape().features == told.features && after.shape().classes == told.classes) return;
    refuse("returned examples of " + privgrad::to_text(after.shape().features) + " and said " +
           privgrad::to_text(told.features));
  }

  /// Checks that each sampled example, transformed alone, is near the row in its place.
  void check_order(const Transform& transform, const Dataset& after) const {
    const std::vector<float> together = features_of(after, rows_);
    const std::size_t width = after.row_size();
    float scale = 0.0f;
    for (const float x : together) scale = std::max(scale, std::abs(x));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::vector<float> alone = transformed_alone(transform, i);
      const auto there = std::span(together).subspan(i * width, width);
      if (std::ranges::equal(alone, there,
                             [&](float a, float b) { return is_near(a, b, scale); })) {
        continue;
      }
      refuse("computes different features for " + std::string(split_) + " example " +
             std::to_string(rows_[i]) + " by itself than among the other examples");
    }
  }

  /// Makes the same check bit by bit, for examples that were transformed row by row.
  void check_rows_alone(const Transform& transform, const Dataset& after) const {
    const std::vector<float> together = features_of(after, rows_);
    const std::size_t before = element_count(shape_.features), width = after.row_size();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      check_row_alone(use_, transform, shape_.features,
                      std::span(features_).subspan(i * before, before),
                      std::span(together).subspan(i * width, width));
    }
  }

 private:
  /// Allows for the rounding errors of sums that a smaller matrix adds in a different order.
  static bool is_near(float a, float b, float scale) {
    return std::abs(a - b) <= 1e-4f * std::abs(b) + 1e-5f * scale;
  }

  std::vector<float> transformed_alone(const Transform& transform, std::size_t sample) const {
    const std::size_t width = element_count(shape_.features);
    const auto begin = features_.begin() + static_cast<std::ptrdiff_t>(sample * width);
    Dataset one(shape_, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(width)),
                {targets_[rows_[sample]]});
    transform.apply(one);
    const auto features = one.features();
    return {features.begin(), features.end()};
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw PluginError(use_.position + ": error: " + use_.where + ": transform " + use_.name() +
                      " " + what +
                      "; a transform computes new features for each example, and must not change "
                      "the number, targets and order of examples");
  }

  const ComponentUse& use_;
  std::string_view split_;
  ExampleShape shape_;
  std::vector<float> targets_;
  std::vector<std::uint32_t> rows_;  ///< The rows to compare.
  std::vector<float> features_;      ///< Their features.
};

struct ByRow {
  const ComponentUse& use;
  Executor& executor;
  const FeatureCache* cache;

  /// \returns whether the rows were computed: false if they came from the cache.
  bool operator()(const Transform& transform, const Shape& shape, Dataset& data) const {
    if (cache == nullptr) {
      apply_to_each_row(transform, shape, data, executor);
      return true;
    }
    const std::string what = "outputs of transform " + use.name();
    const FeatureKey key = key_of_features(key_of_code("transform", *use.component, use.params),
                                           what, element_count(shape), data);
    if (auto kept = cache->find(key)) {
      replace_features(shape, std::move(*kept), data);
      return false;
    }
    apply_to_each_row(transform, shape, data, executor);
    cache->keep(key, data.features());
    return true;
  }
};

/// Returns the cache if the transform uses it; otherwise null.
const FeatureCache* cache_for(const ComponentUse& use, const Transform& transform,
                              const FeatureCache* cache) {
  if (cache == nullptr || !is_worth_keeping(transform)) return nullptr;
  if (!use.component->plugin->sha256.empty()) return cache;
  cache->note("outputs of transform " + use.name() + " are not stored: its code has no hash");
  return nullptr;
}

void apply_to_split(const Transform& transform, bool is_by_row, const Before& before,
                    const ByRow& by_row, Dataset& data) {
  const ExampleShape told = transform.output_shape(data.shape());
  if (is_by_row) {
    if (by_row(transform, told.features, data)) before.check_rows_alone(transform, data);
    return;
  }
  transform.apply(data);
  before.check_examples(data);
  before.check_shape(told, data);
  before.check_order(transform, data);
}

}  // namespace

FittedTransform learn(const ComponentUse& use, const PlannedTransform& planned,
                      Transform& transform, Dataset& train, Teacher* teacher) {
  if (transform.statistic() != planned.statistic) {
    throw PluginError(use.component->full_name() +
                      ": declares another origin of its numbers than when the run was planned");
  }
  switch (planned.statistic) {
    case Statistic::unaccounted:
    case Statistic::declared_public:
      transform.fit(train);
      break;
    case Statistic::released:
      if (teacher == nullptr) {
        throw ConfigError(use.name() +
                          " learns from a noised sum over the private rows, which only a run can "
                          "release and pay for; give it numbers, or statistic: public");
      }
      teacher->teach(planned.number, transform, train);
      break;
    default: {  // the transform needs no rows, and sees only zeros
      Dataset made_up(train.shape(), std::vector<float>(train.row_size()), {0.0f});
      transform.fit(made_up);
    }
  }
  return fitted_of(use, transform);
}

void check_row_alone(const ComponentUse& use, const Transform& transform, const Shape& shape,
                     std::span<const float> features, std::span<const float> made) {
  std::vector<float> alone(made.size());
  transform.apply_row(shape, features, alone);
  if (!all_finite(alone)) std::ranges::fill(alone, std::numeric_limits<float>::quiet_NaN());
  if (same_bits(alone, made)) return;
  throw PluginError(
      use.position + ": error: " + use.where + ": transform " + use.name() +
      " broke its contract: the bits of an example's features depend on the examples beside it");
}

FittedTransform fitted_of(const ComponentUse& use, const Transform& transform) {
  if (!transform.is_restorable()) return {false, {}};
  FittedTransform fitted{true, transform.fitted_values()};
  // Without a statistic there must be no learnt values: they would be released with the model, but
  // were not charged. After a release there must be learnt values, because SecondLook compares
  // them.
  const Statistic statistic = transform.statistic();
  if (statistic == (fitted.values.empty() ? Statistic::released : Statistic::none)) {
    throw PluginError(use.component->full_name() +
                      ": its statement about its numbers contradicts the " +
                      std::to_string(fitted.values.size()) + " tensor(s) that it has learnt");
  }
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  for (const FittedTensor& tensor : fitted.values) {
    const bool is_named = !tensor.name.empty() && tensor.name.size() <= 64 &&
                          tensor.name.find_first_not_of(kLetters) == std::string::npos;
    if (is_named && !tensor.values.empty() && element_count(tensor.shape) == tensor.values.size() &&
        std::ranges::all_of(tensor.values, [](double x) { return std::isfinite(x); }))
      continue;
    throw PluginError(use.component->full_name() +
                      ": has learnt a tensor that has no valid name, whose values do not fit its "
                      "shape, or which has a value that is not finite");
  }
  return fitted;
}

bool is_worth_keeping(const Transform& transform) {
  return transform.statistic() == Statistic::none && transform.is_by_row() && transform.is_costly();
}

FittedTransform apply_transform(const ComponentUse& use, const PlannedTransform& planned,
                                RunData& data, Executor& executor, const FeatureCache* cache,
                                Teacher* teacher) {
  const auto transform = use.make<Transform>();
  return use.with_position([&] {
    const ByRow by_row{use, executor, cache_for(use, *transform, cache)};
    const Before train(use, "training", data.train);
    FittedTransform fitted = learn(use, planned, *transform, data.train, teacher);
    train.check_unchanged(data.train);
    // Test rows may be public, so they are transformed before any training row.
    if (data.test.rows() > 0) {
      const Before test(use, "test", data.test);
      apply_to_split(*transform, planned.is_by_row, test, by_row, data.test);
    }
    apply_to_split(*transform, planned.is_by_row, train, by_row, data.train);
    return fitted;
  });
}

}  // namespace privgrad::core
