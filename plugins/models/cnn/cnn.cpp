
#include "dense_models.hpp"
#include "layer_list.hpp"
#include "presets.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Any stack of convolutions, pools, norms, dense layers, activations and shortcuts, followed by
/// the output layer.
class Cnn final : public dense_models::DenseModel {
 public:
  explicit Cnn(const Params& params) : DenseModel(params), links_(hidden_layers(params)) {}

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    std::vector<ChainLink> chain = links_;
    chain.push_back(Dense{dense_models::outputs_for(network.loss, input)});
    network.nodes = nodes_of(input, chain);
    check_network(network);
    return network;
  }

 private:
  static std::vector<ChainLink> hidden_layers(const Params& params) {
    if (params.has("preset") && params.has("layers")) {
      throw ConfigError("cnn: give one of preset and layers, not both");
    }
    std::optional<ActivationKind> activation;
    if (params.has("activation")) {
      activation = activation_from_text(params.text("activation"));
    }
    if (!params.has("layers")) {
      return cnn::preset(params.has("preset") ? params.text("preset") : "lenet", activation);
    }
    if (activation) {
      throw ConfigError("cnn: activation is for presets; among layers, name it where it stands");
    }
    return layer_list::chain_from(params.objects("layers"));
  }

  std::vector<ChainLink> links_;
};

ParamSpec layers_parameter() {
  const auto entry = [](Value::Object members) { return Value(std::move(members)); };
  return layer_list::parameter(
             layer_list::Form::chain, "layers",
             "The layers, from the input on, instead of a preset. The output layer, dense with one "
             "unit for each output that the loss needs, is added at the end.")
      .optional()
      .example(Value::List{
          entry(
              {{"kind", "conv2d", {}}, {"channels", 8, {}}, {"kernel", 3, {}}, {"padding", 1, {}}}),
          entry({{"kind", "activation", {}}, {"function", "tanh", {}}}),
          entry({{"kind", "max_pool", {}}, {"window", 2, {}}})});
}

void register_components(Registrar& registrar) {
  registrar.add<Model, Cnn>({
      .name = "cnn",
      .summary = "A convolutional network: a preset, or any stack of layers.",
      .reference = "LeCun et al. 1998 (lenet); McMahan et al. 2017 (fedavg_cnn); Papernot, "
                   "Thakurta, Song, Chien and Erlingsson 2021 (tempered_sigmoid); Zagoruyko and "
                   "Komodakis 2016 (wrn_16_4)",
      .params =
          {
              param::text(
                  "preset",
                  "lenet: 5 x 5 convolutions of 6 and 16 channels with average pooling, dense 120 "
                  "and 84, tanh. fedavg_cnn: 5 x 5 convolutions of 32 and 64 channels with max "
                  "pooling, dense 512, relu. tempered_sigmoid: strided convolutions of 16 and 32 "
                  "channels with overlapping max pooling, dense 32, tanh. For images of 28 x 28 "
                  "and more. wrn_16_4: a wide residual network, 16 layers deep and 4 times as "
                  "wide, "
                  "with norms of 16 groups, relu, for images of 32 x 32. When neither this nor "
                  "layers is given: lenet.")
                  .one_of(cnn::preset_names())
                  .optional()
                  .example("fedavg_cnn"),
              layers_parameter(),
              param::text("activation", "Of a preset, instead of its own.")
                  .one_of(activation_names())
                  .optional(),
              dense_models::loss_parameter(),
              dense_models::class_weights_parameter(),
              dense_models::rule_parameter(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cnn", "0.1.0", "model/cnn", register_components)
