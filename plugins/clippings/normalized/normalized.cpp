#include <algorithm>

#include "../norms.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// g -> g C / ||g||. A gradient of zero has no direction, and stays zero.
class Normalized final : public Clipping, public HasClipRule {
 public:
  explicit Normalized(const Params&) {}

  void start(std::span<const ParameterGroup>) override {}

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm = clippings::whole_norm(squared_norms);
    const double factor = norm == 0.0 ? 0.0 : clip_norm / norm;
    std::ranges::fill(factors, factor);
  }

  ClipRule clip_rule(double clip_norm) const override {
    return {.kind = ClipRule::Kind::normalize, .gamma = 0.0, .bounds = {clip_norm}};
  }
};

void register_components(Registrar& registrar) {
  registrar.add<Clipping, Normalized>({
      .name = "normalized",
      .summary = "Every gradient is scaled to norm clip_norm, up or down; zero stays zero.",
      .reference = "Bu, Wang, Zha and Karypis 2022 (Automatic Clipping), AUTO-V; Das, Kale, Xu, "
                   "Zhang and Sanghavi 2022",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.normalized", "0.1.0", "clipping/normalized", register_components)
