#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

using namespace privgrad;

/// The same noise at every step, as much as the budget requires. The schedule is a shape of ones,
/// which the core scales until the guarding accountant meets the target. Under zCDP the scale
/// becomes sqrt(T/R) for T steps, where R is twice the budget in rho.
class Uniform final : public Schedule {
 public:
  explicit Uniform(const Params&) {}

  void start(const Horizon&) override {}
  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return true; }
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Uniform>({
      .name = "uniform",
      .summary = "The same noise at every step, scaled to the privacy budget.",
      .reference = "Hong, Wang and Zhou 2022, uniform schedule: sigma_t^2 = T/R",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.uniform", "0.1.0", "schedule/uniform", register_components)
