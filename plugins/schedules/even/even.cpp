#include "privgrad/federated.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

using namespace privgrad;

/// Divides the steps that the privacy budget allows evenly among the rounds: each round makes
/// ceil(steps left / rounds left) of them. It needs no estimates of losses, so none are paid for.
class Even final : public Schedule, public AdaptiveLocalIterations {
 public:
  explicit Even(const Params&) {}

  void start(const Horizon& horizon) override {
    if (horizon.slot == "local_iterations") return;
    throw ConfigError("even: chooses local iterations; its place is federated.local_iterations");
  }

  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }
  bool start_rounds(std::uint64_t, std::uint64_t) override { return false; }

  std::uint64_t next(const FederatedProgress& now) override {
    return (now.steps_left - 1) / now.rounds_left + 1;
  }
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Even>({
      .name = "even",
      .summary = "Local iterations of a federated run that spend the budget's steps evenly over "
                 "the rounds: ceil(steps left / rounds left), without estimates of losses.",
      .reference = "the baseline of adaptive local iterations (ali_dpfl)",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.even", "0.1.0", "schedule/even", register_components)
