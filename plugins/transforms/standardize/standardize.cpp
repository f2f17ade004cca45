#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../learnt.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Shifts and scales every feature to mean 0 and standard deviation 1 (divisor: number of rows)
/// over the training examples. A feature that is constant in the training examples, or whose given
/// `std` is 0, becomes 0 in every split.
///
/// Sums are double. Examples may have any shape; each element is a separate feature.
///
/// As a private statistic: with t = (x - middle) / half of the feature's range, clipped to [-1, 1],
/// an example contributes (t_j, t_j^2 - 1/2) for each feature. For |t| <= 1,
/// t^2 + (t^2 - 1/2)^2 = t^4 + 1/4 <= 5/4, so the L2 norm of its contribution is at most
/// sqrt(5 d / 4). With the noisy means m of t and q of t^2, the variance is q - m^2, but not less
/// than the standard deviation of its own noise, so that a constant feature is not magnified.
class Standardize final : public learnt::ShiftAndDivide {
 public:
  explicit Standardize(const Params& params)
      : ShiftAndDivide("standardize", params, "mean", "std") {
    given_ = params.has("mean");
    if (given_ != params.has("std")) {
      refuse("of mean and std only one is given, expected both or neither");
    }
    take_range(params);
    if (!given_) return;
    if (noise_) {
      refuse("mean and std are given, so there is nothing to learn; leave out statistic: private");
    }
    statistic_ = Statistic::is_public;
    shift_ = params.reals("mean");
    divisor_ = params.reals("std");
    if (shift_.size() != divisor_.size()) {
      refuse("mean has " + std::to_string(shift_.size()) + " elements but std has " +
             std::to_string(divisor_.size()));
    }
  }

  ExampleShape output_shape(const ExampleShape& input) const override {
    const std::size_t features = element_count(input.features);
    if (given_ && features != shift_.size()) {
      refuse("mean and std have " + std::to_string(shift_.size()) +
             " elements, but an example has " + std::to_string(features) + " features");
    }
    if (noise_ && ranges_.size() != 2 && ranges_.size() != 2 * features) {
      refuse("range has " + std::to_string(ranges_.size()) +
             " numbers, expected 2, or 2 for each of " + std::to_string(features) + " features");
    }
    return input;
  }

  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    output_shape(input);
    const std::size_t features = element_count(input.features);
    return StatisticRequest{.what = "means and mean squares of the features",
                            .size = 2 * features,
                            .l2_bound = std::sqrt(1.25 * static_cast<double>(features)) * kAbove,
                            .noise = *noise_};
  }

  void contribution(const Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    const std::size_t width = features.size();
    for (std::size_t j = 0; j < width; ++j) {
      const double t =
          std::clamp((static_cast<double>(features[j]) - middle(j)) / half(j), -1.0, 1.0);
      out[j] = static_cast<float>(t);
      out[width + j] = static_cast<float>(t * t - 0.5);
    }
  }

  void learn(const ExampleShape& input, const Released& mean) override {
    const std::size_t width = element_count(input.features);
    const double noise = mean.noise_stddev();
    shift_.resize(width);
    divisor_.resize(width);
    for (std::size_t j = 0; j < width; ++j) {
      const double m = std::clamp(static_cast<double>(mean.values()[j]), -1.0, 1.0);
      const double q = std::clamp(static_cast<double>(mean.values()[width + j]) + 0.5, 0.0, 1.0);
      // The noise of q - m^2, to first order.
      const double of_variance = std::min(1.0, noise * std::sqrt(1.0 + 4.0 * m * m));
      shift_[j] = middle(j) + half(j) * m;
      divisor_[j] = half(j) * std::sqrt(std::max({q - m * m, of_variance, 0.0}));
    }
  }

  void fit(Dataset& train) override {
    if (given_) return;
    check_fit(train);
    const std::size_t width = train.row_size();
    const auto features = train.features();
    const auto rows = static_cast<double>(train.rows());

    std::vector<double> mean(width);
    std::vector<bool> varies(width);
    for (std::size_t i = 0; i < features.size(); ++i) {
      mean[i % width] += static_cast<double>(features[i]) / rows;
      if (features[i] != features[i % width]) varies[i % width] = true;
    }
    std::vector<double> deviation(width);
    for (std::size_t i = 0; i < features.size(); ++i) {
      const double x = static_cast<double>(features[i]) - mean[i % width];
      deviation[i % width] += x * x / rows;
    }
    for (std::size_t j = 0; j < width; ++j) {
      deviation[j] = varies[j] ? std::sqrt(deviation[j]) : 0.0;
    }
    shift_ = std::move(mean);
    divisor_ = std::move(deviation);
  }

 private:
  void take_range(const Params& params) {
    check_bound(params, "range", "the public range of the features; give range: [low, high]");
    if (!noise_) return;
    ranges_ = params.reals("range");
    for (std::size_t i = 0; i < ranges_.size(); i += 2) {
      if (ranges_.size() % 2 == 0 && ranges_[i] < ranges_[i + 1] &&
          std::isfinite(ranges_[i + 1] - ranges_[i]))
        continue;
      refuse("range is not a list of pairs [low, high], each with low below high");
    }
  }

  double middle(std::size_t j) const {
    const std::size_t i = ranges_.size() == 2 ? 0 : 2 * j;
    return 0.5 * ranges_[i] + 0.5 * ranges_[i + 1];
  }
  double half(std::size_t j) const {
    const std::size_t i = ranges_.size() == 2 ? 0 : 2 * j;
    return 0.5 * ranges_[i + 1] - 0.5 * ranges_[i];
  }

  std::vector<double> ranges_;  ///< Pairs: one for all features, or one per feature.
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Standardize>({
      .name = "standardize",
      .summary = "Every feature to mean 0 and standard deviation 1 over the training examples.",
      .reference = "Hong et al., Appendix D, setup",
      .params = private_statistic_params({
          param::list("range",
                      "Public range of the features, for a private statistic: low and high, "
                      "once for all of them or for each; what lies outside counts as its end.",
                      param::real("range", "An end."))
              .at_least_items(2)
              .optional()
              .example(Value::List{-4.0, 4.0}),
          param::list("mean",
                      "Public means to use instead of the training examples', one per feature.",
                      param::real("mean", "A mean."))
              .at_least_items(1)
              .optional(),
          param::list("std",
                      "Public standard deviations that belong to `mean`; 0: the feature becomes 0.",
                      param::real("std", "A standard deviation.").at_least(0))
              .at_least_items(1)
              .optional(),
      }),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.standardize", "0.1.0", "transform/standardize", register_components)
