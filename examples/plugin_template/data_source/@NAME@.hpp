// The @KIND@ @NAME@.
#pragma once

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {

/// Two rings around the origin: class 0 at radius 1, class 1 at radius 2, each `width` wide. No
/// straight line separates them. The points depend only on their row numbers, so nothing in them is
/// private.
class @CLASS@ final : public privgrad::DataSource {
 public:
  static privgrad::ComponentInfo declaration() {
    namespace param = privgrad::param;
    return {
        .name = "@NAME@",
        .summary = "Two rings in the plane, one per class.",
        .reference = "none: a definition",
        .params = {param::integer("train_rows", "Number of training examples.")
                       .at_least(1)
                       .at_most(10000000)
                       .defaults_to(400),
                   param::integer("test_rows", "Number of test examples; 0 for none.")
                       .at_least(0)
                       .at_most(10000000)
                       .defaults_to(100),
                   param::real("width", "Width of each ring.").at_least(0).below(1).defaults_to(0.5)},
    };
  }

  explicit @CLASS@(const privgrad::Params& params)
      : train_rows_(static_cast<std::size_t>(params.integer("train_rows"))),
        test_rows_(static_cast<std::size_t>(params.integer("test_rows"))),
        width_(params.real("width")) {}

  privgrad::DataInfo info() override {
    return {.shape = kShape,
            .train_rows = train_rows_,
            .test_rows = test_rows_,
            .unaccounted = {},
            .has_test_split = test_rows_ > 0};
  }

  privgrad::Dataset read(privgrad::Split split) override {
    const bool train = split == privgrad::Split::train;
    // The test points continue where the training points end, so that no point is in both splits.
    const std::size_t first = train ? 0 : train_rows_;
    const std::size_t rows = train ? train_rows_ : test_rows_;
    std::vector<float> features;
    std::vector<float> targets;
    features.reserve(2 * rows);
    targets.reserve(rows);
    for (std::size_t i = first; i < first + rows; ++i) {
      const double target = static_cast<double>(i % 2);
      const double angle = 2.0 * std::numbers::pi * spread(i, kGolden);
      const double radius = 1.0 + target + width_ * (spread(i, kSilver) - 0.5);
      features.push_back(static_cast<float>(radius * std::cos(angle)));
      features.push_back(static_cast<float>(radius * std::sin(angle)));
      targets.push_back(static_cast<float>(target));
    }
    return {kShape, std::move(features), std::move(targets)};
  }

 private:
  static constexpr double kGolden = std::numbers::phi - 1.0;
  static constexpr double kSilver = std::numbers::sqrt2 - 1.0;
  inline static const privgrad::ExampleShape kShape{.features = {2}, .classes = 2};

  /// Fractional parts of multiples of an irrational number cover [0, 1) evenly (Weyl).
  static double spread(std::size_t i, double irrational) {
    const double multiple = static_cast<double>(i + 1) * irrational;
    return multiple - std::floor(multiple);
  }

  std::size_t train_rows_;
  std::size_t test_rows_;
  double width_;
};

}  // namespace @NAMESPACE@
