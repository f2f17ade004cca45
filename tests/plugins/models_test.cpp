#include "privgrad/model.hpp"

#include <cmath>
#include <random>

#include "house_plugins.hpp"

using namespace privgrad;

namespace {

ComponentPtr<Model> model(const char* name, Value::Object params = {}) {
  return house().create<Model>(name, std::move(params));
}

Value::Object given(const char* key, Value value) { return {{key, std::move(value), {}}}; }

class SeededStream final : public RandomStream {
 public:
  explicit SeededStream(std::uint64_t seed) : generator_(seed) {}
  std::uint64_t uniform_below(std::uint64_t bound) override { return generator_() % bound; }
  double uniform() override { return static_cast<double>(generator_() >> 11) * 0x1p-53; }
  void fill_normal(std::span<float> out) override {
    std::normal_distribution<double> normal;
    for (float& value : out) value = static_cast<float>(normal(generator_));
  }

 private:
  std::mt19937_64 generator_;
};

/// A stream for code that must not draw.
class NoStream final : public RandomStream {
 public:
  std::uint64_t uniform_below(std::uint64_t) override { throw std::logic_error("drew"); }
  double uniform() override { throw std::logic_error("drew"); }
  void fill_normal(std::span<float>) override { throw std::logic_error("drew"); }
};

std::vector<float> initial(const Model& model, const Network& network, std::uint64_t seed = 1) {
  std::vector<float> parameters(parameter_count(network), 99.0f);
  SeededStream stream(seed);
  model.initialise(network, stream, parameters);
  return parameters;
}

struct Moments {
  double mean = 0, variance = 0, largest = 0;
};

Moments moments(std::span<const float> values) {
  Moments m;
  for (const double x : values) {
    m.mean += x / static_cast<double>(values.size());
    m.largest = std::max(m.largest, std::abs(x));
  }
  for (const double x : values) {
    m.variance += (x - m.mean) * (x - m.mean) / static_cast<double>(values.size());
  }
  return m;
}

}  // namespace

TEST_CASE("mlp: layers and layout", "[model]") {
  const ExampleShape mnist{{28, 28}, 10};
  const auto mlp =
      model("mlp", {{"hidden", Value::List{300, 100}, {}}, {"activation", "tanh", {}}});
  const Network network = mlp->network(mnist);
  REQUIRE(network.nodes.size() == 5);
  CHECK(std::get<Activation>(network.nodes[1].layer).kind == ActivationKind::tanh);
  CHECK(network.loss == Loss::cross_entropy);
  const auto blocks = parameter_blocks(network);
  REQUIRE(blocks.size() == 6);
  CHECK(blocks[0].name == "layers.0.weight");
  CHECK(blocks[0].shape == Shape{300, 784});
  CHECK(blocks[1].name == "layers.0.bias");
  CHECK(blocks[2].name == "layers.2.weight");
  CHECK(blocks[2].shape == Shape{100, 300});
  CHECK(blocks[4].name == "layers.4.weight");
  CHECK(blocks[5].shape == Shape{10});
  CHECK(parameter_count(network) == 784 * 300 + 300 + 300 * 100 + 100 + 100 * 10 + 10);
}

TEST_CASE("mlp: one hidden layer of 1000 relu units unless told otherwise", "[model]") {
  const Network network = model("mlp")->network({{60}, 2});
  REQUIRE(network.nodes.size() == 3);
  CHECK(std::get<Dense>(network.nodes[0].layer).units == 1000);
  CHECK(std::get<Activation>(network.nodes[1].layer).kind == ActivationKind::relu);
  CHECK(parameter_count(network) == 63002);
}

TEST_CASE("models: the loss follows the targets, or the manifest", "[model]") {
  const std::string name = GENERATE("linear", "mlp");
  const auto by_data = model(name.c_str());
  CHECK(by_data->network({{4}, 3}).loss == Loss::cross_entropy);
  CHECK(output_count(by_data->network({{4}, 3})) == 3);
  CHECK(by_data->network({{4}, 0}).loss == Loss::squared);
  CHECK(output_count(by_data->network({{4}, 0})) == 1);

  const auto squared = model(name.c_str(), given("loss", "squared"));
  CHECK(squared->network({{4}, 3}).loss == Loss::squared);
  CHECK(output_count(squared->network({{4}, 3})) == 3);
  const auto logistic = model(name.c_str(), given("loss", "logistic"));
  CHECK(output_count(logistic->network({{4}, 2})) == 1);
}

TEST_CASE("models: a loss that does not fit the targets is refused with the reason", "[model]") {
  const std::string name = GENERATE("linear", "mlp");
  const auto logistic = model(name.c_str(), given("loss", "logistic"));
  CHECK_THROWS_WITH(logistic->network({{4}, 3}),
                    ContainsSubstring("needs two classes") && ContainsSubstring("3 classes"));
  CHECK_THROWS_WITH(logistic->network({{4}, 0}), ContainsSubstring("real targets"));
  CHECK_THROWS_WITH(model(name.c_str(), given("loss", "next_token")),
                    ContainsSubstring("next_token"));
  const auto entropy = model(name.c_str(), given("loss", "cross_entropy"));
  CHECK_THROWS_WITH(entropy->network({{4}, 0}), ContainsSubstring("one output per class"));
  CHECK_THROWS_WITH(entropy->network({{4}, 1}), ContainsSubstring("at least two classes"));
  CHECK_THROWS_WITH(model(name.c_str(), given("loss", "logistics")),
                    ContainsSubstring("did you mean 'logistic'"));
}

TEST_CASE("models: class weights are numbers of the manifest, one for each class", "[model]") {
  const auto weights = [](Value::List numbers) {
    return given("class_weights", std::move(numbers));
  };
  const Network network = model("linear", weights({0.5, 2.0, 1}))->network({{4}, 3});
  CHECK(network.class_weights == std::vector<double>{0.5, 2.0, 1.0});
  CHECK(class_weight(network, 1.0f) == 2.0);
  CHECK(class_weight(network, 3.0f) == 1.0);
  CHECK(model("linear")->network({{4}, 3}).class_weights.empty());
  const auto refused = [&](Value::List numbers, std::size_t classes, const char* why) {
    CHECK_THROWS_WITH(model("mlp", weights(std::move(numbers)))->network({{4}, classes}),
                      ContainsSubstring(why));
  };
  refused({1.0, 2.0}, 3, "there are 2 class weights, and the data has 3 classes");
  refused({1.0}, 0, "real targets");
  refused({1.0, 1e39, 1.0}, 3, "1e+39");
  CHECK_THROWS_WITH(model("mlp", weights({1.0, 0.0, 1.0})), ContainsSubstring("class_weights"));
  CHECK_THROWS_WITH(model("mlp", given("class_weights", "balanced")),
                    ContainsSubstring("class_weights"));
}

TEST_CASE("mlp: parameters out of range are refused", "[model]") {
  CHECK_THROWS_WITH(model("mlp", given("hidden", Value::List{})), ContainsSubstring("hidden"));
  CHECK_THROWS_WITH(model("mlp", given("hidden", Value::List{5, 0})),
                    ContainsSubstring("hidden.1"));
  CHECK_THROWS_WITH(model("mlp", given("activation", "rely")), ContainsSubstring("'relu'"));
  // Zeros would keep all units of a layer equal for ever.
  CHECK_THROWS_AS(model("mlp", given("initialisation", "zeros")), ConfigError);
  // A product too large for any memory must not wrap around to a small one.
  const auto huge = model("mlp", given("hidden", Value::List{std::int64_t{1} << 62}));
  CHECK_THROWS_AS(huge->network({{784}, 10}), ConfigError);
}

namespace {

Value layer(Value::Object members) { return Value(std::move(members)); }

ComponentPtr<Model> cnn_of(Value::List layers) {
  return model("cnn", given("layers", std::move(layers)));
}

}  // namespace

TEST_CASE("cnn: the presets have the parameters that their layers come to", "[model]") {
  struct Preset {
    const char* name;
    std::size_t parameters;
    ActivationKind activation;
  };
  // Weights and a bias for each channel or unit, layer by layer:
  // lenet: (25 + 1) 6 + (25 6 + 1) 16 + (400 + 1) 120 + (120 + 1) 84 + (84 + 1) 10.
  // fedavg_cnn: (25 + 1) 32 + (25 32 + 1) 64 + (16 64 + 1) 512 + (512 + 1) 10.
  // tempered_sigmoid: (64 + 1) 16 + (16 16 + 1) 32 + (16 32 + 1) 32 + (32 + 1) 10.
  const auto preset = GENERATE(Preset{"lenet", 61706, ActivationKind::tanh},
                               Preset{"fedavg_cnn", 582026, ActivationKind::relu},
                               Preset{"tempered_sigmoid", 26010, ActivationKind::tanh});
  INFO(preset.name);
  for (const Shape& image : {Shape{28, 28}, Shape{28, 28, 1}}) {
    const Network network = model("cnn", given("preset", preset.name))->network({image, 10});
    CHECK(parameter_count(network) == preset.parameters);
    CHECK(network.loss == Loss::cross_entropy);
    CHECK(std::get<Activation>(network.nodes[1].layer).kind == preset.activation);
  }
  const auto other = model("cnn", {{"preset", preset.name, {}}, {"activation", "sigmoid", {}}})
                         ->network({{28, 28}, 10});
  for (const Node& one : other.nodes) {
    if (const auto* f = std::get_if<Activation>(&one.layer))
      CHECK(f->kind == ActivationKind::sigmoid);
  }
  CHECK_THROWS_WITH(model("cnn", given("preset", preset.name))->network({{28}, 10}),
                    ContainsSubstring("needs an image"));
}

TEST_CASE("cnn: wrn_16_4 has the parameters of its convolutions, norms and projections",
          "[model]") {
  const auto convolution = [](std::size_t kernel, std::size_t from, std::size_t to) {
    return (kernel * kernel * from + 1) * to;
  };
  // A block: norm, convolution, norm, convolution; a norm has two numbers for each channel.
  const auto block = [&](std::size_t from, std::size_t to) {
    return 2 * from + convolution(3, from, to) + 2 * to + convolution(3, to, to);
  };
  std::size_t parameters = convolution(3, 3, 16);
  std::size_t from = 16;
  for (const std::size_t to : {64u, 128u, 256u}) {
    parameters += block(from, to) + convolution(1, from, to) + block(to, to);
    from = to;
  }
  parameters += 2 * 256 + (256 + 1) * 10;
  const Network network = model("cnn", given("preset", "wrn_16_4"))->network({{32, 32, 3}, 10});
  CHECK(parameter_count(network) == parameters);
  // 32 -> 32 -> 16 -> 8 pixels, of which the pool takes the mean.
  CHECK(value_shapes(network)[network.nodes.size() - 1] == Shape{1, 1, 256});
  CHECK_THROWS_WITH(model("cnn", given("preset", "wrn_16_4"))->network({{28, 28}, 10}),
                    ContainsSubstring("window that is larger than the image"));
}

TEST_CASE("cnn: lenet unless told otherwise", "[model]") {
  CHECK(parameter_count(model("cnn")->network({{28, 28}, 10})) == 61706);
}

TEST_CASE("cnn: any stack of layers, as listed", "[model]") {
  const auto cnn = cnn_of(
      {layer({{"kind", "conv2d", {}},
              {"channels", 4, {}},
              {"kernel", 3, {}},
              {"stride", 2, {}},
              {"padding", 1, {}}}),
       layer({{"kind", "group_norm", {}}, {"groups", 2, {}}}),
       layer({{"kind", "activation", {}}, {"function", "sigmoid", {}}}),
       layer({{"kind", "max_pool", {}}, {"window", 2, {}}}),
       layer({{"kind", "conv2d", {}}, {"channels", 6, {}}, {"kernel", 1, {}}}),
       layer({{"kind", "avg_pool", {}}, {"window", 2, {}}, {"stride", 1, {}}}),
       layer({{"kind", "flatten", {}}}), layer({{"kind", "dense", {}}, {"units", 5, {}}}),
       layer({{"kind", "layer_norm", {}}}), layer({{"kind", "shortcut", {}}, {"over", 1, {}}})});
  const Network network = cnn->network({{12, 12, 3}, 7});
  std::string text;
  for (const Node& one : network.nodes) text += to_text(one.layer) + "; ";
  CHECK(text ==
        "conv2d 4 kernel 3 stride 2 padding 1; group_norm 2; sigmoid; max pool 2 stride 2; "
        "conv2d 6 kernel 1 stride 1 padding 0; average pool 2 stride 1; flatten; dense 5; "
        "layer_norm; add; dense 7; ");
  // 12 -> 6 -> 3 -> 3 -> 2 pixels.
  CHECK(value_shapes(network)[7] == Shape{2 * 2 * 6});
  CHECK(parameter_count(network) ==
        (27 + 1) * 4 + 2 * 4 + (4 + 1) * 6 + (24 + 1) * 5 + 2 * 5 + (5 + 1) * 7);
}

TEST_CASE("cnn: dense layers at each place, if it is said", "[model]") {
  const auto cnn =
      cnn_of({layer({{"kind", "dense", {}}, {"units", 5, {}}, {"per_place", true, {}}}),
              layer({{"kind", "dense", {}}, {"units", 4, {}}, {"per_place", false, {}}})});
  const Network network = cnn->network({{12, 12, 3}, 7});
  CHECK(to_text(network.nodes[0].layer) == "dense 5 per place");
  CHECK(to_text(network.nodes[1].layer) == "dense 4");
  CHECK(parameter_count(network) == (3 + 1) * 5 + (144 * 5 + 1) * 4 + (4 + 1) * 7);
}

TEST_CASE("cnn: a layer without what it needs, or with what it has not, is named", "[model]") {
  CHECK_THROWS_WITH(cnn_of({layer({{"kind", "flatten", {}}}),
                            layer({{"kind", "conv2d", {}}, {"channels", 4, {}}})}),
                    ContainsSubstring("layers.1, conv2d, lacks 'kernel'"));
  CHECK_THROWS_WITH(
      cnn_of({layer({{"kind", "max_pool", {}}, {"window", 2, {}}, {"padding", 1, {}}})}),
      ContainsSubstring("layers.0, max_pool, has no 'padding'; it has window, stride"));
  CHECK_THROWS_WITH(cnn_of({layer({{"kind", "flatten", {}}, {"units", 3, {}}})}),
                    ContainsSubstring("nothing but its kind"));
  CHECK_THROWS_WITH(cnn_of({layer({{"kind", "convolution", {}}})}), ContainsSubstring("conv2d"));
  CHECK_THROWS_WITH(cnn_of({layer({{"kind", "batch_norm", {}}})}), ContainsSubstring("group_norm"));
  CHECK_THROWS_WITH(model("cnn", {{"preset", "lenet", {}},
                                  {"layers", Value::List{layer({{"kind", "flatten", {}}})}, {}}}),
                    ContainsSubstring("one of preset and layers, not both"));
  CHECK_THROWS_WITH(model("cnn", {{"activation", "relu", {}},
                                  {"layers", Value::List{layer({{"kind", "flatten", {}}})}, {}}}),
                    ContainsSubstring("activation is for presets"));
}

TEST_CASE("graph: layers name the values that they work on", "[model]") {
  const auto graph_of = [](Value::List nodes) {
    return model("graph", given("nodes", std::move(nodes)));
  };
  const auto dense = [](const char* name, Value::List from, std::int64_t units = 4) {
    Value::Object members{{"kind", "dense", {}}, {"units", units, {}}, {"name", name, {}}};
    if (!from.empty()) members.push_back({"from", std::move(from), {}});
    return layer(std::move(members));
  };
  const auto sum_of = [](Value::List from) {
    return layer({{"kind", "add", {}}, {"from", std::move(from), {}}});
  };
  const Network network =
      graph_of({dense("stem", {}),
                layer({{"kind", "dense", {}},
                       {"units", 4, {}},
                       {"bias", false, {}},
                       {"name", "main", {}}}),
                dense("side", {"input"}), sum_of({"side", "main"}),
                layer({{"kind", "scale", {}}, {"factor", 0.5, {}}}),
                layer({{"kind", "part", {}}, {"first", 1, {}}, {"size", 2, {}}}),
                layer({{"kind", "reshape", {}}, {"shape", Value::List{1, 2}, {}}})})
          ->network({{3}, 5});
  std::string text;
  for (const Node& one : network.nodes) text += to_text(one.layer) + "; ";
  CHECK(text ==
        "dense 4; dense 4 without bias; dense 4; add; scale 0.5; part 1 to 3; reshape 1 x 2; "
        "dense 5; ");
  CHECK(inputs_of(network, 1) == std::vector<std::size_t>{1});
  CHECK(inputs_of(network, 2) == std::vector<std::size_t>{0});
  CHECK(inputs_of(network, 3) == std::vector<std::size_t>{3, 2});
  const auto blocks = parameter_blocks(network);
  REQUIRE(blocks.size() == 7);
  CHECK(blocks[2].name == "main.weight");
  CHECK(blocks[3].name == "side.weight");
  CHECK(blocks[5].name == "layers.7.weight");

  CHECK_THROWS_WITH(graph_of({dense("stem", {}), dense("side", {"stm"})}),
                    ContainsSubstring("nodes.1, dense, works on 'stm', which no node before it is "
                                      "called; did you mean 'stem'?"));
  const auto twice = [&](const char* owner) {
    return graph_of({dense("first", {}), layer({{"kind", "dense", {}},
                                                {"units", 4, {}},
                                                {"name", "second", {}},
                                                {"shares", owner, {}}})});
  };
  CHECK(twice("first")->network({{4}, 5}).nodes[1].shares == std::size_t{0});
  CHECK_THROWS_WITH(twice("frist"),
                    ContainsSubstring("nodes.1, dense, shares the parameters of 'frist', which no "
                                      "node before it is called; did you mean 'first'?"));
  CHECK_THROWS_WITH(twice("input"), ContainsSubstring("shares parameters with the features"));
  CHECK_THROWS_WITH(graph_of({dense("a", {}), dense("a", {})}),
                    ContainsSubstring("nodes.1, dense, has the name 'a', which an earlier value"));
  CHECK_THROWS_WITH(graph_of({dense("input", {})}), ContainsSubstring("has the name 'input'"));
  CHECK_THROWS_WITH(graph_of({layer({{"kind", "shortcut", {}}})}), ContainsSubstring("add"));
  CHECK_THROWS_WITH(graph_of({dense("a", {}), dense("b", {"input"})})->network({{3}, 5}),
                    ContainsSubstring("no node uses the output of node 0, dense 4; only"));
}

TEST_CASE("transformer: has the parameters of networks known from papers", "[model]") {
  const auto entry = [](const char* key, Value value) {
    return Value::Member{key, std::move(value), {}};
  };
  const auto parameters = [](Shape features, std::size_t classes, Value::Object params) {
    return parameter_count(
        model("transformer", std::move(params))->network({std::move(features), classes}));
  };
  const std::size_t classes = 10;
  // BERT base has 109,482,240 parameters, which include 2 types of tokens and a final dense layer
  // of 768 x 768.
  CHECK(parameters({512}, classes,
                   {entry("preset", "encoder"), entry("vocabulary", 30522), entry("layers", 12),
                    entry("width", 768), entry("heads", 12), entry("norm_first", false)}) ==
        109'482'240 - 2 * 768 - (768 * 768 + 768) + classes * 768 + classes);
  // ViT-B/16 for 1000 classes, as in Dosovitskiy et al. 2021 and torchvision.
  CHECK(parameters({224, 224, 3}, 1000,
                   {entry("preset", "vision"), entry("patch", 16), entry("layers", 12),
                    entry("width", 768), entry("heads", 12)}) == 86'567'656);
  // Llama 2 7B has 6,738,415,616 parameters, with an output layer of 32,000 x 4096.
  CHECK(parameters({2048}, classes,
                   {entry("preset", "decoder"), entry("vocabulary", 32000), entry("layers", 32),
                    entry("width", 4096), entry("heads", 32), entry("feed_forward", 11008)}) ==
        6'738'415'616 - 32000ull * 4096 + classes * 4096 + classes);
  // With fewer key heads, keys and values have fewer weights.
  const auto grouped = [&](int key_heads) {
    return parameters({8}, classes,
                      {entry("preset", "decoder"), entry("vocabulary", 5), entry("layers", 3),
                       entry("width", 16), entry("heads", 4), entry("key_heads", key_heads)});
  };
  CHECK(grouped(4) - grouped(1) == 3 * 2 * 16 * 12);
}

TEST_CASE("transformer: attention and pools know empty places, and decoders no later ones",
          "[model]") {
  for (const auto& [preset, pool] :
       {std::pair{"encoder", "mean"}, {"encoder", "last"}, {"decoder", "last"}}) {
    INFO(preset << ", " << pool);
    Value::Object params = given("preset", preset);
    params.push_back({"pool", pool, {}});
    params.push_back({"vocabulary", 9, {}});
    const Network network = model("transformer", params)->network({{12}, 3});
    std::size_t attentions = 0, pools = 0;
    for (std::size_t i = 0; i < network.nodes.size(); ++i) {
      const Layer& layer = network.nodes[i].layer;
      const auto* attention = std::get_if<Attention>(&layer);
      const bool is_pool =
          std::holds_alternative<MeanOfPlaces>(layer) || std::holds_alternative<PickPlace>(layer);
      if (attention == nullptr && !is_pool) continue;
      ++(is_pool ? pools : attentions);
      const std::vector<std::size_t> values = inputs_of(network, i);
      REQUIRE(values.size() == (is_pool ? 2 : 4));
      CHECK(std::holds_alternative<TokenMask>(network.nodes.at(values.back() - 1).layer));
      if (!is_pool) CHECK(attention->causal == (std::string(preset) == "decoder"));
    }
    CHECK(attentions > 0);
    CHECK(pools == 1);
  }
}

TEST_CASE("transformer: what does not go together is refused", "[model]") {
  const auto entry = [](const char* key, Value value) {
    return Value::Member{key, std::move(value), {}};
  };
  const auto refused = [](Value::Object params, const char* why) {
    CHECK_THROWS_WITH(model("transformer", std::move(params))->network({{12}, 3}),
                      ContainsSubstring(why));
  };
  refused({entry("preset", "encoder")}, "need vocabulary");
  refused({}, "needs an image");
  refused({entry("preset", "encoder"), entry("vocabulary", 9), entry("patch", 2)},
          "patch needs the preset vision");
  refused({entry("preset", "vision"), entry("patch", 2), entry("vocabulary", 9)}, "does not have");
  refused({entry("preset", "vision"), entry("patch", 2), entry("pool", "last")}, "first or mean");
  refused({entry("preset", "decoder"), entry("vocabulary", 9), entry("pool", "first")},
          "would see only the first token");
  refused(
      {entry("preset", "encoder"), entry("vocabulary", 9), entry("width", 10), entry("heads", 4)},
      "does not divide width");
  refused({entry("preset", "encoder"), entry("vocabulary", 9), entry("heads", 4),
           entry("key_heads", 3)},
          "does not divide heads");
  refused({entry("preset", "vision"), entry("patch", 2)}, "needs an image");
  const auto of_tokens = [&](Value::Object params) {
    params.push_back(entry("loss", "next_token"));
    return params;
  };
  refused(of_tokens({entry("preset", "vision")}), "needs tokens");
  refused(of_tokens({entry("preset", "encoder"), entry("vocabulary", 9)}), "needs causal: true");
  refused(of_tokens({entry("preset", "decoder"), entry("vocabulary", 9), entry("pool", "mean")}),
          "next_token has one per place");
  refused(of_tokens({entry("preset", "decoder"), entry("vocabulary", 9)}),
          "and data without classes");
  refused({entry("preset", "decoder"), entry("vocabulary", 9), entry("tied", true)},
          "tied needs loss: next_token");
}

TEST_CASE("transformer: with the loss next_token, places have an output for each token",
          "[model]") {
  const Network network = model("transformer", {{"preset", "decoder", {}},
                                                {"vocabulary", 9, {}},
                                                {"width", 8, {}},
                                                {"loss", "next_token", {}}})
                              ->network({{6}, 0});
  CHECK(value_shapes(network).back() == Shape{6, 9});
  CHECK(to_text(network.nodes.back().layer) == "dense 9 per place without bias");
  CHECK(name_of(network, network.nodes.size() - 1) == "output");
  CHECK(vocabulary_of(network) == 9);
  // A tied model has no separate table of outputs.
  const Network tied = model("transformer", {{"preset", "decoder", {}},
                                             {"vocabulary", 9, {}},
                                             {"width", 8, {}},
                                             {"tied", true, {}},
                                             {"loss", "next_token", {}}})
                           ->network({{6}, 0});
  CHECK(parameter_count(network) - parameter_count(tied) == 9 * 8);
  CHECK(name_of(tied, *tied.nodes.back().shares) == "tokens");
}

TEST_CASE("graph: with the loss next_token, the output layer has the tokens of the embedding",
          "[model]") {
  const auto of_nodes = [](Value::List nodes) {
    return model("graph", {{"nodes", std::move(nodes), {}}, {"loss", "next_token", {}}});
  };
  const Value table(
      Value::Object{{"kind", "embedding", {}}, {"vocabulary", 7, {}}, {"width", 8, {}}});
  const Value places(
      Value::Object{{"kind", "dense", {}}, {"units", 8, {}}, {"per_place", true, {}}});
  const Network network = of_nodes({table})->network({{5}, 0});
  CHECK(to_text(network.nodes.back().layer) == "dense 7 per place");
  CHECK(value_shapes(network).back() == Shape{5, 7});
  CHECK_THROWS_WITH(of_nodes({table})->network({{1}, 0}), ContainsSubstring("two places"));
  CHECK_THROWS_WITH(of_nodes({table})->network({{5}, 3}), ContainsSubstring("has 3 classes"));
  CHECK_THROWS_WITH(of_nodes({places})->network({{5}, 0}), ContainsSubstring("an embedding"));
}

TEST_CASE("graph: attention and its companions, as listed", "[model]") {
  const auto node = [](const char* kind, Value::Object members, std::vector<std::string> from) {
    members.insert(members.begin(), Value::Member{"kind", kind, {}});
    if (!from.empty()) members.push_back({"from", Value::List(from.begin(), from.end()), {}});
    return Value(std::move(members));
  };
  const Network network =
      model(
          "graph",
          given("nodes",
                Value::List{node("embedding",
                                 {{"vocabulary", 7, {}}, {"width", 8, {}}, {"name", "x", {}}}, {}),
                            node("mask", {{"name", "m", {}}}, {"input"}),
                            node("positions", {{"name", "y", {}}}, {"x"}),
                            node("attention",
                                 {{"heads", 4, {}}, {"causal", true, {}}, {"rotary", 100.0, {}}},
                                 {"y", "y", "y", "m"}),
                            node("prepend", {{"name", "z", {}}}, {}),
                            node("mean", {{"name", "a", {}}}, {"z"}),
                            node("pick", {{"name", "b", {}}}, {"z"}),
                            node("pick", {{"place", 2, {}}, {"name", "c", {}}}, {"z"}),
                            node("add", {}, {"a", "b", "c"})}))
          ->network({{5}, 3});
  CHECK(to_text(network.nodes[3].layer) == "attention of 4 heads, causal, rotary 100");
  CHECK(network.nodes[3].from == std::vector<std::size_t>{3, 3, 3, 2});
  CHECK(std::get<Attention>(network.nodes[3].layer).key_heads == 4);
  CHECK(std::get<PickPlace>(network.nodes[6].layer).last);
  CHECK_FALSE(std::get<PickPlace>(network.nodes[7].layer).last);
  CHECK(parameter_count(network) == 7 * 8 + 5 * 8 + 8 + 3 * 8 + 3);
}

TEST_CASE("cnn: kernels begin by their rule, norms at 1, biases at 0", "[model]") {
  const auto begin = [](const char* function) {
    return cnn_of({layer({{"kind", "conv2d", {}}, {"channels", 64, {}}, {"kernel", 5, {}}}),
                   layer({{"kind", "layer_norm", {}}}),
                   layer({{"kind", "activation", {}}, {"function", function, {}}})});
  };
  const auto check = [&](const char* function, double variance, double kurtosis) {
    const auto cnn = begin(function);
    const Network network = cnn->network({{8, 8, 20}, 2});
    const auto parameters = initial(*cnn, network);
    constexpr std::size_t kCount = 64 * 25 * 20;
    const Moments m = moments(std::span(parameters).first(kCount));
    // Five standard errors: false alarm below 1e-6.
    CHECK_THAT(m.variance / variance, WithinAbs(1, 5 * std::sqrt((kurtosis - 1) / kCount)));
    CHECK(parameters[kCount] == 0.0f);       // a bias of the convolution
    CHECK(parameters[kCount + 64] == 1.0f);  // a weight of the norm
    CHECK(parameters[kCount + 128] == 0.0f);
  };
  check("relu", 2.0 / (25 * 20), 3);              // he_normal
  check("tanh", 2.0 / (25 * 20 + 25 * 64), 1.8);  // glorot_uniform
}

TEST_CASE("linear: begins at zero without drawing", "[model]") {
  const auto linear = model("linear");
  const Network network = linear->network({{5}, 3});
  std::vector<float> parameters(parameter_count(network), 99.0f);
  NoStream stream;
  linear->initialise(network, stream, parameters);
  CHECK(parameters == std::vector<float>(18, 0.0f));
}

TEST_CASE("models: initial weights have the moments of their rule", "[model]") {
  struct Rule {
    const char* name;
    double variance;
    double kurtosis;  // fourth moment over squared variance: 3 normal, 9/5 uniform
  };
  constexpr double kIn = 300, kOut = 200, kCount = kIn * kOut;
  const auto rule = GENERATE(Rule{"he_normal", 2 / kIn, 3}, Rule{"he_uniform", 2 / kIn, 1.8},
                             Rule{"glorot_normal", 2 / (kIn + kOut), 3},
                             Rule{"glorot_uniform", 2 / (kIn + kOut), 1.8},
                             Rule{"lecun_normal", 1 / kIn, 3}, Rule{"lecun_uniform", 1 / kIn, 1.8});
  const auto linear = model("linear", given("initialisation", rule.name));
  const Network network = linear->network({{300}, 200});
  const auto parameters = initial(*linear, network);
  const Moments m = moments(std::span(parameters).first(300 * 200));
  // Five standard errors: with another seed each check would fail once in 1.7 million times.
  CHECK(std::abs(m.mean) < 5 * std::sqrt(rule.variance / kCount));
  CHECK(std::abs(m.variance / rule.variance - 1) < 5 * std::sqrt((rule.kurtosis - 1) / kCount));
  if (rule.kurtosis < 2) {
    CHECK(m.largest <= std::sqrt(3 * rule.variance) * (1 + 1e-6));
  } else {
    // The largest of 60000 normals is below 3.5 deviations once in 10^12 times.
    CHECK(m.largest > 3.5 * std::sqrt(rule.variance));
  }
  CHECK(std::vector<float>(parameters.end() - 200, parameters.end()) ==
        std::vector<float>(200, 0.0f));
  CHECK(initial(*linear, network, 1) == parameters);
  CHECK(initial(*linear, network, 2) != parameters);
}

TEST_CASE("mlp: the initial weights suit the activation", "[model]") {
  const auto first_layer = [](const char* activation) {
    const auto mlp =
        model("mlp", {{"hidden", Value::List{200}, {}}, {"activation", activation, {}}});
    const Network network = mlp->network({{300}, 2});
    const auto parameters = initial(*mlp, network);
    return moments(std::span(parameters).first(300 * 200));
  };
  // he_normal: variance 2/300, unbounded; glorot_uniform: 2/500, bounded. Tolerances as above.
  CHECK_THAT(first_layer("relu").variance * 150, WithinAbs(1, 5 * std::sqrt(2 / 60000.0)));
  for (const char* activation : {"tanh", "sigmoid"}) {
    const Moments m = first_layer(activation);
    CHECK_THAT(m.variance * 250, WithinAbs(1, 5 * std::sqrt(0.8 / 60000.0)));
    CHECK(m.largest <= std::sqrt(3.0 / 250) * (1 + 1e-6));
  }
}
