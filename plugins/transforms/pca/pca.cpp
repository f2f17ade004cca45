#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../learnt.hpp"
#include "../panels.hpp"
#include "../second_moments.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kBlockRows = 512;      // rows converted to double at a time
constexpr std::size_t kMostFeatures = 8192;  // a covariance of 512 MiB

/// Projects examples, minus the training mean, on the directions in which the training examples
/// vary most; the first component has the largest variance. The entry of largest magnitude of each
/// direction is positive, which fixes the signs. Arithmetic is double, results are float32.
///
/// A transformed example is a function of only the example and the fitted numbers, bit for bit. On
/// one machine, the fitted numbers do not depend on the number of threads; on another, a different
/// BLAS kernel may round differently.
///
/// As a private statistic ("Analyze Gauss", Dwork et al. 2014), the directions are eigenvectors of
/// the noisy second moments about zero, not about the mean. An example, shortened to a public norm
/// R, contributes the triangle of x x^T (second_moments.hpp), and ||x x^T|| = ||x||^2 <= R^2.
class Pca final : public learnt::LearntTransform {
 public:
  explicit Pca(const Params& params)
      : LearntTransform("pca", params),
        dimensions_(static_cast<std::size_t>(params.integer("dimensions"))),
        max_norm_(max_norm_from(params)) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    const std::size_t features = element_count(input.features);
    if (dimensions_ > features) {
      refuse("dimensions is " + std::to_string(dimensions_) + ", but an example has " +
             std::to_string(features) + " features");
    }
    if (features > kMostFeatures) {
      refuse("an example has " + std::to_string(features) + " features, allowed are at most " +
             std::to_string(kMostFeatures));
    }
    return {{dimensions_}, input.classes};
  }

  void fit(Dataset& train) override {
    check_fit(train);
    output_shape(train.shape());
    if (dimensions_ + 1 > train.rows()) {
      refuse("dimensions is " + std::to_string(dimensions_) + ", but " +
             std::to_string(train.rows()) +
             " training examples vary in fewer directions; allowed is at most the "
             "number of examples less 1");
    }
    const second_moments::OneBlasThread one_thread;
    std::vector<double> mean = mean_of(train);
    components_ = Panels(top_components(covariance(train, mean), mean.size()), mean.size());
    mean_ = std::move(mean);
  }

  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    output_shape(input);
    const std::size_t features = element_count(input.features);
    return StatisticRequest{.what = "second moments of the features",
                            .size = second_moments::triangle(features),
                            .l2_bound = max_norm_ * max_norm_ * kAbove,
                            .noise = *noise_};
  }

  void contribution(const Shape&, std::span<const float> features,
                    std::span<float> out) const override {
    products_of(features).piece(0, out);
  }

  std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape&, std::span<const float> features) const override {
    return std::make_unique<second_moments::OuterProducts>(products_of(features));
  }

  void learn(const ExampleShape& input, const Released& mean) override {
    const second_moments::OneBlasThread one_thread;
    const std::size_t width = element_count(input.features);
    const auto moments = second_moments::whole_matrix(mean.values(), width, 1.0);
    components_ = Panels(top_components(moments, width), width);
    mean_.assign(width, 0.0);
  }

  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    apply_rows(shape, 1, features, out);
  }

  void apply_rows(const Shape&, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    check_width(mean_.size(), features.size() / rows);
    std::vector<double> centered(features.size());
    for (std::size_t i = 0; i < features.size(); ++i)
      centered[i] = static_cast<double>(features[i]) - mean_[i % mean_.size()];
    components_.project(centered, out);
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, mean_},
            {"components", {dimensions_, mean_.size()}, components_.directions()}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 2) refuse("expected the fitted tensors mean and components");
    const FittedTensor& mean = find_fitted(values, "pca", "mean", {0});
    const FittedTensor& components =
        find_fitted(values, "pca", "components", {dimensions_, mean.shape.front()});
    components_ = Panels(components.values, mean.values.size());
    mean_ = mean.values;
  }

  std::vector<RowOperation> row_operations(const Shape&) const override {
    namespace row = row_operation;
    return {row::Subtract{mean_}, row::Project{dimensions_, components_.directions()}};
  }

 private:
  /// Returns the products of an example that is shortened to the public norm.
  second_moments::OuterProducts products_of(std::span<const float> features) const {
    return {features, {1, features.size(), 1}, second_moments::factor_within(features, max_norm_)};
  }

  static std::vector<double> mean_of(Dataset& data) {
    std::vector<double> mean(data.row_size());
    const auto features = data.features();
    const auto rows = static_cast<double>(data.rows());
    for (std::size_t i = 0; i < features.size(); ++i) {
      mean[i % mean.size()] += static_cast<double>(features[i]) / rows;
    }
    return mean;
  }

  /// Calls visit(first row, rows, [rows, row_size] in double, minus the mean), block after block.
  template <class Visit>
  static void for_each_block(Dataset& data, const std::vector<double>& mean, Visit visit) {
    const std::size_t width = mean.size();
    const auto features = data.features();
    std::vector<double> block(kBlockRows * width);
    for (std::size_t first = 0; first < data.rows(); first += kBlockRows) {
      const std::size_t rows = std::min(kBlockRows, data.rows() - first);
      for (std::size_t i = 0; i < rows * width; ++i) {
        block[i] = static_cast<double>(features[first * width + i]) - mean[i % width];
      }
      visit(first, rows, block.data());
    }
  }

  /// \returns [width, width], of which the lower triangle (row-major) is meaningful.
  static std::vector<double> covariance(Dataset& train, const std::vector<double>& mean) {
    const auto width = static_cast<int>(mean.size());
    std::vector<double> result(mean.size() * mean.size());
    const double weight = 1.0 / static_cast<double>(train.rows());
    for_each_block(train, mean, [&](std::size_t, std::size_t rows, const double* block) {
      cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, width, static_cast<int>(rows), weight,
                  block, width, 1.0, result.data(), width);
    });
    return result;
  }

  /// \returns [dimensions_, width], one direction per row.
  std::vector<double> top_components(const std::vector<double>& matrix, std::size_t width) const {
    const auto [values, vectors] = second_moments::eigen(matrix, width, "pca");
    // The eigenvalues are in ascending order. If one is below the rounding error, its direction
    // does not come from the data.
    const double noise =
        values(width - 1) * static_cast<double>(width) * std::numeric_limits<double>::epsilon();
    const auto rank = static_cast<std::size_t>(
        std::ranges::count_if(values, [noise](double x) { return x > noise; }));
    // With private statistics, a direction that is only noise is acceptable.
    if (rank < dimensions_ && !noise_) {
      refuse("dimensions is " + std::to_string(dimensions_) +
             ", but the training examples vary in " + std::to_string(rank) + " direction(s) only");
    }
    std::vector<double> result;
    result.reserve(dimensions_ * width);
    for (std::size_t i = 0; i < dimensions_; ++i) {
      const std::size_t column = width - 1 - i;
      for (std::size_t j = 0; j < width; ++j) result.push_back(vectors(j, column));
    }
    return result;
  }

  std::size_t dimensions_;
  double max_norm_;
  std::vector<double> mean_;  ///< [features].
  Panels components_;         ///< [dimensions, features], orthonormal.
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Pca>({
      .name = "pca",
      .summary = "Projects on the directions in which the training examples vary most.",
      .reference = "Hong et al., Appendix D, data set (2), after Abadi et al. 2016, section 5.2; "
                   "Dwork et al. 2014, algorithm 1, for a private statistic",
      .params = private_statistic_params({
          param::integer("dimensions",
                         "Components to keep; at most the number of features, and less than the "
                         "number of training examples.")
              .at_least(1)
              .example(60),
          param::real("max_norm",
                      "Public bound on the Euclidean norm of an example, for a private statistic, "
                      "which is about zero and not about the mean (put center before it); longer "
                      "examples count as if shortened to it.")
              .above(0)
              .at_most(1e15)
              .optional()
              .example(10.0),
      }),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.pca", "0.1.0", "transform/pca", register_components)
