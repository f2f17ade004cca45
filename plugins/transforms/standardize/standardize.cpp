#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::ExampleShape;
using privgrad::find_fitted;
using privgrad::FittedTensor;
using privgrad::Statistic;
namespace param = privgrad::param;

/// Shifts and scales every feature to mean 0 and standard deviation 1 (divisor: number of rows)
/// over the training examples. A feature that is constant there becomes 0 everywhere, in every
/// split, and so does one whose given `std` is 0.
///
/// Sums are double. Examples may have any shape; each element is a separate feature.
///
/// As a private statistic: with t = (x - middle) / half of the feature's range, clipped to [-1, 1],
/// an example contributes (t_j, t_j^2 - 1/2) for each feature. For |t| <= 1, t^2 + (t^2 - 1/2)^2 =
/// t^4 + 1/4 <= 5/4, so the L2 norm of its contribution is at most sqrt(5 d / 4). With the noisy
/// means m of t and q of t^2, the variance is q - m^2, but at least the size of its own noise, so
/// that a constant feature is not magnified.
class Standardize final : public privgrad::Transform, public privgrad::BoundedStatistic {
 public:
  explicit Standardize(const privgrad::Params& params)
      : statistic_(privgrad::statistic_from(params)),
        noise_(privgrad::statistic_noise_from(params, "standardize")),
        given_(params.has("mean")) {
    if (given_ != params.has("std")) {
      throw ConfigError("standardize: of mean and std only one is given, expected both or neither");
    }
    take_range(params);
    if (!given_) return;
    if (noise_) {
      throw ConfigError(
          "standardize: mean and std are given, so that there is nothing to learn; leave out "
          "statistic: private");
    }
    statistic_ = Statistic::is_public;
    mean_ = params.reals("mean");
    deviation_ = params.reals("std");
    if (mean_.size() != deviation_.size()) {
      throw ConfigError("standardize: mean has " + std::to_string(mean_.size()) +
                        " elements but std has " + std::to_string(deviation_.size()));
    }
  }

  ExampleShape output_shape(const ExampleShape& input) const override {
    const std::size_t features = privgrad::element_count(input.features);
    if (given_ && features != mean_.size()) {
      throw ConfigError("standardize: mean and std have " + std::to_string(mean_.size()) +
                        " elements, but an example has " + std::to_string(features) + " features");
    }
    if (noise_ && ranges_.size() != 2 && ranges_.size() != 2 * features) {
      throw ConfigError("standardize: range has " + std::to_string(ranges_.size()) +
                        " numbers, expected 2, or 2 for each of " + std::to_string(features) +
                        " features");
    }
    return input;
  }

  std::optional<privgrad::StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    output_shape(input);
    const std::size_t features = privgrad::element_count(input.features);
    return privgrad::StatisticRequest{
        .what = "means and mean squares of the features",
        .size = 2 * features,
        .l2_bound = std::sqrt(1.25 * static_cast<double>(features)) * kAbove,
        .noise = *noise_};
  }

  void contribution(const privgrad::Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    const std::size_t width = features.size();
    for (std::size_t j = 0; j < width; ++j) {
      const double t =
          std::clamp((static_cast<double>(features[j]) - middle(j)) / half(j), -1.0, 1.0);
      out[j] = static_cast<float>(t);
      out[width + j] = static_cast<float>(t * t - 0.5);
    }
  }

  void learn(const ExampleShape& input, const privgrad::Released& mean) override {
    const std::size_t width = privgrad::element_count(input.features);
    const double noise = mean.noise_stddev();
    mean_.resize(width);
    deviation_.resize(width);
    for (std::size_t j = 0; j < width; ++j) {
      const double m = std::clamp(static_cast<double>(mean.values()[j]), -1.0, 1.0);
      const double q = std::clamp(static_cast<double>(mean.values()[width + j]) + 0.5, 0.0, 1.0);
      // The noise of q - m^2, to the first order.
      const double of_variance = std::min(1.0, noise * std::sqrt(1.0 + 4.0 * m * m));
      mean_[j] = middle(j) + half(j) * m;
      deviation_[j] = half(j) * std::sqrt(std::max({q - m * m, of_variance, 0.0}));
    }
  }

  void fit(Dataset& train) override {
    if (given_) return;
    if (noise_) throw privgrad::PluginError("standardize: learns only from a released statistic");
    if (train.rows() == 0) throw ConfigError("standardize: there are no training examples");
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
    mean_ = std::move(mean);
    deviation_ = std::move(deviation);
  }

  /// A difference and a quotient, each rounded once, so the bits are the same on every machine.
  void apply_row(const privgrad::Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    if (features.size() != mean_.size()) {
      throw ConfigError("standardize: was fitted to " + std::to_string(mean_.size()) +
                        " features, the examples have " + std::to_string(features.size()));
    }
    for (std::size_t j = 0; j < features.size(); ++j) {
      const double x = static_cast<double>(features[j]);
      out[j] = deviation_[j] == 0.0 ? 0.0f : static_cast<float>((x - mean_[j]) / deviation_[j]);
    }
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, mean_}, {"std", {deviation_.size()}, deviation_}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 2)
      throw ConfigError("standardize: expected the fitted tensors mean and std");
    const FittedTensor& mean = find_fitted(values, "standardize", "mean", {0});
    const FittedTensor& deviation = find_fitted(values, "standardize", "std", mean.shape);
    if (std::any_of(deviation.values.begin(), deviation.values.end(),
                    [](double x) { return x < 0.0; })) {
      throw ConfigError("standardize: the fitted tensor std has a value below 0");
    }
    if (given_ && (mean.values != mean_ || deviation.values != deviation_)) {
      throw ConfigError("standardize: the fitted tensors are not the mean and std that were given");
    }
    mean_ = mean.values;
    deviation_ = deviation.values;
  }

  std::vector<privgrad::RowOperation> row_operations(const privgrad::Shape&) const override {
    std::vector<bool> kept(deviation_.size());
    std::vector<double> divisors(deviation_.size(), 1.0);
    for (std::size_t j = 0; j < deviation_.size(); ++j) {
      kept[j] = deviation_[j] != 0.0;
      if (kept[j]) divisors[j] = deviation_[j];
    }
    namespace row = privgrad::row_operation;
    return {row::Subtract{mean_}, row::Divide{std::move(divisors)}, row::Keep{std::move(kept)}};
  }

  Statistic statistic() const override { return statistic_; }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }

 private:
  /// The margin of the bound for roundings to float32, so that they do not shorten a contribution
  /// noticeably.
  static constexpr double kAbove = 1.0 + 1e-6;

  void take_range(const privgrad::Params& params) {
    if (params.has("range") != noise_.has_value()) {
      throw ConfigError(std::string("standardize: ") +
                        (noise_ ? "statistic: private needs the public range of the features; give "
                                  "range: [low, high]"
                                : "range is only for statistic: private"));
    }
    if (!noise_) return;
    ranges_ = params.reals("range");
    for (std::size_t i = 0; i < ranges_.size(); i += 2) {
      if (ranges_.size() % 2 == 0 && ranges_[i] < ranges_[i + 1] &&
          std::isfinite(ranges_[i + 1] - ranges_[i]))
        continue;
      throw ConfigError(
          "standardize: range is not a list of pairs [low, high], each with low below high");
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

  Statistic statistic_;
  std::optional<privgrad::StatisticNoise> noise_;  ///< Nothing if there is no private statistic.
  bool given_;
  std::vector<double> ranges_;     ///< Pairs: one for all features, or one for each.
  std::vector<double> mean_;       ///< [features].
  std::vector<double> deviation_;  ///< [features]; 0 if the feature becomes 0.
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Transform, Standardize>({
      .name = "standardize",
      .summary = "Every feature to mean 0 and standard deviation 1 over the training examples.",
      .reference = "Hong et al., Appendix D, setup",
      .params = privgrad::private_statistic_params({
          param::list("range",
                      "Public range of the features, for a private statistic: low and high, "
                      "once for all of them or for each; what lies outside counts as its end.",
                      param::real("range", "An end."))
              .at_least_items(2)
              .optional()
              .example(privgrad::Value::List{-4.0, 4.0}),
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
