#include <cmath>
#include <string>
#include <vector>

#include "../norms.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Layer l is clipped separately to C_l = C w_l / ||w||_2, so that sum_l C_l^2 = C^2: a gradient
/// with every layer at its bound has norm C.
class PerLayer final : public Clipping, public HasClipRule {
 public:
  explicit PerLayer(const Params& params) {
    if (params.has("weights")) weights_ = params.reals("weights");
  }

  void start(std::span<const ParameterGroup> groups) override {
    shares_ = weights_.empty() ? std::vector<double>(groups.size(), 1.0) : weights_;
    if (shares_.size() != groups.size()) {
      std::string layers;
      for (const ParameterGroup& group : groups) {
        layers += (layers.empty() ? "" : ", ") + group.name;
      }
      throw ConfigError("per_layer: there are " + std::to_string(shares_.size()) +
                        " weights, expected one for each of the " + std::to_string(groups.size()) +
                        " layers with parameters: " + layers);
    }
    double squares = 0.0;
    for (const double share : shares_) squares += share * share;
    for (double& share : shares_) share /= std::sqrt(squares);
  }

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    for (std::size_t layer = 0; layer < factors.size(); ++layer) {
      factors[layer] =
          clippings::clip_to(clip_norm * shares_[layer], std::sqrt(squared_norms[layer]));
    }
  }

  ClipRule clip_rule(double clip_norm) const override {
    ClipRule rule{.kind = ClipRule::Kind::shorten, .bounds = shares_};
    for (double& bound : rule.bounds) bound = clip_norm * bound;
    return rule;
  }

 private:
  std::vector<double> weights_;  // empty: all equal
  std::vector<double> shares_;   // their squares add up to 1
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Clipping, PerLayer>({
      .name = "per_layer",
      .summary = "Each layer's gradient is clipped on its own, to its share of clip_norm.",
      .reference = "McMahan, Ramage, Talwar and Zhang 2018, section 3 (per-layer clipping)",
      .params = {list("weights",
                      "Clip norms of the layers with parameters, from the input on, in proportion: "
                      "they are scaled so that the root of their summed squares is clip_norm. When "
                      "not given, all are clip_norm over the root of the number of layers.",
                      real("weight", "").at_least(1e-6).at_most(1e6))
                     .at_least_items(1)
                     .optional()
                     .example(Value::List{1.0, 2.0})},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.per_layer", "0.1.0", "clipping/per_layer", register_components)
