// A plugin for the test of the wheel: a schedule that halves its value every `period` steps.
#include <cmath>
#include <cstdint>

#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

namespace param = privgrad::param;

class Halves final : public privgrad::Schedule {
 public:
  explicit Halves(const privgrad::Params& params)
      : first_(params.real("first")), period_(static_cast<double>(params.integer("period"))) {}

  void start(const privgrad::Horizon&) override {}
  double value(std::uint64_t step) const override {
    return first_ * std::exp2(-std::floor(static_cast<double>(step) / period_));
  }
  bool is_shape() const override { return false; }

 private:
  double first_, period_;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Schedule, Halves>(
      {.name = "halves",
       .summary = "Halves its value every so many steps.",
       .reference = "a definition",
       .params = {param::real("first", "The first value.").above(0).defaults_to(1.0),
                  param::integer("period", "Steps.").at_least(1).defaults_to(10)}});
}

}  // namespace

PRIVGRAD_PLUGIN("test.halves", "0.1.0", "schedule/halves", register_components)
