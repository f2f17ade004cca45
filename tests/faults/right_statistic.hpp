// A correct transform that learns from a released statistic (BoundedStatistic), for derived classes
// to break.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"

/// Subtracts the mean, computed from examples that are shortened to norm 2.
class RightStatistic : public privgrad::Transform, public privgrad::BoundedStatistic {
 public:
  static constexpr double kBound = 2.0;
  explicit RightStatistic(const privgrad::Params& params)
      : statistic_(privgrad::statistic_from(params)),
        noise_(privgrad::statistic_noise_from(params, "right")) {}
  privgrad::ExampleShape output_shape(const privgrad::ExampleShape& input) const override {
    return input;
  }
  void fit(privgrad::Dataset& train) override {
    mean_.assign(train.row_size(), 0.0);
    const auto features = train.features();
    for (std::size_t i = 0; i < features.size(); ++i)
      mean_[i % mean_.size()] +=
          static_cast<double>(features[i]) / static_cast<double>(train.rows());
  }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }
  void apply_row(const privgrad::Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t i = 0; i < features.size(); ++i)
      out[i] = static_cast<float>(static_cast<double>(features[i]) - mean_[i]);
  }
  privgrad::Statistic statistic() const override { return statistic_; }
  std::vector<privgrad::FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, mean_}};
  }
  void restore(const std::vector<privgrad::FittedTensor>& values) override {
    const privgrad::FittedTensor& mean = privgrad::find_fitted(values, "right", "mean", {0});
    if (values.size() != 1) throw privgrad::ConfigError("right: expected the mean alone");
    mean_ = mean.values;
  }
  std::optional<privgrad::StatisticRequest> request(
      const privgrad::ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    return privgrad::StatisticRequest{"means", privgrad::element_count(input.features), kBound,
                                      *noise_};
  }
  void contribution(const privgrad::Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    double square = 0.0;
    for (const float x : features) square += static_cast<double>(x) * static_cast<double>(x);
    const double factor = std::min(1.0, 0.999999 * kBound / std::sqrt(square));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = square == 0.0 ? 0.0f : static_cast<float>(factor * static_cast<double>(features[i]));
  }
  void learn(const privgrad::ExampleShape&, const privgrad::Released& mean) override {
    mean_.assign(mean.values().begin(), mean.values().end());
  }

  privgrad::Statistic statistic_;
  std::optional<privgrad::StatisticNoise> noise_;
  std::vector<double> mean_;
};
