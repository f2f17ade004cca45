// The @KIND@ @NAME@.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace @NAMESPACE@ {

/// Shifts every feature so that its mean over the training examples is 0.
class @CLASS@ final : public privgrad::Transform {
 public:
  static privgrad::ComponentInfo declaration() {
    return {
        .name = "@NAME@",
        .summary = "Subtracts the training mean from every feature.",
        .reference = "none: a definition",
        .params = {privgrad::statistics_param()},
    };
  }

  explicit @CLASS@(const privgrad::Params& params) : statistic_(privgrad::statistic_from(params)) {}

  privgrad::ExampleShape output_shape(const privgrad::ExampleShape& input) const override {
    return input;
  }

  void fit(privgrad::Dataset& train) override {
    const std::size_t width = train.row_size();
    const auto features = train.features();
    std::vector<double> sums(width, 0.0);  // float sums would lose digits over many rows
    for (std::size_t i = 0; i < features.size(); ++i) sums[i % width] += features[i];
    mean_.assign(width, 0.0f);
    if (train.rows() == 0) return;
    for (std::size_t j = 0; j < width; ++j) {
      mean_[j] = static_cast<float>(sums[j] / static_cast<double>(train.rows()));
    }
  }

  // The result depends only on the example and the mean, to the last bit. (Sums over features would
  // need a fixed order, and -ffp-contract=off.)
  bool is_by_row() const override { return true; }
  void apply_row(const privgrad::Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t j = 0; j < features.size(); ++j) out[j] = features[j] - mean_.at(j);
  }

  // The mean is computed from the training rows without a charge. Every output says so, unless the
  // manifest declares that those rows are public.
  privgrad::Statistic statistic() const override { return statistic_; }

  // With these the saved model can be applied to raw examples.
  bool is_restorable() const override { return true; }
  std::vector<privgrad::FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, {mean_.begin(), mean_.end()}}};
  }

  void restore(const std::vector<privgrad::FittedTensor>& values) override {
    const auto& mean = privgrad::find_fitted(values, "@NAME@", "mean", {0});
    if (values.size() != 1) throw privgrad::ConfigError("@NAME@: expected the fitted tensor mean alone");
    mean_.assign(mean.values.begin(), mean.values.end());
  }

  // With these it can be exported, for programs that know no plugins.
  std::vector<privgrad::RowOperation> row_operations(const privgrad::Shape&) const override {
    return {privgrad::row_operation::Subtract{{mean_.begin(), mean_.end()}}};
  }

 private:
  privgrad::Statistic statistic_;
  std::vector<float> mean_;
};

}  // namespace @NAMESPACE@
