// The @KIND@ @NAME@.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "privgrad/clipping.hpp"
#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {

/// g -> g C / max(||g||, floor): gradients above the floor all get norm C, the others are scaled by
/// one factor.
///
/// One factor for all groups here; factors may also differ from layer to layer.
class @CLASS@ final : public privgrad::Clipping {
 public:
  static privgrad::ComponentInfo declaration() {
    namespace param = privgrad::param;
    return {
        .name = "@NAME@",
        .summary = "Gradients longer than a floor all get norm clip_norm.",
        .reference = "none: an example",
        .params = {param::real("floor", "Norm up to which gradients keep their proportions.")
                       .at_least(1e-12)
                       .example(0.1)},
    };
  }

  explicit @CLASS@(const privgrad::Params& params) : floor_(params.real("floor")) {}

  void start(std::span<const privgrad::ParameterGroup>) override {}

  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    const double norm =
        std::sqrt(std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0));
    std::fill(factors.begin(), factors.end(), clip_norm / std::max(norm, floor_));
  }

 private:
  double floor_;
};

}  // namespace @NAMESPACE@
