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
using privgrad::FittedTensor;
using privgrad::Statistic;
namespace param = privgrad::param;

/// Subtracts the mean of the training examples from every example.
///
/// As a private statistic, an example's contribution is the example itself, shortened to a public
/// norm, which bounds the contribution. Sums are double. Examples may have any shape; each element
/// is a separate feature.
class Center final : public privgrad::Transform, public privgrad::BoundedStatistic {
 public:
  explicit Center(const privgrad::Params& params)
      : statistic_(privgrad::statistic_from(params)),
        noise_(privgrad::statistic_noise_from(params, "center")),
        given_(params.has("mean")) {
    if (params.has("max_norm") != noise_.has_value()) {
      throw ConfigError(noise_
                            ? "center: statistic: private needs a public bound on the norm of an "
                              "example; give max_norm"
                            : "center: max_norm is only for statistic: private");
    }
    if (noise_) max_norm_ = params.real("max_norm");
    if (!given_) return;
    if (noise_)
      throw ConfigError(
          "center: mean is given, so that there is nothing to learn; leave out statistic: private");
    statistic_ = Statistic::is_public;
    mean_ = params.reals("mean");
  }

  ExampleShape output_shape(const ExampleShape& input) const override {
    const std::size_t features = privgrad::element_count(input.features);
    if (given_ && features != mean_.size()) {
      throw ConfigError("center: mean has " + std::to_string(mean_.size()) +
                        " elements, but an example has " + std::to_string(features) + " features");
    }
    return input;
  }

  void fit(Dataset& train) override {
    if (given_) return;
    if (noise_) throw privgrad::PluginError("center: learns only from a released statistic");
    if (train.rows() == 0) throw ConfigError("center: there are no training examples");
    std::vector<double> mean(train.row_size());
    const auto features = train.features();
    const auto rows = static_cast<double>(train.rows());
    for (std::size_t i = 0; i < features.size(); ++i)
      mean[i % mean.size()] += static_cast<double>(features[i]) / rows;
    mean_ = std::move(mean);
  }

  std::optional<privgrad::StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    // covers roundings to float32, so that they do not shorten an example
    constexpr double kAbove = 1.0 + 1e-6;
    return privgrad::StatisticRequest{.what = "means of the features",
                                      .size = privgrad::element_count(input.features),
                                      .l2_bound = max_norm_ * kAbove,
                                      .noise = *noise_};
  }

  void contribution(const privgrad::Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    double square = 0.0;
    for (const float x : features) square += static_cast<double>(x) * static_cast<double>(x);
    const double norm = std::sqrt(square);
    const double factor = norm <= max_norm_ ? 1.0 : max_norm_ / norm;
    std::transform(features.begin(), features.end(), out.begin(), [factor](float x) {
      return static_cast<float>(factor * static_cast<double>(x));
    });
  }

  void learn(const ExampleShape&, const privgrad::Released& mean) override {
    mean_.assign(mean.values().begin(), mean.values().end());
  }

  void apply_row(const privgrad::Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    if (features.size() != mean_.size()) {
      throw ConfigError("center: was fitted to " + std::to_string(mean_.size()) +
                        " features, the examples have " + std::to_string(features.size()));
    }
    for (std::size_t j = 0; j < features.size(); ++j)
      out[j] = static_cast<float>(static_cast<double>(features[j]) - mean_[j]);
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, mean_}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 1) throw ConfigError("center: expected only the fitted tensor mean");
    const FittedTensor& mean = privgrad::find_fitted(values, "center", "mean", {0});
    if (given_ && mean.values != mean_)
      throw ConfigError("center: the fitted tensor mean is not the one that was given");
    mean_ = mean.values;
  }

  std::vector<privgrad::RowOperation> row_operations(const privgrad::Shape&) const override {
    return {privgrad::row_operation::Subtract{mean_}};
  }

  Statistic statistic() const override { return statistic_; }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }

 private:
  Statistic statistic_;
  std::optional<privgrad::StatisticNoise> noise_;  ///< Nothing if there is no private statistic.
  bool given_;
  double max_norm_ = 0.0;
  std::vector<double> mean_;  ///< [features].
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Transform, Center>({
      .name = "center",
      .summary = "Subtracts the mean of the training examples from every example.",
      .reference = "Tramer and Boneh 2021, section 2.2 (data normalization)",
      .params = privgrad::private_statistic_params({
          param::real("max_norm",
                      "Public bound on the Euclidean norm of an example, for a private statistic; "
                      "longer examples count as if shortened to it.")
              .above(0)
              .at_most(1e30)
              .optional()
              .example(10.0),
          param::list("mean", "Public means to use instead, one per feature.",
                      param::real("mean", "A mean."))
              .at_least_items(1)
              .optional(),
      }),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.center", "0.1.0", "transform/center", register_components)
