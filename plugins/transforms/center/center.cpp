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

/// Subtracts the mean of the training examples from every example.
///
/// As a private statistic, an example's contribution is the example itself, shortened to a public
/// norm, which bounds the contribution. Sums are double. Examples may have any shape; each element
/// is a separate feature.
class Center final : public learnt::LearntTransform {
 public:
  explicit Center(const Params& params)
      : LearntTransform("center", params),
        given_(params.has("mean")),
        max_norm_(max_norm_from(params)) {
    if (!given_) return;
    if (noise_) refuse("mean is given, so there is nothing to learn; leave out statistic: private");
    statistic_ = Statistic::is_public;
    mean_ = params.reals("mean");
  }

  ExampleShape output_shape(const ExampleShape& input) const override {
    const std::size_t features = element_count(input.features);
    if (given_ && features != mean_.size()) {
      refuse("mean has " + std::to_string(mean_.size()) + " elements, but an example has " +
             std::to_string(features) + " features");
    }
    return input;
  }

  void fit(Dataset& train) override {
    if (given_) return;
    check_fit(train);
    std::vector<double> mean(train.row_size());
    const auto features = train.features();
    const auto rows = static_cast<double>(train.rows());
    for (std::size_t i = 0; i < features.size(); ++i)
      mean[i % mean.size()] += static_cast<double>(features[i]) / rows;
    mean_ = std::move(mean);
  }

  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    return StatisticRequest{.what = "means of the features",
                            .size = element_count(input.features),
                            .l2_bound = max_norm_ * kAbove,
                            .noise = *noise_};
  }

  void contribution(const Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    double square = 0.0;
    for (const float x : features) square += static_cast<double>(x) * static_cast<double>(x);
    const double norm = std::sqrt(square);
    const double factor = norm <= max_norm_ ? 1.0 : max_norm_ / norm;
    std::ranges::transform(features, out.begin(), [factor](float x) {
      return static_cast<float>(factor * static_cast<double>(x));
    });
  }

  void learn(const ExampleShape&, const Released& mean) override {
    mean_.assign(mean.values().begin(), mean.values().end());
  }

  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    check_width(mean_.size(), features.size());
    for (std::size_t j = 0; j < features.size(); ++j)
      out[j] = static_cast<float>(static_cast<double>(features[j]) - mean_[j]);
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, mean_}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 1) refuse("expected only the fitted tensor mean");
    const FittedTensor& mean = find_fitted(values, "center", "mean", {0});
    if (given_ && mean.values != mean_)
      refuse("the fitted tensor mean is not the one that was given");
    mean_ = mean.values;
  }

  std::vector<RowOperation> row_operations(const Shape&) const override {
    return {row_operation::Subtract{mean_}};
  }

 private:
  bool given_;
  double max_norm_;
  std::vector<double> mean_;  ///< [features].
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Center>({
      .name = "center",
      .summary = "Subtracts the mean of the training examples from every example.",
      .reference = "Tramer and Boneh 2021, section 2.2 (data normalization)",
      .params = private_statistic_params({
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
