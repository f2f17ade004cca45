#include <algorithm>
#include <cmath>
#include <vector>

#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using namespace privgrad;

/// Shortens every example that is longer than a public norm to that norm; with `exactly`, scales
/// every nonzero example to that norm.
///
/// A function of only the example: nothing is learnt, and nothing is charged. Norms are double; the
/// results are rounded to float32, which changes a norm by up to a relative 6e-8.
class MaxNorm final : public Transform {
 public:
  explicit MaxNorm(const Params& params)
      : to_(params.real("to")), least_(params.boolean("exactly") ? kTiny : to_) {}

  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    double square = 0.0;
    for (const float x : features) square += static_cast<double>(x) * static_cast<double>(x);
    const double norm = std::max(least_, std::sqrt(square));
    std::ranges::transform(features, out.begin(), [this, norm](float x) {
      return static_cast<float>(static_cast<double>(x) / norm * to_);
    });
  }

  std::vector<RowOperation> row_operations(const Shape&) const override {
    namespace row = row_operation;
    return {row::DivideByNorm{least_}, row::Multiply{{to_}}};
  }

  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }

 private:
  /// A bound below the norm of every nonzero float32 vector; the smallest such norm is 1.4e-45.
  static constexpr double kTiny = 1e-50;

  double to_;
  double least_;  ///< Smaller norms count as this number.
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, MaxNorm>({
      .name = "max_norm",
      .summary = "Shortens each example to a public norm; learns nothing and costs nothing.",
      .reference = "Tramer and Boneh 2021, section 2.2 (data normalization)",
      .params =
          {
              param::real("to", "Largest Euclidean norm of an example afterwards.")
                  .above(0)
                  .at_most(1e30)
                  .example(1.0),
              param::boolean("exactly",
                             "Whether shorter examples are lengthened to it, too; zeros stay.")
                  .defaults_to(false),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.max_norm", "0.1.0", "transform/max_norm", register_components)
