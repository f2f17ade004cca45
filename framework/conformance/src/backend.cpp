#include "privgrad/backend.hpp"

#include "backend_sequences.hpp"
#include "inputs.hpp"
#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {

Network network_of(Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = classes;
  network.nodes = std::move(nodes);
  network.loss = loss;
  std::size_t constants = 0;
  for (const ParameterBlock& block : frozen_blocks(network))
    constants += element_count(block.shape);
  network.frozen = normal_values(33, constants, 0.5);
  return network;
}

namespace {

void add_sequences(std::vector<Network>& networks) {
  const auto each = [](std::size_t units, bool no_bias = false) {
    return Dense{.units = units, .per_place = true, .no_bias = no_bias};
  };
  const Activation gelu{ActivationKind::gelu};
  const auto add = [&](Shape features, std::vector<Node> nodes) {
    networks.push_back(network_of(std::move(features), 3, std::move(nodes), Loss::cross_entropy));
  };
  networks.push_back(encoder_of(5));
  networks.push_back(decoder_of(4));
  networks.push_back(speaker_of(4));
  add({3}, {Embedding{.vocabulary = 6, .width = 2},  // 1
            {TokenMask{}, {0}},                      // 2
            {PickPlace{.last = true}, {1, 2}},       // 3
            {MeanOfPlaces{}, {1, 2}},                // 4
            {Add{}, {3, 4}},
            Dense{3}});
  // A network that rotates two pairs of numbers, at all places on which the loss depends.
  add({3}, {Embedding{.vocabulary = 6, .width = 4},
            {TokenMask{}, {0}},
            {Attention{.causal = true, .rotary = 3.0}, {1, 1, 1}},
            {MeanOfPlaces{}, {3, 2}},
            Dense{3}});
  add({2, 4}, {Positions{},    // 1
               Prepend{},      // 2
               each(4, true),  // 3
               {Attention{.heads = 2, .key_heads = 2}, {3, 2, 2}},
               LayerNorm{.epsilon = 0.1},
               PickPlace{.place = 0},
               gelu,
               Dense{3}});
  add({1, 2}, {each(4), {Attention{}, {1, 1, 1}}, MeanOfPlaces{}, Dense{3}});
}

void add_class_weights(std::vector<Network>& networks) {
  for (const Loss loss : {Loss::cross_entropy, Loss::squared, Loss::logistic}) {
    const std::size_t classes = loss == Loss::logistic ? 2 : 3;
    const std::size_t outputs = loss == Loss::logistic ? 1 : classes;
    networks.push_back(network_of(
        {4}, classes, {Dense{5}, Activation{ActivationKind::tanh}, Dense{outputs}}, loss));
    networks.back().class_weights = {0.25, 3.0, 0.7};
    networks.back().class_weights.resize(classes);
  }
}

/// Adds chains with every layer, including shortcuts, and every loss.
void add_chains(std::vector<Network>& networks) {
  const Activation relu{ActivationKind::relu};
  const Activation tanh{ActivationKind::tanh};
  const Activation sigmoid{ActivationKind::sigmoid};
  const auto add = [&](Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss) {
    networks.push_back(network_of(std::move(features), classes, std::move(nodes), loss));
  };
  add({3}, 2, {Dense{1}}, Loss::logistic);
  add({5}, 3, {Dense{3}}, Loss::cross_entropy);
  add({4}, 0, {Dense{1}}, Loss::squared);
  add({2, 3}, 3, {Dense{4}, relu, Dense{3}}, Loss::cross_entropy);
  add({4}, 3, {Dense{5}, tanh, Dense{4}, sigmoid, Dense{3}}, Loss::squared);
  add({4}, 0, {Dense{6}, sigmoid, Dense{1}}, Loss::squared);
  add({1}, 2, {Dense{3}, tanh, Dense{1}}, Loss::logistic);
  add({4}, 3, {tanh, Dense{3}, relu}, Loss::cross_entropy);
  const Pool max{.kind = PoolKind::max, .window = 2, .stride = 2};
  const Pool average{.kind = PoolKind::average, .window = 2, .stride = 1};
  add({6, 5}, 3, {Conv2d{.channels = 3, .kernel = 3}, tanh, max, Dense{3}}, Loss::cross_entropy);
  add({5, 6, 2}, 0,
      {Conv2d{.channels = 4, .kernel = 2, .stride = 2, .padding = 1}, sigmoid, average,
       Conv2d{.channels = 2, .kernel = 1}, Flatten{}, Dense{1}},
      Loss::squared);
  add({4, 4, 2}, 2,
      {Conv2d{.channels = 4, .kernel = 3, .padding = 2}, GroupNorm{.groups = 2}, tanh, average,
       Dense{2}},
      Loss::cross_entropy);
  add({5}, 3, {Dense{6}, LayerNorm{}, tanh, Dense{3}}, Loss::cross_entropy);
  // Residual blocks: a block that keeps its shape, one that changes it, two that begin at the same
  // value, two around dense layers, one that ends at an activation, and one at a dense layer.
  const Conv2d same{.channels = 2, .kernel = 3, .padding = 1};
  const Conv2d projection{.channels = 4, .kernel = 1, .stride = 2};
  add({4, 4, 2}, 3,
      {same,
       GroupNorm{.groups = 2},
       tanh,
       same,
       sigmoid,
       same,
       {Add{}, {6, 1}},
       Conv2d{.channels = 4, .kernel = 3, .stride = 2, .padding = 1},
       tanh,
       {projection, {7}},
       {Add{}, {9, 10}},
       {projection, {7}},
       {Add{}, {11, 12}},
       Dense{3}},
      Loss::cross_entropy);
  add({5}, 0,
      {Dense{4},
       tanh,
       Dense{4},
       sigmoid,
       Dense{4},
       {Add{}, {5, 1}},
       {Add{}, {6, 2}},
       tanh,
       Dense{1}},
      Loss::squared);
  add({4}, 2, {Embedding{.vocabulary = 7, .width = 3}, LayerNorm{}, Dense{1}}, Loss::logistic);
}

/// Adds networks with values that several nodes use, frozen layers, and dense layers at each place.
void add_graphs(std::vector<Network>& networks) {
  const Activation relu{ActivationKind::relu}, tanh{ActivationKind::tanh};
  const Activation sigmoid{ActivationKind::sigmoid};
  const auto add = [&](Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss) {
    networks.push_back(network_of(std::move(features), classes, std::move(nodes), loss));
  };
  // A diamond; a value that three nodes use, one of them twice; features next to values derived
  // from features; a dense layer and a convolution whose outputs other layers use first.
  add({4}, 3, {Dense{5}, {Dense{3}, {1}}, {Dense{3}, {1}}, {Add{}, {2, 3}}}, Loss::cross_entropy);
  add({3}, 0,
      {Dense{3},
       {tanh, {1}},
       {Scale{-0.75}, {1}},
       {Add{}, {3, 1, 2, 1}},
       {Add{}, {4, 0}},
       Dense{1}},
      Loss::squared);
  add({3, 3, 2}, 2,
      {Conv2d{.channels = 2, .kernel = 2, .padding = 1, .no_bias = true},
       Flatten{},
       {Activation{ActivationKind::gelu}, {1}},
       {Flatten{}, {3}},
       {relu, {2}},
       {Add{}, {4, 5, 2}},
       Reshape{{2, 8, 2}},
       PartOf{.first = 1, .size = 1},
       Dense{.units = 2, .no_bias = true}},
      Loss::cross_entropy);
  // A product of two branches, one of them normalised, and a square: a product with one value as
  // both factors.
  add({4}, 2,
      {Dense{6},
       RmsNorm{.epsilon = 0.1},
       {Dense{6}, {0}},
       {ElementwiseProduct{}, {2, 3}},
       Dense{2}},
      Loss::cross_entropy);
  add({3, 2}, 0,
      {{ElementwiseProduct{}, {0, 0}}, RmsNorm{}, {ElementwiseProduct{}, {2, 2}}, Dense{1}},
      Loss::squared);
  // Tokens next to numbers that resemble the values from frozen layers.
  add({7}, 3,
      {PartOf{.first = 0, .size = 3},
       Embedding{.vocabulary = 7, .width = 2},
       Flatten{},
       {PartOf{.first = 3, .size = 4}, {0}},
       Dense{6},
       {Add{}, {3, 5}},
       Dense{3}},
      Loss::cross_entropy);
  // Frozen layers: at the end, in the middle, and parallel to trained layers, like adapters.
  const auto frozen = [](Layer layer) {
    Node node(std::move(layer));
    node.is_frozen = true;
    return node;
  };
  add({4}, 3, {frozen(Dense{4}), tanh, Dense{5}, frozen(LayerNorm{}), tanh, frozen(Dense{3})},
      Loss::cross_entropy);
  const Dense down{.units = 2, .no_bias = true}, up{.units = 4, .no_bias = true};
  add({3}, 2,
      {frozen(Dense{4}), {down, {0}}, up, Scale{1.5}, {Add{}, {1, 4}}, tanh, frozen(Dense{2})},
      Loss::cross_entropy);
  // Dense layers at each place: for tokens, for the pixels of an image, and for a single place.
  const auto each = [](std::size_t units) { return Dense{.units = units, .per_place = true}; };
  add({5}, 2,
      {Embedding{.vocabulary = 7, .width = 3}, each(4), tanh, each(3), {Add{}, {4, 1}}, Dense{2}},
      Loss::cross_entropy);
  add({3, 2, 2}, 3, {each(4), GroupNorm{.groups = 2}, tanh, each(1), Dense{3}},
      Loss::cross_entropy);
  add({4}, 0, {each(3), sigmoid, each(1)}, Loss::squared);
}

/// Adds networks in which nodes use another node's parameters: in sequence, side by side, as a
/// table that is also the output layer, in norms, in convolutions, and in frozen nodes.
void add_shared_parameters(std::vector<Network>& networks) {
  const Activation tanh{ActivationKind::tanh};
  const auto shared = [](std::size_t owner, Layer layer, std::vector<std::size_t> from = {}) {
    Node node(std::move(layer), std::move(from));
    node.shares = owner;
    return node;
  };
  const auto add = [&](Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss) {
    networks.push_back(network_of(std::move(features), classes, std::move(nodes), loss));
  };
  add({4}, 3, {Dense{4}, tanh, shared(0, Dense{4}), tanh, shared(0, Dense{4}), Dense{3}},
      Loss::cross_entropy);
  const Dense each{.units = 3, .per_place = true}, logits{.units = 7, .no_bias = true};
  add({5}, 7,
      {Embedding{.vocabulary = 7, .width = 3},
       each,
       tanh,
       shared(1, each, {1}),
       {Add{}, {3, 4}},
       MeanOfPlaces{},
       shared(0, logits)},
      Loss::cross_entropy);
  const Conv2d conv{.channels = 2, .kernel = 2, .padding = 1};
  add({3, 3, 2}, 0,
      {conv, LayerNorm{}, tanh, shared(0, conv), shared(1, LayerNorm{}), tanh, Dense{1}},
      Loss::squared);
  const Dense of_places{.units = 7, .per_place = true, .no_bias = true};
  add({5}, 0, {Embedding{.vocabulary = 7, .width = 3}, each, tanh, shared(0, of_places)},
      Loss::next_token);
  Node table(Embedding{.vocabulary = 7, .width = 3});
  table.is_frozen = true;
  add({4}, 7, {table, MeanOfPlaces{}, Dense{3}, tanh, shared(0, logits)}, Loss::cross_entropy);
}

/// Returns small networks with every layer and every loss.
std::vector<Network> sample_networks() {
  std::vector<Network> networks;
  add_chains(networks);
  add_graphs(networks);
  // Sequences, with and without empty places: the blocks of an encoder and of a decoder, images cut
  // into places, and layers that combine places.
  add_sequences(networks);
  add_class_weights(networks);
  add_shared_parameters(networks);
  // Every activation, after a dense layer and after itself.
  for (const auto& [kind, name] : kActivations)
    networks.push_back(network_of({4}, 3, {Dense{5}, Activation{kind}, Activation{kind}, Dense{3}},
                                  Loss::cross_entropy));
  return networks;
}

/// Requires a text that is one line, the same on every call, and consistent with compile().
void require_words_for_what_is_missing(const Checker& checker) {
  const auto backend = checker.make<Backend>();
  const std::string missing = backend->missing_hardware();
  require(missing == backend->missing_hardware(), "missing_hardware() differs at the second call");
  require(missing.find('\n') == missing.npos && (missing.empty() || missing.back() != '.'),
          "missing_hardware() is not one line without a full stop");
  if (missing.empty()) return;
  SerialExecutor executor;
  const Network network = sample_networks().front();
  try {
    static_cast<void>(backend->compile(network, executor));
  } catch (const ConfigError& error) {
    require(std::string(error.what()).find(missing) != std::string::npos,
            "compile() throws another message than missing_hardware() returns");
    return;
  }
  require(false, "compile() does what missing_hardware() says that it cannot");
}

}  // namespace

void check_backend(Checker& checker) {
  if (!checker.make<Backend>()->missing_hardware().empty()) {
    checker.rule("says_what_hardware_is_missing",
                 [&] { require_words_for_what_is_missing(checker); });
  }
  std::vector<Network> networks;
  if (!checker.prepare("compiles_a_network", [&] {
        SerialExecutor executor;
        const auto backend = checker.make<Backend>();
        for (const Network& network : sample_networks()) {
          if (accepted("compile()", {Thrown::config},
                       [&] { static_cast<void>(backend->compile(network, executor)); })) {
            networks.push_back(network);
          }
        }
        require(!networks.empty(), "compile() refuses every network of dense layers");
      })) {
    return;
  }
  // One backend compiles all networks, so programs differ only in their networks.
  const auto backend = checker.make<Backend>();
  const auto compile = [&](const Network& network, Executor& executor) {
    return backend->compile(network, executor);
  };
  check_program(checker, networks, compile);
  check_sequences(checker, compile);
  check_range_ends(checker, [&](const Params& params) {
    SerialExecutor executor;
    const auto program = checker.make<Backend>(params)->compile(networks.front(), executor);
    require(program != nullptr, "there is no program");
  });
}

}  // namespace privgrad::testing
