#include "privgrad/network.hpp"

#include "privgrad/chain.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

Network network_of(Shape features, std::vector<Node> nodes) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = 10;
  network.nodes = std::move(nodes);
  return network;
}

Conv2d conv(std::size_t channels, std::size_t kernel, std::size_t stride = 1,
            std::size_t padding = 0) {
  return {.channels = channels, .kernel = kernel, .stride = stride, .padding = padding};
}

constexpr Pool kHalve{.kind = PoolKind::max, .window = 2, .stride = 2};

}  // namespace

TEST_CASE("network: shapes and parameters of two networks known from papers", "[network]") {
  const Activation relu{};
  SECTION("the network of McMahan et al. 2017, which has 1,663,370 parameters") {
    const Network network =
        network_of({28, 28}, {conv(32, 5, 1, 2), relu, kHalve, conv(64, 5, 1, 2), relu, kHalve,
                              Flatten{}, Dense{512}, relu, Dense{10}});
    const auto shapes = value_shapes(network);
    REQUIRE(shapes.size() == 11);
    CHECK(shapes[1] == Shape{28, 28, 32});
    CHECK(shapes[3] == Shape{14, 14, 32});
    CHECK(shapes[6] == Shape{7, 7, 64});
    CHECK(shapes[7] == Shape{3136});
    CHECK(parameter_count(network) == 1'663'370);
    check_network(network);
  }
  SECTION("the tempered-sigmoid network of Papernot et al. 2021, which has 26,010") {
    const Activation tanh{ActivationKind::tanh};
    const Pool slide{.kind = PoolKind::max, .window = 2, .stride = 1};
    const Network network = network_of({28, 28, 1}, {conv(16, 8, 2, 3), tanh, slide, conv(32, 4, 2),
                                                     tanh, slide, Dense{32}, tanh, Dense{10}});
    CHECK(value_shapes(network)[6] == Shape{4, 4, 32});
    CHECK(parameter_count(network) == 26'010);
  }
}

TEST_CASE("network: what blocks say for initialisation", "[network]") {
  const auto blocks = parameter_blocks(network_of(
      {9, 9, 3}, {conv(8, 3), GroupNorm{.groups = 4}, Activation{}, LayerNorm{}, Dense{10}}));
  REQUIRE(blocks.size() == 8);
  CHECK(blocks[0].name == "layers.0.weight");
  CHECK(blocks[0].shape == Shape{8, 3, 3, 3});
  CHECK(blocks[0].fan_in == 27);
  CHECK(blocks[0].fan_out == 72);
  CHECK(blocks[1].shape == Shape{8});
  CHECK(blocks[1].initial == 0.0f);
  CHECK(blocks[2].name == "layers.1.weight");
  CHECK(blocks[2].shape == Shape{8});
  CHECK(blocks[2].fan_in == 0);
  CHECK(blocks[2].initial == 1.0f);
  CHECK(blocks[3].initial == 0.0f);
  CHECK(blocks[4].name == "layers.3.weight");
  CHECK(blocks[6].fan_in == 7 * 7 * 8);
  CHECK(blocks[6].fan_out == 10);
  CHECK(blocks[6].offset == 8 * 27 + 8 + 16 + 16);

  const auto table = parameter_blocks(
      network_of({12}, {Embedding{.vocabulary = 100, .width = 6}, Flatten{}, Dense{10}}));
  CHECK(table[0].shape == Shape{100, 6});
  CHECK(table[1].shape == Shape{10, 72});
}

TEST_CASE("network: a dense layer at each place replaces the last extent", "[network]") {
  const Dense each{.units = 5, .per_place = true};
  const Network network = network_of({7, 6, 3}, {each, Activation{}, Dense{10}});
  const auto shapes = value_shapes(network);
  CHECK(shapes[1] == Shape{7, 6, 5});
  CHECK(shapes[3] == Shape{10});
  const auto blocks = parameter_blocks(network);
  CHECK(blocks[0].shape == Shape{5, 3});
  CHECK(blocks[0].fan_in == 3);
  CHECK(blocks[0].fan_out == 5);
  CHECK(blocks[1].shape == Shape{5});
  CHECK(blocks[2].shape == Shape{10, 7 * 6 * 5});
  CHECK(to_text(network.nodes[0].layer) == "dense 5 per place");
  CHECK(value_shapes(network_of({4}, {each}))[1] == Shape{5});
}

TEST_CASE("network: a layer that does not fit is refused by number, words and reason",
          "[network]") {
  struct Case {
    Shape features;
    Layer layer;
    std::string why;
  };
  const Case cases[] = {
      {{784}, conv(8, 3), "needs an image"},
      {{4, 4, 1, 2}, conv(8, 3), "needs an image"},
      {{4, 4}, conv(8, 5), "window that is larger than the image; its input is 4 x 4"},
      {{4, 4}, conv(8, 3, 1, 3), "padding that is not below its kernel"},
      {{4, 4}, conv(0, 3), "no channels"},
      {{4, 4}, conv(2, 0), "kernel of 0"},
      {{4, 4}, conv(2, 3, 0), "stride of 0"},
      {{4, 4}, Pool{.kind = PoolKind::max, .window = 5, .stride = 1}, "larger than the image"},
      {{4, 4}, Pool{.kind = PoolKind::max, .window = 0, .stride = 1}, "window of 0"},
      {{4, 4}, Pool{.kind = PoolKind::max, .window = 2, .stride = 0}, "stride of 0"},
      {{4}, kHalve, "needs an image"},
      {{4, 4, 6}, GroupNorm{.groups = 4}, "does not divide the channels"},
      {{4, 4, 6}, GroupNorm{.groups = 0}, "does not divide the channels"},
      {{4}, LayerNorm{.epsilon = 0.0}, "epsilon"},
      {{4, 4}, Embedding{.vocabulary = 5, .width = 2}, "sequence of tokens"},
      {{4}, Embedding{.vocabulary = 0, .width = 2}, "vocabulary outside [1, 2^24]"},
      {{4}, Embedding{.vocabulary = 5, .width = 0}, "no width"},
      {{4}, Dense{0}, "no units"},
      {{4, 4}, Dense{.units = 0, .per_place = true}, "no units"},
  };
  for (const Case& one : cases) {
    const Network network = network_of(one.features, {one.layer, Dense{10}});
    CHECK_THROWS_WITH(check_network(network), ContainsSubstring("layer 0, " + to_text(one.layer)) &&
                                                  ContainsSubstring(one.why));
    CHECK_THROWS_AS(parameter_blocks(network), ConfigError);
  }
  CHECK_THROWS_WITH(
      check_network(network_of({4}, {Activation{}, Embedding{.vocabulary = 5, .width = 2}})),
      ContainsSubstring("layer 1, embedding 5 x 2, needs tokens as its input"));
  CHECK_THROWS_AS(
      check_network(network_of({4, 4}, {Pool{static_cast<PoolKind>(7), 2, 2}, Dense{10}})),
      ConfigError);
}

TEST_CASE("network: layers of sequences say what they need", "[network]") {
  const Embedding table{.vocabulary = 5, .width = 6};
  const auto refusal = [&](Layer layer, std::vector<std::size_t> from) {
    // Values: 0 the tokens [4], 1 their rows [4, 6], 2 the mask [4], 3 wider rows [4, 12], 4
    // numbers [4] that are computed.
    Network network = network_of(
        {4},
        {table, {TokenMask{}, {0}}, {Dense{.units = 12, .per_place = true}, {1}}, {Dense{4}, {1}}});
    network.nodes.emplace_back(std::move(layer), std::move(from));
    try {
      return to_text(value_shapes(network).back());
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  const Attention two{.heads = 2, .key_heads = 2}, one{.heads = 2, .key_heads = 1};
  CHECK(refusal(two, {1, 1, 1}) == "4 x 6");
  CHECK(refusal(two, {1, 1, 1, 2}) == "4 x 6");
  CHECK(refusal(one, {3, 1, 1, 2}) == "4 x 12");
  CHECK(refusal(MeanOfPlaces{}, {1, 2}) == "6");
  CHECK(refusal(PickPlace{.place = 3}, {1}) == "6");
  CHECK(refusal(PickPlace{.last = true}, {1, 2}) == "6");
  CHECK(refusal(Prepend{}, {1}) == "5 x 6");
  CHECK(refusal(Positions{}, {1}) == "4 x 6");
  const auto refused = [&](Layer layer, std::vector<std::size_t> from, const char* why) {
    INFO(to_text(layer));
    CHECK_THAT(refusal(layer, from),
               ContainsSubstring("layer 4, " + to_text(layer)) && ContainsSubstring(why));
  };
  refused(two, {1, 1}, "needs queries");
  refused(two, {1, 1, 3}, "needs queries");
  refused(one, {1, 1, 1}, "needs queries");
  refused(two, {1, 1, 1, 1}, "that was not made by a node of the kind mask");
  refused(two, {1, 1, 1, 2, 2}, "perhaps a mask");
  refused(two, {1, 1, 1, 4}, "that was not made by a node of the kind mask");
  refused(two, {1, 1, 1, 0}, "that was not made by a node of the kind mask");
  refused(MeanOfPlaces{}, {1, 0}, "that was not made by a node of the kind mask");
  refused(MeanOfPlaces{}, {1, 4}, "that was not made by a node of the kind mask");
  refused(Attention{.heads = 4, .key_heads = 4}, {1, 1, 1}, "does not divide the width");
  refused(Attention{.heads = 3, .key_heads = 2}, {1, 1, 1}, "does not divide its heads");
  refused(Attention{.heads = 2, .key_heads = 2, .rotary = 1.0}, {1, 1, 1}, "above 1");
  refused(Attention{.heads = 2, .key_heads = 2, .rotary = 10.0}, {1, 1, 1}, "odd width");
  refused(two, {2, 2, 2}, "needs a sequence");
  refused(PickPlace{.place = 4}, {1}, "after the end of the sequence");
  refused(PickPlace{.place = 1, .last = true}, {1}, "must not name a place");
  refused(PickPlace{.place = 1}, {1, 2}, "only helps to find the last place");
  refused(TokenMask{}, {4}, "needs tokens as its input");
  refused(MeanOfPlaces{}, {2}, "needs a sequence");
  for (const Layer& layer : {Layer(Positions{}), Layer(Prepend{}), Layer(MeanOfPlaces{}),
                             Layer(PickPlace{}), Layer(TokenMask{})}) {
    CHECK_THROWS_AS(parameter_blocks(network_of({}, {layer, Dense{10}})), ConfigError);
  }
  CHECK_THROWS_WITH(
      value_shapes(network_of({4097}, {Embedding{.vocabulary = 5, .width = 2}, {two, {1, 1, 1}}})),
      ContainsSubstring("more than 4096 places"));
}

TEST_CASE("chain: a shortcut becomes a sum, behind a convolution where it must change a shape",
          "[network]") {
  const ExampleShape images{{8, 8, 3}, 10};
  const Network network{.input = images,
                        .nodes = nodes_of(images, {conv(4, 3, 1, 1), Activation{}, conv(4, 3, 1, 1),
                                                   Shortcut{.over = 2}, conv(6, 3, 2, 1),
                                                   Shortcut{.over = 1, .stride = 2}, Dense{10}}),
                        .loss = Loss::cross_entropy};
  REQUIRE(network.nodes.size() == 8);
  CHECK(inputs_of(network, 3) == std::vector<std::size_t>{3, 1});
  CHECK(inputs_of(network, 5) == std::vector<std::size_t>{4});
  CHECK(inputs_of(network, 6) == std::vector<std::size_t>{5, 6});
  const auto shapes = value_shapes(network);
  CHECK(shapes[4] == Shape{8, 8, 4});
  CHECK(shapes[7] == Shape{4, 4, 6});
  // The parameters have the same places and names as before, when a shortcut was a layer.
  const auto blocks = parameter_blocks(network);
  REQUIRE(blocks.size() == 10);  // three convolutions, one projection and the outputs
  CHECK(blocks[6].name == "layers.5.weight");
  CHECK(blocks[6].shape == Shape{6, 1, 1, 4});
  CHECK(blocks[6].fan_in == 4);
  CHECK(blocks[7].shape == Shape{6});
  CHECK(blocks[8].name == "layers.6.weight");
  CHECK(blocks[8].node == 7);

  const auto refused = [](Shape features, const std::vector<ChainLink>& chain,
                          const std::string& why) {
    CHECK_THROWS_WITH(nodes_of({std::move(features), 10}, chain), ContainsSubstring(why));
  };
  refused({4, 4}, {conv(2, 3), Shortcut{.over = 2}, Dense{10}},
          "layer 1, shortcut over 2, reaches back over no layer, or over more than there");
  refused({4, 4}, {conv(2, 3), Shortcut{.over = 0}, Dense{10}}, "reaches back over no layer");
  refused({4, 4}, {conv(2, 3), Shortcut{.over = 1, .stride = 0}, Dense{10}}, "stride of 0");
  refused({4, 4}, {conv(2, 3), Shortcut{.over = 1}, Dense{10}},
          "layer 1, add, needs values of one shape; its input is 2 x 2 x 2 and 4 x 4 x 2");
  refused({4}, {Dense{5}, Shortcut{.over = 1}, Dense{10}}, "layer 1, conv2d 5");
}

TEST_CASE("network: nodes name the values that they work on", "[network]") {
  const Network diamond = network_of(
      {4}, {Dense{6}, {Activation{}, {1}}, {Dense{6}, {1}, "side"}, {Add{}, {2, 3}}, Dense{10}});
  check_network(diamond);
  CHECK(inputs_of(diamond, 2) == std::vector<std::size_t>{1});
  CHECK(inputs_of(diamond, 4) == std::vector<std::size_t>{4});
  const auto blocks = parameter_blocks(diamond);
  CHECK(blocks[2].name == "side.weight");
  CHECK(blocks[2].node == 2);
  CHECK(parameter_groups(diamond)[1].name == "side");

  const auto refused = [](std::vector<Node> nodes, const std::string& why) {
    CHECK_THROWS_WITH(check_network(network_of({4}, std::move(nodes))), ContainsSubstring(why));
  };
  refused({Dense{6}, {Dense{10}, {2}}}, "layer 1, dense 10, works on a value that no earlier node");
  refused({Dense{10}, {Dense{10}, {0}}}, "no node uses the output of node 0, dense 10; only");
  refused({Dense{6}, {Dense{10}, {1, 0}}}, "needs a single value; its input is 6 and 4");
  refused({Dense{10}, {Add{}, {1}}}, "needs two values or more");
  refused({Dense{10}, {Add{}, {0, 1}}}, "needs values of one shape; its input is 4 and 10");
  refused({Dense{10}, {Dense{10}, {1}, "layers.0"}}, "two tensors of the network have the name");
  refused({{Dense{10}, {}, "a b"}}, "has the name 'a b'; names have at most 200 letters, digits");
  refused({{Dense{10}, {}, "preprocessing.0"}}, "do not begin with 'preprocessing.'");
  refused({Scale{1e300}, Dense{10}}, "has a factor that float32 cannot hold");
  refused({PartOf{.first = 3, .size = 2}, Dense{10}}, "end within the last extent");
  refused({PartOf{.first = std::size_t{0} - 1, .size = 2}, Dense{10}},
          "must have at least one element");
  refused({Reshape{{3, 2}}, Dense{10}}, "has another number of elements");
}

TEST_CASE("network: frozen nodes have parameters of their own, which nothing trains", "[network]") {
  Network network = network_of({4}, {Dense{3}, Activation{}, Dense{.units = 10, .no_bias = true}});
  network.nodes[0].is_frozen = true;
  CHECK(parameter_count(network) == 30);
  CHECK(parameter_blocks(network).front().name == "layers.2.weight");
  const auto constants = frozen_blocks(network);
  REQUIRE(constants.size() == 2);
  CHECK(constants[0].name == "layers.0.weight");
  CHECK(constants[1].offset == 12);
  CHECK_THROWS_WITH(check_network(network), ContainsSubstring("has 0 frozen parameters, and its "
                                                              "frozen nodes need 15"));
  network.frozen.resize(15);
  check_network(network);
  network.nodes[2].is_frozen = true;
  CHECK_THROWS_WITH(check_network(network), ContainsSubstring("no parameters to train"));
}

TEST_CASE("network: a node may use the parameters of an earlier one, and then has none",
          "[network]") {
  const auto shared = [](std::size_t owner, Layer layer, std::vector<std::size_t> from = {}) {
    Node node(std::move(layer), std::move(from));
    node.shares = owner;
    return node;
  };
  const Embedding table{.vocabulary = 10, .width = 4};
  const Dense logits{.units = 10, .no_bias = true};
  const Network tied = network_of({6}, {table, MeanOfPlaces{}, shared(0, logits)});
  check_network(tied);
  CHECK(parameter_count(tied) == 40);
  CHECK(parameter_groups(tied).size() == 1);
  CHECK(owner_of(tied, 2) == 0);
  CHECK(owner_of(tied, 0) == 0);
  CHECK_FALSE(is_plain_chain(network_of({4}, {Dense{4}, shared(0, Dense{4}), Dense{10}})));

  const auto refused = [](Shape features, std::vector<Node> nodes, const std::string& why) {
    CHECK_THROWS_WITH(check_network(network_of(std::move(features), std::move(nodes))),
                      ContainsSubstring(why));
  };
  refused({4}, {shared(1, Dense{4}), Dense{4}, Dense{10}},
          "layer 0, dense 4, shares the parameters of a node that does not come before it");
  refused(
      {4}, {Dense{4}, shared(0, Dense{4}), shared(1, Dense{4}), Dense{10}},
      "layer 2, dense 4, shares the parameters of layers.1, which itself shares the parameters");
  refused({4}, {Dense{5}, shared(0, Dense{5}), Dense{10}},
          "shares the parameters of layers.0, whose tensors have other shapes");
  refused({4}, {Dense{4}, shared(0, Dense{.units = 4, .no_bias = true}), Dense{10}},
          "whose tensors have other shapes");
  refused({4}, {Dense{4}, shared(0, Activation{}), Dense{10}},
          "shares the parameters of layers.0, and needs none");
}

TEST_CASE("network: sizes that overflow are refused", "[network]") {
  const std::size_t huge = (std::size_t{1} << 31) - 1;
  CHECK_THROWS_AS(parameter_count(network_of({huge}, std::vector<Node>(5, Dense{huge}))),
                  ConfigError);
  CHECK_THROWS_AS(value_shapes(network_of({4, 4}, {conv(2, std::size_t{1} << 63)})), ConfigError);
}

TEST_CASE("network: pooling by name", "[network]") {
  CHECK(pool_from_text("max") == PoolKind::max);
  CHECK(to_text(PoolKind::average) == "average");
  CHECK_THROWS_WITH(pool_from_text("averge"), ContainsSubstring("did you mean 'average'"));
}
