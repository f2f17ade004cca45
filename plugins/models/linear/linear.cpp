#include "dense_models.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// One dense layer: linear, logistic or softmax regression, depending on the loss.
class Linear final : public dense_models::DenseModel {
 public:
  explicit Linear(const Params& params) : DenseModel(params) {}

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    network.nodes = {Dense{dense_models::outputs_for(network.loss, input)}};
    check_network(network);
    return network;
  }
};

void register_components(Registrar& registrar) {
  std::vector<std::string> rules = dense_models::random_rules();
  rules.insert(rules.begin(), "zeros");
  registrar.add<Model, Linear>({
      .name = "linear",
      .summary = "One dense layer: linear, logistic or softmax regression, by its loss.",
      .reference = "none: a definition",
      .params = {dense_models::loss_parameter(), dense_models::class_weights_parameter(),
                 param::text("initialisation",
                             "How the weights begin; the problem is convex, so zeros are "
                             "as good as any. Biases begin at 0.")
                     .one_of(std::move(rules))
                     .defaults_to("zeros")},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.linear", "0.1.0", "model/linear", register_components)
