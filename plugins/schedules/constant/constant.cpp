#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

using namespace privgrad;

/// The same value at every step. A bare number in a manifest means this schedule.
class Constant final : public Schedule {
 public:
  explicit Constant(const Params& params) : value_(params.real("value")) {}

  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return value_; }
  bool is_shape() const override { return false; }

 private:
  double value_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Constant>({
      .name = "constant",
      .summary = "The same value at every step; a bare number means this.",
      .reference = "none: a definition",
      .params = {param::real("value", "The value.").at_least(0).example(1.0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.constant", "0.1.0", "schedule/constant", register_components)
