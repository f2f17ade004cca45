#include "privgrad/backend.hpp"

#include "inputs.hpp"
#include "parameters.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

Network network_of(Shape features, std::size_t classes, std::vector<Layer> layers, Loss loss) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = classes;
  network.layers = std::move(layers);
  network.loss = loss;
  return network;
}

/// Small networks with every layer and every loss.
std::vector<Network> sample_networks() {
  const Activation relu{ActivationKind::relu};
  const Activation tanh{ActivationKind::tanh};
  const Activation sigmoid{ActivationKind::sigmoid};
  std::vector<Network> networks;
  const auto add = [&](Shape features, std::size_t classes, std::vector<Layer> layers, Loss loss) {
    networks.push_back(network_of(std::move(features), classes, std::move(layers), loss));
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
  // Residual blocks: one that keeps its shape, one that changes it, two that begin at one place,
  // two around dense layers, one to an activation and one to a dense layer.
  const Conv2d same{.channels = 2, .kernel = 3, .padding = 1};
  add({4, 4, 2}, 3,
      {same, GroupNorm{.groups = 2}, tanh, same, sigmoid, same, Shortcut{.over = 5},
       Conv2d{.channels = 4, .kernel = 3, .stride = 2, .padding = 1}, tanh,
       Shortcut{.over = 2, .stride = 2}, Shortcut{.over = 3, .stride = 2}, Dense{3}},
      Loss::cross_entropy);
  add({5}, 0,
      {Dense{4}, tanh, Dense{4}, sigmoid, Dense{4}, Shortcut{.over = 4}, Shortcut{.over = 4}, tanh,
       Dense{1}},
      Loss::squared);
  add({4}, 2, {Embedding{.vocabulary = 7, .width = 3}, LayerNorm{}, Dense{1}}, Loss::logistic);
  // Dense layers at each place: for tokens, for the pixels of an image, for a single place.
  const auto each = [](std::size_t units) { return Dense{.units = units, .per_place = true}; };
  add({5}, 2,
      {Embedding{.vocabulary = 7, .width = 3}, each(4), tanh, each(3), Shortcut{.over = 3},
       Dense{2}},
      Loss::cross_entropy);
  add({3, 2, 2}, 3, {each(4), GroupNorm{.groups = 2}, tanh, each(1), Dense{3}},
      Loss::cross_entropy);
  add({4}, 0, {each(3), sigmoid, each(1)}, Loss::squared);
  // Every activation, after a dense layer and after itself.
  for (const auto& [kind, name] : kActivations)
    add({4}, 3, {Dense{5}, Activation{kind}, Activation{kind}, Dense{3}}, Loss::cross_entropy);
  return networks;
}

/// The text is one line, the same on every call, and agrees with compile().
void require_words_for_what_is_missing(const Checker& checker) {
  const auto backend = checker.make<Backend>();
  const std::string missing = backend->missing_hardware();
  require(missing == backend->missing_hardware(),
          "missing_hardware() answers otherwise the second time");
  require(missing.find('\n') == missing.npos && (missing.empty() || missing.back() != '.'),
          "missing_hardware() is not one line without a full stop");
  if (missing.empty()) return;
  SerialExecutor executor;
  const Network network = sample_networks().front();
  try {
    static_cast<void>(backend->compile(network, executor));
  } catch (const ConfigError& error) {
    require(std::string(error.what()).find(missing) != std::string::npos,
            "compile() throws other words than missing_hardware() has");
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
  // One backend compiles all of them: programs may differ only by their network.
  const auto backend = checker.make<Backend>();
  check_program(checker, networks, [&](const Network& network, Executor& executor) {
    return backend->compile(network, executor);
  });
  check_range_ends(checker, [&](const Params& params) {
    SerialExecutor executor;
    const auto program = checker.make<Backend>(params)->compile(networks.front(), executor);
    require(program != nullptr, "there is no program");
  });
}

}  // namespace privgrad::testing
