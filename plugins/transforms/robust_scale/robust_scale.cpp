#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "../learnt.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Shifts every feature by its median over the training examples, and divides it by the distance
/// between two of its quantiles. A feature whose quantiles are equal becomes 0 everywhere.
///
/// As a private statistic, the quantiles come from noisy histograms: an example adds 1 to one bin
/// of each of the d features, so its contribution has length sqrt(d), or counts as zero if a
/// feature is NaN. Values outside the public range count in its first or last bin. Negative noisy
/// counts become 0, which is post-processing. Quantiles have the resolution of a bin, and no
/// distance is below a bin's width.
class RobustScale final : public learnt::ShiftAndDivide {
 public:
  explicit RobustScale(const Params& params)
      : ShiftAndDivide("robust_scale", params, "median", "distance"),
        low_share_(params.real("low")),
        high_share_(params.real("high")),
        bins_(static_cast<std::size_t>(params.integer("bins"))) {
    if (!(low_share_ < high_share_)) {
      refuse("low is " + format_number(low_share_) + ", expected less than high, which is " +
             format_number(high_share_));
    }
    check_bound(params, "range", "the public range of the features; give range: [low, high]");
    if (!noise_) return;
    const std::vector<double> range = params.reals("range");
    if (range.size() != 2 || !(range[0] < range[1]) || !std::isfinite(range[1] - range[0]))
      refuse("range is not a pair [low, high] with low below high");
    begin_ = range[0];
    width_ = (range[1] - range[0]) / static_cast<double>(bins_);
  }

  ExampleShape output_shape(const ExampleShape& input) const override { return input; }

  void fit(Dataset& train) override {
    check_fit(train);
    const std::size_t features = train.row_size();
    const auto values = train.features();
    std::vector<double> column(train.rows());
    shift_.resize(features);
    divisor_.resize(features);
    for (std::size_t j = 0; j < features; ++j) {
      for (std::size_t row = 0; row < column.size(); ++row)
        column[row] = static_cast<double>(values[row * features + j]);
      std::ranges::sort(column);
      shift_[j] = quantile_of(column, 0.5);
      divisor_[j] = quantile_of(column, high_share_) - quantile_of(column, low_share_);
    }
  }

  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    const std::size_t features = element_count(input.features);
    return StatisticRequest{.what = "histograms of the features",
                            .size = features * bins_,
                            .l2_bound = std::sqrt(static_cast<double>(features)) * kAbove,
                            .noise = *noise_};
  }

  void contribution(const Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    std::ranges::fill(out, 0.0f);
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

  void learn(const ExampleShape& input, const Released& mean) override {
    const std::size_t features = element_count(input.features);
    shift_.resize(features);
    divisor_.resize(features);
    for (std::size_t j = 0; j < features; ++j) {
      std::vector<double> counts(bins_);
      double total = 0.0;
      for (std::size_t b = 0; b < bins_; ++b) {
        counts[b] = std::max(0.0, static_cast<double>(mean.values()[j * bins_ + b]));
        total += counts[b];
      }
      if (!(total > 0.0)) std::ranges::fill(counts, 1.0);
      const auto at = [&](double share) { return quantile_in(counts, share); };
      shift_[j] = at(0.5);
      divisor_[j] = std::max(width_, at(high_share_) - at(low_share_));
    }
  }

 private:
  /// Returns the quantile, interpolated between the two nearest sorted values.
  static double quantile_of(const std::vector<double>& sorted, double share) {
    const double place = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
  }

  /// Returns the place at which the cumulative counts reach the given share of the total, with
  /// counts spread evenly within each bin.
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

  double low_share_, high_share_;
  std::size_t bins_;
  double begin_ = 0.0, width_ = 0.0;  ///< The beginning of the range, and a bin's width.
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, RobustScale>({
      .name = "robust_scale",
      .summary =
          "Every feature minus its median, divided by the distance between two of its quantiles.",
      .reference = "Dwork and Roth 2014, section 3.3 (noised histograms), for a private statistic",
      .params = private_statistic_params({
          param::list("range",
                      "Public range of all features, low and high, for a private statistic; what "
                      "lies outside counts in its first or last bin.",
                      param::real("range", "An end."))
              .at_least_items(2)
              .optional()
              .example(Value::List{-4.0, 4.0}),
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
