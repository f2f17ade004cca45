#include "dense_models.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Dense layers with an activation between them.
class Mlp final : public dense_models::DenseModel {
 public:
  explicit Mlp(const Params& params)
      : DenseModel(params), activation_(activation_from_text(params.text("activation"))) {}

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    for (const std::int64_t units : params_.integers("hidden")) {
      network.nodes.push_back(Dense{static_cast<std::size_t>(units)});
      network.nodes.push_back(Activation{activation_});
    }
    network.nodes.push_back(Dense{dense_models::outputs_for(network.loss, input)});
    check_network(network);
    return network;
  }

 private:
  ActivationKind activation_;
};

void register_components(Registrar& registrar) {
  registrar.add<Model, Mlp>({
      .name = "mlp",
      .summary = "A multilayer perceptron: dense layers with an activation between them.",
      .reference =
          "none: a definition; initialisation after He et al. 2015, Glorot and Bengio 2010",
      .params =
          {
              param::list("hidden", "Units of each hidden layer, from the input on.",
                          param::integer("units", "Units of one hidden layer.").at_least(1))
                  .at_least_items(1)
                  .defaults_to(Value::List{1000}),
              param::text("activation", "After every hidden layer.")
                  .one_of(activation_names())
                  .defaults_to("relu"),
              dense_models::loss_parameter(),
              dense_models::class_weights_parameter(),
              param::text(
                  "initialisation",
                  "How the weights begin; biases begin at 0. When not given: he_normal for "
                  "relu, glorot_uniform for the others. Zeros are not offered: every unit of "
                  "a layer would learn the same.")
                  .one_of(dense_models::random_rules())
                  .optional(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.mlp", "0.1.0", "model/mlp", register_components)
