#include <algorithm>

#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using namespace privgrad;

/// Turns each example into one row of numbers, in their order in memory.
class Flatten final : public Transform {
 public:
  explicit Flatten(const Params&) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    return {{element_count(input.features)}, input.classes};
  }

  void fit(Dataset&) override {}

  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    std::ranges::copy(features, out.begin());
  }

  std::vector<RowOperation> row_operations(const Shape&) const override { return {}; }

  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Flatten>({
      .name = "flatten",
      .summary = "Lays each example out as one row of numbers, e.g. 28 x 28 as 784.",
      .reference = "none: a definition",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.flatten", "0.1.0", "transform/flatten", register_components)
