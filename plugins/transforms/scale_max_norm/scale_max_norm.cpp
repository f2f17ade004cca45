#include <algorithm>
#include <cmath>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using namespace privgrad;

/// Multiplies all examples by one factor: `to` divided by the largest Euclidean norm of a training
/// example.
///
/// Test examples get the same factor and may end above `to`. With a public `max_norm` the factor is
/// to / max_norm, and every example (of every split) that is still longer than `to` is shortened to
/// `to`. The bound thus holds for all rows, and nothing is learnt from them. Norms are double; the
/// results are rounded to float32, which changes a norm by up to a relative 6e-8.
class ScaleMaxNorm final : public Transform {
 public:
  explicit ScaleMaxNorm(const Params& params)
      : to_(params.real("to")), statistic_(statistic_from(params)), given_(params.has("max_norm")) {
    if (!given_) return;
    statistic_ = Statistic::is_public;
    max_norm_ = params.real("max_norm");
  }

  ExampleShape output_shape(const ExampleShape& input) const override { return input; }

  void fit(Dataset& train) override {
    if (given_) return;
    double max_norm = 0.0;
    const auto features = train.features();
    for (std::size_t row = 0; row < train.rows(); ++row) {
      max_norm =
          std::max(max_norm, norm(features.subspan(row * train.row_size(), train.row_size())));
    }
    if (max_norm == 0.0) {
      throw IoError(
          "scale_max_norm: all training examples are 0, so no factor gives them the norm " +
          format_number(to_));
    }
    max_norm_ = max_norm;
  }

  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    if (max_norm_ == 0.0) {
      throw PluginError("scale_max_norm: apply() was called before fit()");
    }
    const double longest = given_ ? std::max(max_norm_, norm(features)) : max_norm_;
    std::ranges::transform(features, out.begin(), [this, longest](float x) {
      return static_cast<float>(static_cast<double>(x) / longest * to_);
    });
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{"max_norm", {1}, {max_norm_}}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 1)
      throw ConfigError("scale_max_norm: expected only the fitted tensor max_norm");
    const double norm = find_fitted(values, "scale_max_norm", "max_norm", {1}).values.front();
    if (!(norm > 0.0))
      throw ConfigError("scale_max_norm: the fitted tensor max_norm is " + format_number(norm) +
                        ", expected more than 0");
    if (given_ && norm != max_norm_) {
      throw ConfigError("scale_max_norm: the fitted tensor max_norm is not the one that was given");
    }
    max_norm_ = norm;
  }

  std::vector<RowOperation> row_operations(const Shape&) const override {
    namespace row = row_operation;
    if (given_) return {row::DivideByNorm{max_norm_}, row::Multiply{{to_}}};
    return {row::Divide{{max_norm_}}, row::Multiply{{to_}}};
  }

  Statistic statistic() const override { return statistic_; }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }

 private:
  /// The square of a float32 is exact in double, without overflow or underflow, so the bits do not
  /// depend on whether a compiler fuses the square with the sum. The sum is in the order of the
  /// features.
  static double norm(std::span<const float> row) {
    double square = 0.0;
    for (const float x : row) square += static_cast<double>(x) * static_cast<double>(x);
    return std::sqrt(square);
  }

  double to_;
  Statistic statistic_;
  bool given_;
  double max_norm_ = 0.0;  ///< 0 until the norm is known.
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, ScaleMaxNorm>({
      .name = "scale_max_norm",
      .summary = "One factor for all examples, so that the longest training example has norm `to`.",
      .reference = "Hong et al., Appendix D, setup (the data scale)",
      .params =
          {
              param::real("to", "Largest Euclidean norm of an example afterwards.")
                  .above(0)
                  .at_most(1e30)
                  .example(10.0),
              param::real("max_norm",
                          "Public bound on the norm before, to use instead of the largest training "
                          "norm; longer examples are shortened to it.")
                  .above(0)
                  .optional(),
              statistics_param(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.scale_max_norm", "0.1.0", "transform/scale_max_norm", register_components)
