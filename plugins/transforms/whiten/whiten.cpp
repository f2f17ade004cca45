#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../channels.hpp"
#include "../learnt.hpp"
#include "../panels.hpp"
#include "../second_moments.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kMostChannels = 4096;  // a matrix is then 128 MiB

/// Multiplies the channels at every place of an example by the inverse root of their second moment
/// over all training examples and places, plus damping: channels of mean 0 then have equal variance
/// and are uncorrelated. W = V diag(1 / sqrt(lambda + damping)) V^T, for the second moment V
/// diag(lambda) V^T; of all such W, this one changes the channels least (Kessy et al. 2018, ZCA).
///
/// As a private statistic, an example, shortened to a public norm R, contributes the triangle of
/// the sum of x_p x_p^T over its places p (second_moments.hpp), whose length is at most sum
/// ||x_p||^2 = ||x||^2 <= R^2. Negative eigenvalues of the noisy matrix become 0, which is
/// post-processing.
class Whiten final : public learnt::LearntTransform {
 public:
  explicit Whiten(const Params& params)
      : LearntTransform("whiten", params),
        axis_(channels::axis_from(params)),
        damping_(params.real("damping")),
        max_norm_(max_norm_from(params)) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    const channels::Layout layout = channels::layout_of(input.features, axis_, "whiten");
    if (layout.length > kMostChannels) {
      refuse("an example has " + std::to_string(layout.length) + " channels, allowed are at most " +
             std::to_string(kMostChannels));
    }
    return input;
  }

  void fit(Dataset& train) override {
    check_fit(train);
    output_shape(train.shape());
    const second_moments::Vectors vectors = vectors_of(train.shape().features);
    const auto features = train.features();
    std::vector<double> sums(second_moments::triangle(vectors.length));
    std::vector<float> one(sums.size());
    for (std::size_t row = 0; row < train.rows(); ++row) {
      second_moments::OuterProducts(features.subspan(row * train.row_size(), train.row_size()),
                                    vectors, 1.0)
          .piece(0, one);
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += static_cast<double>(one[i]) / static_cast<double>(train.rows());
    }
    take(std::span<const double>(sums), vectors, 0.0);
  }

  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    if (!noise_) return std::nullopt;
    output_shape(input);
    return StatisticRequest{.what = "second moments of the channels",
                            .size = second_moments::triangle(vectors_of(input.features).length),
                            .l2_bound = max_norm_ * max_norm_ * kAbove,
                            .noise = *noise_};
  }

  void contribution(const Shape& shape, std::span<const float> features,
                    std::span<float> out) const override {
    products_of(shape, features).piece(0, out);
  }

  std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape& shape, std::span<const float> features) const override {
    return std::make_unique<second_moments::OuterProducts>(products_of(shape, features));
  }

  void learn(const ExampleShape& input, const Released& mean) override {
    take(mean.values(), vectors_of(input.features), mean.noise_stddev());
  }

  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    apply_rows(shape, 1, features, out);
  }

  void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    const second_moments::Vectors v = vectors_of(shape);
    check_width(matrix_.count(), v.length, "channels");
    // All examples are this many blocks of vectors; a vector's channels are `after` numbers apart.
    const std::size_t outer = rows * v.before;
    std::vector<double> vectors(features.size());
    for (std::size_t b = 0; b < outer; ++b) {
      for (std::size_t i = 0; i < v.length; ++i) {
        const float* channel = features.data() + (b * v.length + i) * v.after;
        for (std::size_t a = 0; a < v.after; ++a)
          vectors[(b * v.after + a) * v.length + i] = static_cast<double>(channel[a]);
      }
    }
    if (v.after == 1) return matrix_.project(vectors, out);
    std::vector<float> made(features.size());
    matrix_.project(vectors, made);
    for (std::size_t b = 0; b < outer; ++b) {
      for (std::size_t i = 0; i < v.length; ++i) {
        float* channel = out.data() + (b * v.length + i) * v.after;
        for (std::size_t a = 0; a < v.after; ++a)
          channel[a] = made[(b * v.after + a) * v.length + i];
      }
    }
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"matrix", {matrix_.count(), matrix_.count()}, matrix_.directions()}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 1) refuse("expected only the fitted tensor matrix");
    const FittedTensor& matrix = find_fitted(values, "whiten", "matrix", {0, 0});
    if (matrix.shape.front() != matrix.shape.back())
      refuse("the fitted tensor matrix is not square");
    matrix_ = Panels(matrix.values, matrix.shape.front());
  }

  std::vector<RowOperation> row_operations(const Shape& shape) const override {
    const second_moments::Vectors v = vectors_of(shape);
    return {row_operation::ProjectAxis{v.length, v.after, v.length, matrix_.directions()}};
  }

 private:
  second_moments::Vectors vectors_of(const Shape& shape) const {
    const channels::Layout layout = channels::layout_of(shape, axis_, "whiten");
    return {layout.before, layout.length, layout.after};
  }

  /// Returns the products of an example that is shortened to the public norm.
  second_moments::OuterProducts products_of(const Shape& shape,
                                            std::span<const float> features) const {
    return {features, vectors_of(shape), second_moments::factor_within(features, max_norm_)};
  }

  /// \param mean  the mean of the examples' triangles.
  /// \param noise  standard deviation of the noise in each number of the mean.
  template <class Number>
  void take(std::span<const Number> mean, const second_moments::Vectors& vectors, double noise) {
    const second_moments::OneBlasThread one_thread;
    const std::size_t size = vectors.length;
    const auto places = static_cast<double>(vectors.count());
    const std::vector<double> moments = second_moments::whole_matrix(mean, size, places);
    const auto [values, directions] = second_moments::eigen(moments, size, "whiten");
    double trace = 0.0;
    for (std::size_t i = 0; i < size; ++i) trace += std::max(0.0, values(i));
    double unit = std::max(trace / static_cast<double>(size), noise / places);
    if (!(unit > 0.0)) unit = 1.0;  // all examples are zeros and stay so
    matrix_ = Panels(inverse_root(values, directions, damping_ * unit), size);
  }

  /// Returns the sum over k of 1 / sqrt(lambda_k + damping) v_k v_k^T, [size, size]; negative
  /// eigenvalues count as 0. Computes a few rows at a time, so that they stay in the caches.
  static std::vector<double> inverse_root(const second_moments::EigenValues& values,
                                          const second_moments::EigenVectors& directions,
                                          double damping) {
    constexpr std::size_t kRows = 16;
    const std::size_t size = values.size();
    std::vector<double> matrix(size * size);
    for (std::size_t first = 0; first < size; first += kRows) {
      for (std::size_t k = 0; k < size; ++k) {
        const double scale = 1.0 / std::sqrt(std::max(0.0, values(k)) + damping);
        for (std::size_t i = first; i < std::min(first + kRows, size); ++i) {
          const double left = scale * directions(i, k);
          for (std::size_t j = 0; j < size; ++j) matrix[i * size + j] += left * directions(j, k);
        }
      }
    }
    return matrix;
  }

  std::optional<std::size_t> axis_;
  double damping_;
  double max_norm_;
  Panels matrix_;  ///< [channels, channels].
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Whiten>({
      .name = "whiten",
      .summary = "Channels that vary alike and independently, by the root of their second moments.",
      .reference = "Kessy et al. 2018 (ZCA); Dwork et al. 2014, algorithm 1, for the noise",
      .params = private_statistic_params({
          param::real("max_norm",
                      "Public bound on the Euclidean norm of an example, for a private statistic; "
                      "longer examples count as if shortened to it.")
              .above(0)
              .at_most(1e15)
              .optional()
              .example(10.0),
          channels::axis_param(),
          param::real("damping",
                      "Added to every eigenvalue, in units of their mean: how far channels that "
                      "hardly vary, or vary as the noise does, are blown up.")
              .above(0)
              .at_most(1e9)
              .defaults_to(0.01),
      }),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.whiten", "0.1.0", "transform/whiten", register_components)
