#include <algorithm>

#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using privgrad::Dataset;
using privgrad::ExampleShape;

/// Turns each example into one row of numbers, in their order in memory.
class Flatten final : public privgrad::Transform {
 public:
  explicit Flatten(const privgrad::Params&) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    return {{privgrad::element_count(input.features)}, input.classes};
  }

  void fit(Dataset&) override {}

  void apply_row(const privgrad::Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    std::copy(features.begin(), features.end(), out.begin());
  }

  std::vector<privgrad::RowOperation> row_operations(const privgrad::Shape&) const override {
    return {};
  }

  privgrad::Statistic statistic() const override { return privgrad::Statistic::none; }
  bool is_by_row() const override { return true; }
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Transform, Flatten>({
      .name = "flatten",
      .summary = "Lays each example out as one row of numbers, e.g. 28 x 28 as 784.",
      .reference = "none: a definition",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.flatten", "0.1.0", "transform/flatten", register_components)
