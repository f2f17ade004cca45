#include <algorithm>

#include "../norms.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/powers.hpp"

namespace {

using namespace privgrad;

/// Clips like `flat`, to a clip norm that tracks a quantile of the gradient norms:
///   C <- C exp(-learning_rate (share of unclipped examples - quantile)),
/// where the core has released the share. At the right C, the share equals the quantile.
class Adaptive final : public Clipping, public AdaptiveClipNorm {
 public:
  explicit Adaptive(const Params& params)
      : quantile_(params.real("quantile")), learning_rate_(params.real("learning_rate")) {
    if (params.has("count_noise")) count_noise_ = params.real("count_noise");
  }

  void start(std::span<const ParameterGroup>) override {}

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm = clippings::whole_norm(squared_norms);
    std::ranges::fill(factors, clippings::clip_to(clip_norm, norm));
  }

  double count_noise(double expected_batch_size, double noise_multiplier) const override {
    if (count_noise_ == 0.0) return std::max(expected_batch_size / 20.0, noise_multiplier);
    if (count_noise_ <= noise_multiplier / 2.0) {
      throw ConfigError("adaptive: count_noise is " + format_number(count_noise_) +
                        ", allowed is more than half the noise multiplier, which is " +
                        format_number(noise_multiplier) +
                        ": the count costs as much as it is precise");
    }
    return count_noise_;
  }

  double next_clip_norm(double clip_norm, double unclipped) const override {
    // Limits each change of C to a factor of e^10, and keeps C a normal number, so that even very
    // large noise does not end the run.
    const double exponent = std::clamp(learning_rate_ * (unclipped - quantile_), -10.0, 10.0);
    return std::clamp(clip_norm * exponential(-exponent), 1e-30, 1e30);
  }

 private:
  double quantile_;
  double learning_rate_;
  double count_noise_ = 0.0;  // 0 if not given
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Clipping, Adaptive>({
      .name = "adaptive",
      .summary = "Flat, with a clip norm that follows a privately measured quantile of the norms.",
      .reference = "Andrew, Thakkar, McMahan and Ramaswamy 2021 (Differentially Private Learning "
                   "with Adaptive Clipping), Algorithm 1",
      .params =
          {real("quantile", "Share of the examples that is to be left unclipped.")
               .at_least(0)
               .at_most(1)
               .defaults_to(0.5),
           real("learning_rate",
                "By how much the clip norm moves: its logarithm changes by this times the "
                "difference between the measured share and the quantile.")
               .above(0)
               .at_most(10)
               .defaults_to(0.2),
           real("count_noise",
                "Standard deviation of the noise of the count of unclipped examples. It takes its "
                "share of noise_multiplier, so that both releases together cost what one without a "
                "count would. When not given: a twentieth of the expected batch size, and at least "
                "noise_multiplier.")
               .in_unit("examples")
               .above(0)
               .optional()
               .example(12.8)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.adaptive", "0.1.0", "clipping/adaptive", register_components)
