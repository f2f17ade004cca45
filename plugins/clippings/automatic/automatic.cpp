#include <algorithm>

#include "../norms.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// g -> g C / (||g|| + gamma): every contribution is shorter than C, and their order by length is
/// preserved. For an optimizer that is linear in the gradient, only the product of C and the
/// learning rate matters.
class Automatic final : public Clipping, public HasClipRule {
 public:
  explicit Automatic(const Params& params) : gamma_(params.real("gamma")) {}

  void start(std::span<const ParameterGroup>) override {}

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm = clippings::whole_norm(squared_norms);
    std::ranges::fill(factors, clip_norm / (norm + gamma_));
  }

  ClipRule clip_rule(double clip_norm) const override {
    return {.kind = ClipRule::Kind::normalize, .gamma = gamma_, .bounds = {clip_norm}};
  }

 private:
  double gamma_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Clipping, Automatic>({
      .name = "automatic",
      .summary = "Gradients are scaled by clip_norm / (norm + gamma): there is no threshold.",
      .reference = "Bu, Wang, Zha and Karypis 2022 (Automatic Clipping), AUTO-S",
      .params = {real(
                     "gamma",
                     "Gradients much longer than this are normalised, much shorter ones multiplied "
                     "by clip_norm / gamma.")
                     .at_least(1e-12)
                     .defaults_to(0.01)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.automatic", "0.1.0", "clipping/automatic", register_components)
