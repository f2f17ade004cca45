#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dense_models.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// A preset's values for keys that the manifest omits.
struct Preset {
  const char *norm, *positions, *activation, *pool;
  bool causal, gated;
};

Preset preset_of(const std::string& name) {
  if (name == "decoder") return {"rms", "rotary", "silu", "last", true, true};
  if (name == "vision") return {"layer", "learned", "gelu", "first", false, false};
  return {"layer", "learned", "gelu", "mean", false, false};
}

/// Appends nodes, and stores the number of the last value.
class Nodes {
 public:
  /// \returns the number of the node's output value.
  std::size_t add(Layer layer, std::vector<std::size_t> from = {}, std::string name = "") {
    nodes_.emplace_back(std::move(layer));
    nodes_.back().from = std::move(from);
    nodes_.back().name = std::move(name);
    return nodes_.size();
  }
  std::size_t last() const { return nodes_.size(); }
  std::vector<Node> take() && { return std::move(nodes_); }

 private:
  std::vector<Node> nodes_;
};

/// A model of blocks of attention and dense layers, for sequences of tokens or of image patches.
class Transformer final : public dense_models::DenseModel {
 public:
  explicit Transformer(const Params& params)
      : DenseModel(params), is_vision_(params.text("preset") == "vision") {
    if (!is_vision_ && params.has("patch")) refuse("patch needs the preset vision");
    if (is_vision_ == params.has("vocabulary")) {
      refuse(is_vision_ ? "vocabulary needs tokens, which the preset vision does not have"
                        : "the presets encoder and decoder need vocabulary");
    }
    if (is_vision_ && text("pool") == "last")
      refuse("pool: last needs tokens; for images use first or mean");
    if (!is_vision_ && text("pool") == "first" && holds("causal"))
      refuse(
          "pool: first would see only the first token, because attention is causal; use last or "
          "mean");
    if (params.boolean("tied") && !predicts_tokens())
      refuse("tied needs loss: next_token, whose outputs are tokens");
    if (!predicts_tokens()) return;
    if (is_vision_) refuse("loss: next_token needs tokens, which the preset vision does not have");
    if (!holds("causal"))
      refuse(
          "loss: next_token needs causal: true; otherwise places would see the tokens that they "
          "predict");
    if (params.has("pool"))
      refuse("pool needs a loss with one output per sequence; next_token has one per place");
  }

  Network network(const ExampleShape& input) const override {
    Network network = dense_models::begun_network(params_, input);
    network.nodes = nodes(input.features);
    Dense output = predicts_tokens() ? dense(size("vocabulary"))
                                     : Dense{dense_models::outputs_for(network.loss, input)};
    output.no_bias = output.no_bias || params_.boolean("tied");
    network.nodes.emplace_back(output, std::vector<std::size_t>{}, "output");
    if (params_.boolean("tied")) network.nodes.back().shares = kTable;
    check_network(network);
    return network;
  }

 private:
  static constexpr std::size_t kTable = 1;  // the node of the tokens' table

  [[noreturn]] static void refuse(const std::string& what) {
    throw ConfigError("transformer: " + what);
  }

  bool predicts_tokens() const {
    return params_.has("loss") && params_.text("loss") == to_text(Loss::next_token);
  }
  std::size_t size(const char* name) const {
    return static_cast<std::size_t>(params_.integer(name));
  }
  std::size_t size(const char* name, std::size_t otherwise) const {
    return params_.has(name) ? size(name) : otherwise;
  }
  std::string text(const std::string& name) const {
    if (params_.has(name)) return params_.text(name);
    const Preset preset = preset_of(params_.text("preset"));
    if (name == "norm") return preset.norm;
    if (name == "positions") return preset.positions;
    return name == "activation" ? preset.activation : preset.pool;
  }
  bool holds(const std::string& name) const {
    if (params_.has(name)) return params_.boolean(name);
    const Preset preset = preset_of(params_.text("preset"));
    return name == "causal" ? preset.causal : preset.gated;
  }

  Layer norm() const {
    if (text("norm") == "rms") return RmsNorm{.epsilon = 1e-6};
    return LayerNorm{};
  }
  /// Returns a dense layer for each place; with RMS norms it has no biases, as is customary.
  Dense dense(std::size_t units) const {
    return {.units = units, .per_place = true, .no_bias = text("norm") == "rms"};
  }

  std::vector<Node> nodes(const Shape& features) const {
    Nodes nodes;
    std::optional<std::size_t> mask;
    if (is_vision_) {
      add_patches(features, nodes);
    } else {
      mask = nodes.add(TokenMask{}, {0});
      nodes.add(Embedding{.vocabulary = size("vocabulary"), .width = size("width")}, {0}, "tokens");
    }
    if (text("positions") == "learned") nodes.add(Positions{}, {}, "positions");
    const bool norm_first = params_.boolean("norm_first");
    if (!norm_first) nodes.add(norm(), {}, "norm");
    for (std::size_t block = 0; block < size("layers"); ++block)
      add_block(nodes, "blocks." + std::to_string(block), norm_first, mask);
    if (norm_first) nodes.add(norm(), {}, "norm");
    if (!predicts_tokens()) add_pool(nodes, mask);
    return std::move(nodes).take();
  }

  /// Adds nodes that turn an image's patches into a sequence.
  void add_patches(const Shape& features, Nodes& nodes) const {
    const std::size_t patch = size("patch", 4);
    const Conv2d cut{.channels = size("width"), .kernel = patch, .stride = patch};
    const Shape grid = output_shape(cut, {features});
    nodes.add(cut, {}, "patches");
    nodes.add(Reshape{{grid[0] * grid[1], grid[2]}});
    if (text("pool") == "first") nodes.add(Prepend{}, {}, "class_token");
  }

  void add_block(Nodes& nodes, const std::string& name, bool norm_first,
                 std::optional<std::size_t> mask) const {
    const std::size_t width = size("width"), heads = size("heads");
    const std::size_t key_heads = size("key_heads", heads);
    if (width % heads != 0)
      refuse("heads " + std::to_string(heads) + " does not divide width " + std::to_string(width));
    if (heads % key_heads != 0)
      refuse("key_heads " + std::to_string(key_heads) + " does not divide heads " +
             std::to_string(heads));
    std::size_t entering = nodes.last();
    std::size_t seen = norm_first ? nodes.add(norm(), {}, name + ".attention_norm") : entering;
    const std::size_t keys = width / heads * key_heads;
    std::vector<std::size_t> looks{nodes.add(dense(width), {seen}, name + ".query"),
                                   nodes.add(dense(keys), {seen}, name + ".key"),
                                   nodes.add(dense(keys), {seen}, name + ".value")};
    if (mask) looks.push_back(*mask);
    nodes.add(
        Attention{.heads = heads,
                  .key_heads = key_heads,
                  .causal = holds("causal"),
                  .rotary = text("positions") == "rotary" ? params_.real("rotary_base") : 0.0},
        looks);
    nodes.add(dense(width), {}, name + ".attention_output");
    entering = nodes.add(Add{}, {entering, nodes.last()});
    if (!norm_first) entering = nodes.add(norm(), {}, name + ".attention_norm");
    seen = norm_first ? nodes.add(norm(), {}, name + ".feed_forward_norm") : entering;
    add_feed_forward(nodes, name, seen);
    nodes.add(Add{}, {entering, nodes.last()});
    if (!norm_first) nodes.add(norm(), {}, name + ".feed_forward_norm");
  }

  void add_feed_forward(Nodes& nodes, const std::string& name, std::size_t seen) const {
    const std::size_t width = size("width"), inner = size("feed_forward", 4 * width);
    const Activation activation{activation_from_text(text("activation"))};
    if (holds("gated")) {
      nodes.add(dense(inner), {seen}, name + ".gate");
      const std::size_t gate = nodes.add(activation);
      const std::size_t up = nodes.add(dense(inner), {seen}, name + ".up");
      nodes.add(ElementwiseProduct{}, {gate, up});
    } else {
      nodes.add(dense(inner), {seen}, name + ".up");
      nodes.add(activation);
    }
    nodes.add(dense(width), {}, name + ".down");
  }

  void add_pool(Nodes& nodes, std::optional<std::size_t> mask) const {
    if (text("pool") == "first") {
      nodes.add(PickPlace{.place = 0});
      return;
    }
    std::vector<std::size_t> from{nodes.last()};
    if (mask) from.push_back(*mask);
    if (text("pool") == "last") {
      nodes.add(PickPlace{.last = true}, from);
    } else {
      nodes.add(MeanOfPlaces{}, from);
    }
  }

  bool is_vision_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  const auto extent = [](const char* name, const char* doc) {
    return integer(name, doc).at_least(1).at_most(65536);
  };
  registrar.add<Model, Transformer>({
      .name = "transformer",
      .summary = "Blocks of attention and dense layers, for tokens or for patches of images.",
      .reference = "Vaswani et al. 2017; Dosovitskiy et al. 2021 (vision)",
      .params =
          {
              text("preset",
                   "encoder: tokens, every place sees all others, the mean of the places is "
                   "classified. decoder: tokens, each place sees earlier ones, with rotary "
                   "positions, gated silu and norms of the mean square, the last place is "
                   "classified; with loss: next_token, each place predicts the token behind it. "
                   "vision: an image cut into patches, with a class token that is "
                   "classified. The keys below that a preset sets may be given instead.")
                  .one_of({"encoder", "decoder", "vision"})
                  .defaults_to("vision"),
              integer(
                  "vocabulary",
                  "encoder, decoder: tokens; they are 0, 1, ..., and -1 is an empty place behind "
                  "the last token of a sequence.")
                  .at_least(1)
                  .at_most(0x1p24)
                  .optional()
                  .example(1000),
              extent(
                  "patch",
                  "vision: height and width of the patches, in pixels; when not given, 4. Rows and "
                  "columns of pixels behind the last whole patch are not seen.")
                  .optional(),
              extent("layers", "Blocks.").defaults_to(2),
              extent("width", "Numbers at each place; a multiple of heads.").defaults_to(128),
              extent("heads", "Heads of attention.").defaults_to(4),
              extent("key_heads",
                     "Heads of keys and values, which divide heads; when not given, as many.")
                  .optional(),
              extent("feed_forward",
                     "Units of the dense layers inside a block; when not given, 4 width.")
                  .optional(),
              boolean("gated",
                      "Whether the units inside a block are multiplied by a second dense layer's; "
                      "the preset says what holds when this is not given.")
                  .optional(),
              text("norm", "layer, or rms: norms of the mean square, with no biases at all.")
                  .one_of({"layer", "rms"})
                  .optional(),
              boolean("norm_first",
                      "Whether a block normalises what enters its layers, or, as in BERT, what it "
                      "adds up.")
                  .defaults_to(true),
              text("positions",
                   "learned: a row for each place, added. rotary: queries and keys are turned by "
                   "their places (Su et al. 2021). none: places have no order.")
                  .one_of({"learned", "rotary", "none"})
                  .optional(),
              real("rotary_base", "positions: rotary: the base of the angles.")
                  .above(1)
                  .defaults_to(10000),
              boolean("causal", "Whether a place sees only earlier ones and itself.").optional(),
              text("activation", "Inside blocks.").one_of(activation_names()).optional(),
              text("pool",
                   "What is classified: the mean of the places that have tokens, the first place, "
                   "or the last that has a token.")
                  .one_of({"mean", "first", "last"})
                  .optional(),
              boolean(
                  "tied",
                  "loss: next_token: whether the output layer uses the tokens' table instead of "
                  "weights of its own (Press and Wolf 2017).")
                  .defaults_to(false),
              dense_models::loss_parameter(true),
              dense_models::class_weights_parameter(),
              dense_models::rule_parameter(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.transformer", "0.1.0", "model/transformer", register_components)
