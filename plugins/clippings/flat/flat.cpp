#include <algorithm>

#include "../norms.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// g -> g min(1, C / ||g||): the projection on the ball of radius C.
class Flat final : public Clipping, public HasClipRule {
 public:
  explicit Flat(const Params&) {}

  void start(std::span<const ParameterGroup>) override {}

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm = clippings::whole_norm(squared_norms);
    std::ranges::fill(factors, clippings::clip_to(clip_norm, norm));
  }

  ClipRule clip_rule(double clip_norm) const override {
    return {.kind = ClipRule::Kind::shorten, .bounds = {clip_norm}};
  }
};

void register_components(Registrar& registrar) {
  registrar.add<Clipping, Flat>({
      .name = "flat",
      .summary = "Gradients longer than clip_norm are scaled down to it, the others left alone.",
      .reference = "Abadi et al. 2016, Algorithm 1",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.flat", "0.1.0", "clipping/flat", register_components)
