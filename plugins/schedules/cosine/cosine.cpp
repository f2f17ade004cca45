#include <cmath>
#include <numbers>

#include "../decay.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// With w = warmup and T steps:
///   t < w:   initial * (t + 1) / (w + 1), a line that would reach `initial` at t = w;
///   t >= w:  final + (initial - final) (1 + cos(pi (t - w) / (T - 1 - w))) / 2: `initial` at w,
///            `final` at the last step, if the last step is after w.
class Cosine final : public Decay {
 public:
  explicit Cosine(const Params& params)
      : Decay("cosine", params),
        final_(params.real("final")),
        warmup_(static_cast<std::uint64_t>(params.integer("warmup"))) {}

  double value(std::uint64_t step) const override {
    if (step < warmup_) {
      return initial() * (static_cast<double>(step + 1) / static_cast<double>(warmup_ + 1));
    }
    const std::uint64_t length = steps() - 1 - warmup_;
    if (length == 0) return initial();
    const double done = static_cast<double>(step - warmup_) / static_cast<double>(length);
    return std::lerp(final_, initial(), 0.5 + 0.5 * std::cos(std::numbers::pi * done));
  }

  static std::vector<ParamSpec> params() {
    return {initial_param(),
            param::real("final",
                        "Value at the last step; without initial, relative to the highest one.")
                .at_least(0)
                .example(0.1),
            param::integer("warmup", "Steps of linear rise before the decay.")
                .at_least(0)
                .in_unit("steps")
                .defaults_to(0)};
  }

 private:
  void prepare() override {
    if (warmup_ >= steps()) {
      throw ConfigError("cosine: warmup is " + std::to_string(warmup_) +
                        ", allowed are fewer than the " + std::to_string(steps()) +
                        " step(s) of the run");
    }
  }

  double final_;
  std::uint64_t warmup_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Cosine>({
      .name = "cosine",
      .summary = "Half a cosine from initial to final, after an optional linear warm-up.",
      .reference = "Loshchilov and Hutter 2017, Eq. 5, without restarts",
      .params = Cosine::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cosine", "0.1.0", "schedule/cosine", register_components)
