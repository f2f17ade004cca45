#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/row_operation.hpp"
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
/// over the training examples. A feature that never varies there becomes 0 everywhere, in every
/// split, and so does one whose given `std` is 0.
///
/// Sums are double. Examples of any shape; each element is a feature of its own.
class Standardize final : public privgrad::Transform,
                          public privgrad::RowTransform,
                          public privgrad::FittedValues,
                          public privgrad::RowOperations {
 public:
  explicit Standardize(const privgrad::Params& params)
      : statistic_(privgrad::statistic_from(params)), given_(params.has("mean")) {
    if (given_ != params.has("std")) {
      throw ConfigError("standardize: of mean and std only one is given, expected both or neither");
    }
    if (!given_) return;
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
    return input;
  }

  void fit(Dataset& train) override {
    if (given_) return;
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

  void apply(Dataset& data) const override {
    privgrad::apply_to_each_row(*this, data.shape().features, data);
  }

  /// A difference and a quotient, each with its one rounding: the same bits wherever it is computed.
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

 private:
  Statistic statistic_;
  bool given_;
  std::vector<double> mean_;       ///< [features].
  std::vector<double> deviation_;  ///< [features]; 0: the feature becomes 0.
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Transform, Standardize>({
      .name = "standardize",
      .summary = "Every feature to mean 0 and standard deviation 1 over the training examples.",
      .reference = "Hong et al., Appendix D, setup",
      .params =
          {
              privgrad::statistics_param(),
              param::list("mean",
                          "Public means to use instead of the training examples', one per feature.",
                          param::real("mean", "A mean."))
                  .at_least_items(1)
                  .optional(),
              param::list("std",
                          "Public standard deviations that belong to `mean`; 0: the feature "
                          "becomes 0.",
                          param::real("std", "A standard deviation.").at_least(0))
                  .at_least_items(1)
                  .optional(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.standardize", "0.1.0", register_components)
