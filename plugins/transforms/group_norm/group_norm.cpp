#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../channels.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using namespace privgrad;

/// Normalises each group of channels of an example to mean 0 and standard deviation 1 over its
/// channels and all places: (x - mean) / max(least_std, std).
///
/// A function of only the example: nothing is learnt, and nothing is charged. Sums are double, in
/// the order of the features.
class GroupNorm final : public Transform {
 public:
  explicit GroupNorm(const Params& params)
      : groups_(static_cast<std::size_t>(params.integer("groups"))),
        axis_(channels::axis_from(params)),
        least_std_(params.real("least_std")) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    group_of(input.features);
    return input;
  }
  void fit(Dataset&) override {}
  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    const Group group = group_of(shape);
    const channels::Layout& layout = group.layout;
    const std::size_t size = group.size;
    for (std::size_t first = 0; first < layout.length; first += size) {
      const auto for_each = [&](auto use) {
        for (std::size_t b = 0; b < layout.before; ++b) {
          const std::size_t begin = (b * layout.length + first) * layout.after;
          for (std::size_t i = begin; i < begin + size * layout.after; ++i) use(i);
        }
      };
      const auto count = static_cast<double>(layout.before * size * layout.after);
      double sum = 0.0, square = 0.0;
      for_each([&](std::size_t i) { sum += static_cast<double>(features[i]); });
      const double mean = sum / count;
      for_each([&](std::size_t i) {
        const double x = static_cast<double>(features[i]) - mean;
        square += x * x;
      });
      const double deviation = std::max(least_std_, std::sqrt(square / count));
      for_each([&](std::size_t i) {
        out[i] = static_cast<float>((static_cast<double>(features[i]) - mean) / deviation);
      });
    }
  }

  std::vector<RowOperation> row_operations(const Shape& shape) const override {
    namespace row = row_operation;
    const auto [layout, size] = group_of(shape);
    const std::size_t count = layout.before * size * layout.after;
    constexpr std::size_t kMost = 2048;  // the size of a matrix is the square of this
    if (count > kMost) {
      throw ConfigError("group_norm: a group of " + std::to_string(count) +
                        " features cannot be expressed in operations, allowed are at most " +
                        std::to_string(kMost));
    }
    std::vector<double> less_mean(count * count, -1.0 / static_cast<double>(count));
    for (std::size_t i = 0; i < count; ++i) less_mean[i * count + i] += 1.0;
    const double root = std::sqrt(static_cast<double>(count));
    row::Concatenate groups;
    std::vector<std::size_t> back(element_count(shape));
    std::size_t at = 0;
    for (std::size_t first = 0; first < layout.length; first += size) {
      row::Take take;
      for (std::size_t b = 0; b < layout.before; ++b) {
        const std::size_t begin = (b * layout.length + first) * layout.after;
        for (std::size_t i = begin; i < begin + size * layout.after; ++i) {
          take.from.push_back(i);
          back[i] = at++;
        }
      }
      groups.branches.push_back({{std::move(take), row::Project{count, less_mean},
                                  row::DivideByNorm{least_std_ * root}, row::Multiply{{root}}}});
    }
    return {std::move(groups), row::Take{std::move(back)}};
  }

  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }

 private:
  struct Group {
    channels::Layout layout;
    std::size_t size;  ///< Channels in a group.
  };

  Group group_of(const Shape& shape) const {
    const channels::Layout layout = channels::layout_of(shape, axis_, "group_norm");
    if (layout.length % groups_ != 0) {
      throw ConfigError("group_norm: groups is " + std::to_string(groups_) +
                        ", which does not divide the " + std::to_string(layout.length) +
                        " channels of an example of " + to_text(shape));
    }
    return {layout, layout.length / groups_};
  }

  std::size_t groups_;
  std::optional<std::size_t> axis_;
  double least_std_;
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, GroupNorm>({
      .name = "group_norm",
      .summary = "Each group of an example's channels to mean 0 and standard deviation 1.",
      .reference = "Wu and He 2018, section 3; Tramer and Boneh 2021, section 2.2",
      .params =
          {
              param::integer("groups", "How many groups the channels are cut into; divides them.")
                  .at_least(1)
                  .at_most(1 << 20)
                  .defaults_to(1),
              channels::axis_param(),
              param::real("least_std",
                          "Standard deviations below count as this, so that what never varies is "
                          "not blown up.")
                  .above(0)
                  .at_most(1e30)
                  .defaults_to(1e-3),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.group_norm", "0.1.0", "transform/group_norm", register_components)
