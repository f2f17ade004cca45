#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "builders.hpp"
#include "dense_models.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// A public model from its folder, with a new output layer.
class Pretrained final : public Model {
 public:
  explicit Pretrained(const Params& params) : params_(params) {}

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    pretrained::Body body = read(input.features);
    network.nodes = std::move(body.nodes);
    const std::string pool = params_.has("pool")      ? params_.text("pool")
                             : body.begins_with_class ? "first"
                                                      : "mean";
    if (pool == "first") {
      network.nodes.emplace_back(PickPlace{.place = 0});
    } else {
      std::vector<std::size_t> from{network.nodes.size()};
      if (body.mask != 0) from.push_back(body.mask);
      network.nodes.emplace_back(MeanOfPlaces{}, from);
    }
    network.nodes.emplace_back(Dense{dense_models::outputs_for(network.loss, input)},
                               std::vector<std::size_t>{}, "output");
    check_network(network);
    return network;
  }

  void initialise(const Network& network, RandomStream& random,
                  std::span<float> parameters) const override {
    dense_models::initialise(dense_models::rule_for(params_, network), network, random, parameters);
  }

  std::vector<TensorSource> sources(const Network& network) const override {
    return read(network.input.features).sources;
  }

 private:
  pretrained::Body read(const Shape& features) const {
    pretrained::Folder folder(params_.text("path"));
    return pretrained::body_of(folder, features);
  }

  Params params_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Model, Pretrained>({
      .name = "pretrained",
      .summary = "A public model of the families bert, distilbert or vit, with a new output layer.",
      .reference = "Devlin et al. 2019; Sanh et al. 2019; Dosovitskiy et al. 2021",
      .params =
          {
              path("path",
                   "The folder with config.json and model.safetensors, as Hugging Face's "
                   "transformers writes it. Its weights are those of model.weights unless that "
                   "names another file. Tensors keep their names; the new layer is `output`.")
                  .of_folder()
                  .example("MiniLM"),
              text("pool",
                   "What is classified: the mean of the places that have tokens, or the first "
                   "place. If not given, the first for vit, and the mean for others.")
                  .one_of({"mean", "first"})
                  .optional(),
              dense_models::loss_parameter(),
              dense_models::class_weights_parameter(),
              dense_models::rule_parameter(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.pretrained", "0.1.0", "model/pretrained", register_components)
