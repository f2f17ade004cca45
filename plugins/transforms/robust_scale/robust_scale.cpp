#include <algorithm>
#include <cmath>
#include <limits>
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

/// Shifts every feature by its median over the training examples, and divides it by the distance
/// between two of its quantiles. A feature whose quantiles are equal becomes 0 everywhere.
///
/// As a private statistic, the quantiles are read from noisy histograms: an example adds 1 to one
/// bin of each feature, so its contribution always has length sqrt(d). Values outside the public
/// range count in its first or last bin. Negative noisy counts become 0, which is post-processing.
/// Quantiles have the resolution of a bin, and no distance is below a bin's width.
class RobustScale final : public privgrad::Transform, public privgrad::BoundedStatistic {
 public:
  explicit RobustScale(const privgrad::Params& params)
      : statistic_(privgrad::statistic_from(params)),
        noise_(privgrad::statistic_noise_from(params, "robust_scale")),
        low_share_(params.real("low")),
        high_share_(params.real("high")),
        bins_(static_cast<std::size_t>(params.integer("bins"))) {
    if (!(low_share_ < high_share_)) {
      throw ConfigError("robust_scale: low is " + privgrad::format_number(low_share_) +
                        ", expected less than high, which is " +
                        privgrad::format_number(high_share_));
    }
    if (params.has("range") != noise_.has_value()) {
      throw ConfigError(noise_ ? "robust_scale: statistic: private needs the public range of the "
                                 "features; give range: [low, high]"
                               : "robust_scale: range is only for statistic: private");
    }
    if (!noise_) return;
    const std::vector<double> range = params.reals("range");
    if (range.size() != 2 || !(range[0] < range[1]) || !std::isfinite(range[1] - range[0]))
      throw ConfigError("robust_scale: range is not a pair [low, high] with low below high");
    begin_ = range[0];
    width_ = (range[1] - range[0]) / static_cast<double>(bins_);
  }

  ExampleShape output_shape(const ExampleShape& input) const override { return input; }

  void fit(Dataset& train) override {
    if (noise_) throw privgrad::PluginError("robust_scale: learns only from a released statistic");
    if (train.rows() == 0) throw ConfigError("robust_scale: there are no training examples");
    const std::size_t features = train.row_size();
    const auto values = train.features();
    std::vector<double> column(train.rows());
    median_.resize(features);
    distance_.resize(features);
    for (std::size_t j = 0; j < features; ++j) {
      for (std::size_t row = 0; row < column.size(); ++row)
        column[row] = static_cast<double>(values[row * features + j]);
      std::sort(column.begin(), column.end());
      median_[j] = quantile_of(column, 0.5);
      distance_[j] = quantile_of(column, high_share_) - quantile_of(column, low_share_);
    }
  }

  std::optional<privgrad::StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    const std::size_t features = privgrad::element_count(input.features);
    constexpr double kAbove = 1.0 + 1e-6;  // covers the rounding of the root
    return privgrad::StatisticRequest{.what = "histograms of the features",
                                      .size = features * bins_,
                                      .l2_bound = std::sqrt(static_cast<double>(features)) * kAbove,
                                      .noise = *noise_};
  }

  void contribution(const privgrad::Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0f);
    for (std::size_t j = 0; j < features.size(); ++j) {
      const double place = (static_cast<double>(features[j]) - begin_) / width_;
      if (std::isnan(place)) {  // such an example counts as zero
        out[j * bins_] = std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      const double last = static_cast<double>(bins_) - 1.0;
      out[j * bins_ + static_cast<std::size_t>(std::clamp(place, 0.0, last))] = 1.0f;
    }
  }

  void learn(const ExampleShape& input, const privgrad::Released& mean) override {
    const std::size_t features = privgrad::element_count(input.features);
    median_.resize(features);
    distance_.resize(features);
    for (std::size_t j = 0; j < features; ++j) {
      std::vector<double> counts(bins_);
      double total = 0.0;
      for (std::size_t b = 0; b < bins_; ++b) {
        counts[b] = std::max(0.0, static_cast<double>(mean.values()[j * bins_ + b]));
        total += counts[b];
      }
      if (!(total > 0.0)) std::fill(counts.begin(), counts.end(), 1.0);
      const auto at = [&](double share) { return quantile_in(counts, share); };
      median_[j] = at(0.5);
      distance_[j] = std::max(width_, at(high_share_) - at(low_share_));
    }
  }

  void apply_row(const privgrad::Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    if (features.size() != median_.size()) {
      throw ConfigError("robust_scale: was fitted to " + std::to_string(median_.size()) +
                        " features, the examples have " + std::to_string(features.size()));
    }
    for (std::size_t j = 0; j < features.size(); ++j) {
      const double x = static_cast<double>(features[j]) - median_[j];
      out[j] = distance_[j] == 0.0 ? 0.0f : static_cast<float>(x / distance_[j]);
    }
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"median", {median_.size()}, median_}, {"distance", {distance_.size()}, distance_}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 2)
      throw ConfigError("robust_scale: expected the fitted tensors median and distance");
    const FittedTensor& median = find_fitted(values, "robust_scale", "median", {0});
    const FittedTensor& distance = find_fitted(values, "robust_scale", "distance", median.shape);
    if (std::any_of(distance.values.begin(), distance.values.end(),
                    [](double x) { return x < 0.0; }))
      throw ConfigError("robust_scale: the fitted tensor distance has a value below 0");
    median_ = median.values;
    distance_ = distance.values;
  }

  std::vector<privgrad::RowOperation> row_operations(const privgrad::Shape&) const override {
    std::vector<bool> kept(distance_.size());
    std::vector<double> divisors(distance_.size(), 1.0);
    for (std::size_t j = 0; j < distance_.size(); ++j) {
      kept[j] = distance_[j] != 0.0;
      if (kept[j]) divisors[j] = distance_[j];
    }
    namespace row = privgrad::row_operation;
    return {row::Subtract{median_}, row::Divide{std::move(divisors)}, row::Keep{std::move(kept)}};
  }

  Statistic statistic() const override { return statistic_; }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }

 private:
  /// The quantile, interpolated between the two nearest sorted values.
  static double quantile_of(const std::vector<double>& sorted, double share) {
    const double place = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
  }

  /// The place at which the cumulative counts reach the given share of the total, as if counts were
  /// spread evenly in each bin.
  double quantile_in(const std::vector<double>& counts, double share) const {
    double total = 0.0;
    for (const double count : counts) total += count;
    double left = share * total;
    for (std::size_t b = 0; b < bins_; ++b) {
      if (counts[b] < left || counts[b] == 0.0) {
        left -= counts[b];
        continue;
      }
      return begin_ + (static_cast<double>(b) + left / counts[b]) * width_;
    }
    return begin_ + static_cast<double>(bins_) * width_;
  }

  Statistic statistic_;
  std::optional<privgrad::StatisticNoise> noise_;  ///< Nothing if there is no private statistic.
  double low_share_, high_share_;
  std::size_t bins_;
  double begin_ = 0.0, width_ = 0.0;  ///< The beginning of the range, and a bin's width.
  std::vector<double> median_;        ///< [features].
  std::vector<double> distance_;      ///< [features]; 0 if the feature becomes 0.
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Transform, RobustScale>({
      .name = "robust_scale",
      .summary =
          "Every feature minus its median, divided by the distance between two of its quantiles.",
      .reference = "Dwork and Roth 2014, section 3.3 (noised histograms), for a private statistic",
      .params = privgrad::private_statistic_params({
          param::list("range",
                      "Public range of all features, low and high, for a private statistic; what "
                      "lies outside counts in its first or last bin.",
                      param::real("range", "An end."))
              .at_least_items(2)
              .optional()
              .example(privgrad::Value::List{-4.0, 4.0}),
          param::integer("bins",
                         "Number of bins of a feature's histogram, for a private statistic.")
              .at_least(2)
              .at_most(65536)
              .defaults_to(64),
          param::real("low", "The lower quantile.").at_least(0).below(1).defaults_to(0.25),
          param::real("high", "The upper quantile.").above(0).at_most(1).defaults_to(0.75),
      }),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.robust_scale", "0.1.0", "transform/robust_scale", register_components)
