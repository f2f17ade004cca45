#include "../decay.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// initial / (1 + rate * t), t = 0, 1, ...
class Time final : public Decay {
 public:
  explicit Time(const Params& params) : Decay("time", params), rate_(params.real("rate")) {}

  double value(std::uint64_t step) const override {
    return initial() / (1.0 + rate_ * static_cast<double>(step));
  }

  static std::vector<ParamSpec> params() {
    return {initial_param(), param::real("rate", "k in 1 / (1 + k t), t from 0.")
                                 .at_least(0)
                                 .in_unit("1/step")
                                 .example(0.05)};
  }

 private:
  double rate_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Time>({
      .name = "time",
      .summary = "initial / (1 + rate * step).",
      .reference = "Yu et al. 2019, time-based decay",
      .params = Time::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.time", "0.1.0", "schedule/time", register_components)
