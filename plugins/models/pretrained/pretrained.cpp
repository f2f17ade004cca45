#include <map>
#include <mutex>
#include <optional>
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
class Pretrained final : public dense_models::DenseModel {
 public:
  explicit Pretrained(const Params& params) : DenseModel(params) {}

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    pretrained::Body body = read(input.features);
    network.nodes = std::move(body.nodes);
    if (network.loss == Loss::next_token) {
      add_next_tokens(body, network);
    } else {
      add_pool(body, network);
      network.nodes.emplace_back(Dense{dense_models::outputs_for(network.loss, input)},
                                 std::vector<std::size_t>{}, "output");
    }
    check_network(network);
    return network;
  }

  std::vector<TensorSource> sources(const Network& network) const override {
    return read(network.input.features).sources;
  }

  std::map<std::string, std::string> files() const override {
    return {{"path/config.json", folder().text()}};
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw ConfigError("pretrained: " + what);
  }

  /// Adds the output layer of the folder's own model.
  void add_next_tokens(const pretrained::Body& body, Network& network) const {
    if (!body.is_causal) {
      refuse(
          "loss: next_token needs a model of the families gpt2, llama, mistral or qwen2; in this "
          "folder's model each place sees the token that it would predict");
    }
    if (params_.has("pool"))
      refuse("pool needs a loss with one output per sequence; next_token has one per place");
    const auto& table = std::get<Embedding>(network.nodes[body.table].layer);
    const Dense output{.units = table.vocabulary, .per_place = true, .no_bias = true};
    network.nodes.emplace_back(output, std::vector<std::size_t>{}, "lm_head");
    if (body.is_tied) network.nodes.back().shares = body.table;
  }

  /// Adds the node that picks one place, or averages all places, to classify.
  void add_pool(const pretrained::Body& body, Network& network) const {
    const std::string otherwise = body.begins_with_class ? "first"
                                  : body.is_causal       ? "last"
                                                         : "mean";
    const std::string pool = params_.has("pool") ? params_.text("pool") : otherwise;
    if (pool == "first") {
      if (body.is_causal)
        refuse(
            "pool: first would see only the first token, because attention is causal; use last or "
            "mean");
      network.nodes.emplace_back(PickPlace{.place = 0});
      return;
    }
    if (pool == "last" && body.mask == 0)
      refuse("pool: last needs tokens; for images use first or mean");
    std::vector<std::size_t> from{network.nodes.size()};
    if (body.mask != 0) from.push_back(body.mask);
    if (pool == "last") {
      network.nodes.emplace_back(PickPlace{.last = true}, from);
    } else {
      network.nodes.emplace_back(MeanOfPlaces{}, from);
    }
  }

  /// Returns the folder, which is read once.
  const pretrained::Folder& folder() const {
    std::call_once(once_, [&] { folder_.emplace(params_.text("path")); });
    return *folder_;
  }

  pretrained::Body read(const Shape& features) const {
    pretrained::Folder copy = folder();  // builders mark known members
    return pretrained::body_of(copy, features);
  }

  mutable std::once_flag once_;
  mutable std::optional<pretrained::Folder> folder_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Model, Pretrained>({
      .name = "pretrained",
      .summary = "A public model of the families bert, distilbert, vit, gpt2, llama, mistral or "
                 "qwen2, with a new output layer.",
      .reference = "Devlin et al. 2019; Sanh et al. 2019; Dosovitskiy et al. 2021; Radford et al. "
                   "2019; Touvron et al. 2023; Jiang et al. 2023; Yang et al. 2024",
      .params =
          {
              path("path",
                   "The folder with config.json and model.safetensors, as Hugging Face's "
                   "transformers writes it. Its weights are the initial ones, unless "
                   "model.weights names another file. Tensors keep their names; the new layer is "
                   "`output`, or, with loss: next_token, the folder's `lm_head`.")
                  .of_folder()
                  .example("MiniLM"),
              text("pool",
                   "The input of the output layer: the mean over the places that have tokens, the "
                   "first place, or the last place that has a token. If not given, mean for bert "
                   "and distilbert, first for vit, and last for the causal families.")
                  .one_of({"mean", "first", "last"})
                  .optional(),
              dense_models::loss_parameter(true),
              dense_models::class_weights_parameter(),
              dense_models::rule_parameter(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.pretrained", "0.1.0", "model/pretrained", register_components)
