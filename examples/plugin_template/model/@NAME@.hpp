// The @KIND@ @NAME@.
#pragma once

#include <cmath>

#include "privgrad/model.hpp"
#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {

/// One hidden tanh layer, then a softmax over the classes; or, for real targets, one output and the
/// squared loss.
class @CLASS@ final : public privgrad::Model {
 public:
  static privgrad::ComponentInfo declaration() {
    namespace param = privgrad::param;
    return {
        .name = "@NAME@",
        .summary = "A network with one hidden tanh layer.",
        .reference =
            "LeCun, Bottou, Orr and Mueller 1998, Efficient BackProp, section 4.6 (initial weights)",
        .params = {param::integer("hidden", "Units of the hidden layer.").at_least(1).example(16)},
    };
  }

  explicit @CLASS@(const privgrad::Params& params)
      : hidden_(static_cast<std::size_t>(params.integer("hidden"))) {}

  privgrad::Network network(const privgrad::ExampleShape& input) const override {
    const bool classifies = input.classes > 0;
    privgrad::Network network;
    network.input = input;
    network.nodes = {privgrad::Dense{hidden_},
                     privgrad::Activation{privgrad::ActivationKind::tanh},
                     privgrad::Dense{classifies ? input.classes : 1}};
    network.loss = classifies ? privgrad::Loss::cross_entropy : privgrad::Loss::squared;
    privgrad::check_network(network);
    return network;
  }

  /// Weights from N(0, 1 / fan_in), which keeps the size of the signal through the layers; biases
  /// 0.
  void initialise(const privgrad::Network& network, privgrad::RandomStream& random,
                  std::span<float> parameters) const override {
    for (const privgrad::ParameterBlock& block : privgrad::parameter_blocks(network)) {
      const auto values = parameters.subspan(block.offset, privgrad::element_count(block.shape));
      if (block.fan_in == 0) {
        for (float& value : values) value = 0.0f;
        continue;
      }
      random.fill_normal(values);
      const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(block.fan_in)));
      for (float& value : values) value *= scale;
    }
  }

 private:
  std::size_t hidden_;
};

}  // namespace @NAMESPACE@
