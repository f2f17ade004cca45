#include "dense_models.hpp"
#include "layer_list.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Any graph of layers, each of which uses values of earlier layers, followed by the output layer.
class Graph final : public dense_models::DenseModel {
 public:
  explicit Graph(const Params& params)
      : DenseModel(params), nodes_(layer_list::graph_from(params.objects("nodes"))) {}

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    network.nodes = nodes_;
    network.nodes.emplace_back(output_layer(network));
    check_network(network);
    return network;
  }

 private:
  /// \param network  contains all other nodes.
  static Dense output_layer(const Network& network) {
    if (network.loss != Loss::next_token)
      return {.units = dense_models::outputs_for(network.loss, network.input)};
    Network before = network;
    before.loss = Loss::squared;  // a loss that needs no vocabulary
    const std::size_t vocabulary = vocabulary_of(before);
    if (vocabulary == 0)
      throw ConfigError(
          "graph: the loss next_token needs an embedding, which says what is a token");
    return {.units = vocabulary, .per_place = true};
  }

  std::vector<Node> nodes_;
};

ParamSpec nodes_parameter() {
  const auto entry = [](Value::Object members) { return Value(std::move(members)); };
  return layer_list::parameter(
             layer_list::Form::graph, "nodes",
             "The layers in an order in which each works on values of earlier ones; every value is "
             "used. The output layer, dense with one unit for each output that the loss needs, or "
             "for next_token at each place with one for each token of the smallest vocabulary, is "
             "added at the end and works on the last value.")
      .example(Value::List{
          entry({{"name", "a", {}}, {"kind", "dense", {}}, {"units", 16, {}}}),
          entry({{"name", "f", {}}, {"kind", "activation", {}}, {"function", "tanh", {}}}),
          entry({{"name", "b", {}}, {"kind", "dense", {}}, {"units", 16, {}}}),
          entry({{"kind", "add", {}}, {"from", Value::List{"a", "b"}, {}}})});
}

void register_components(Registrar& registrar) {
  registrar.add<Model, Graph>({
      .name = "graph",
      .summary = "Any network: layers that name the values they work on.",
      .reference = "He, Zhang, Ren and Sun 2016 (residual blocks)",
      .params = {nodes_parameter(), dense_models::loss_parameter(true),
                 dense_models::class_weights_parameter(), dense_models::rule_parameter()},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.graph", "0.1.0", "model/graph", register_components)
