#include <algorithm>
#include <string>
#include <vector>

#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

using namespace privgrad;

/// The listed values, one per step. The list may be longer than the run, or shorter if the last
/// value is used for the remaining steps.
class List final : public Schedule {
 public:
  explicit List(const Params& params)
      : values_(params.reals("values")),
        shape_(params.boolean("as_shape")),
        holds_(params.boolean("hold")) {
    if (shape_ && *std::ranges::min_element(values_) <= 0.0) {
      throw ConfigError("list: every value of a shape must be above 0");
    }
  }

  void start(const Horizon& horizon) override {
    if (!holds_ && values_.size() < horizon.steps) {
      throw ConfigError("list: has " + std::to_string(values_.size()) +
                        " value(s), expected one for each of the " + std::to_string(horizon.steps) +
                        " steps; hold: true keeps the last one");
    }
  }

  double value(std::uint64_t step) const override {
    return holds_ && step >= values_.size() ? values_.back() : values_.at(step);
  }
  bool is_shape() const override { return shape_; }

 private:
  std::vector<double> values_;
  bool shape_, holds_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Schedule, List>({
      .name = "list",
      .summary = "The values as written, one per step.",
      .reference = "none: a definition",
      .params =
          {list("values",
                "One value per step, at least as many as steps unless the last one holds.",
                real("value", "").at_least(0))
               .at_least_items(1)
               .example(Value::List{1.0, 0.5}),
           boolean("as_shape",
                   "true: only the proportions are meant, and the values, all above 0, are scaled "
                   "to the privacy budget (noise_multiplier only).")
               .defaults_to(false),
           boolean("hold", "Whether the last value also holds for all later steps.")
               .defaults_to(false)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.list", "0.1.0", "schedule/list", register_components)
