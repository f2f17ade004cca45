#include "presets.hpp"

#include "privgrad/error.hpp"

namespace privgrad::cnn {
namespace {

Conv2d conv(std::size_t channels, std::size_t kernel, std::size_t stride, std::size_t padding) {
  return {.channels = channels, .kernel = kernel, .stride = stride, .padding = padding};
}

Pool pool(PoolKind kind, std::size_t window, std::size_t stride) {
  return {.kind = kind, .window = window, .stride = stride};
}

/// The network of LeCun, Bottou, Bengio and Haffner 1998 in its usual modern form: every map sees
/// every channel, and pooling is a plain average. 61706 parameters on 28 x 28 images of 10 classes.
std::vector<ChainLink> lenet(Activation f) {
  const Pool halve = pool(PoolKind::average, 2, 2);
  return {conv(6, 5, 1, 2), f, halve, conv(16, 5, 1, 0), f, halve, Dense{120}, f, Dense{84}, f};
}

/// The convolutional network of McMahan et al. 2017, without padding, as in later federated work:
/// 582026 parameters on 28 x 28 images of 10 classes.
std::vector<ChainLink> fedavg_cnn(Activation f) {
  const Pool halve = pool(PoolKind::max, 2, 2);
  return {conv(32, 5, 1, 0), f, halve, conv(64, 5, 1, 0), f, halve, Dense{512}, f};
}

/// The network of Papernot et al. 2021 for MNIST and Fashion-MNIST, with 26010 parameters. "Same"
/// padding with a kernel of 8 and a stride of 2 on 28 x 28 is a padding of 3.
std::vector<ChainLink> tempered_sigmoid(Activation f) {
  const Pool overlapping = pool(PoolKind::max, 2, 1);
  return {conv(16, 8, 2, 3), f, overlapping, conv(32, 4, 2, 0), f, overlapping, Dense{32}, f};
}

/// The network of Zagoruyko and Komodakis 2016, 16 layers deep and 4 times as wide, with group
/// norms instead of batch norms, as in the private training of De, Berrada, Hayes, Smith and Balle
/// 2022: 2751146 parameters on 32 x 32 images of 3 channels and 10 classes.
std::vector<ChainLink> wrn_16_4(Activation f) {
  const GroupNorm norm{.groups = 16};
  std::vector<ChainLink> layers{conv(16, 3, 1, 1)};
  for (const std::size_t channels : {64u, 128u, 256u}) {
    const std::size_t stride = channels == 64 ? 1 : 2;
    // The first block changes channels and extents: its shortcut begins after norm and activation.
    layers.insert(layers.end(), {norm, f, conv(channels, 3, stride, 1), norm, f,
                                 conv(channels, 3, 1, 1), Shortcut{.over = 4, .stride = stride}});
    layers.insert(layers.end(), {norm, f, conv(channels, 3, 1, 1), norm, f, conv(channels, 3, 1, 1),
                                 Shortcut{.over = 6}});
  }
  layers.insert(layers.end(), {norm, f, pool(PoolKind::average, 8, 8)});
  return layers;
}

struct Preset {
  std::string_view name;
  std::vector<ChainLink> (*layers)(Activation);
  ActivationKind activation;
};

constexpr Preset kPresets[] = {{"lenet", lenet, ActivationKind::tanh},
                               {"fedavg_cnn", fedavg_cnn, ActivationKind::relu},
                               {"tempered_sigmoid", tempered_sigmoid, ActivationKind::tanh},
                               {"wrn_16_4", wrn_16_4, ActivationKind::relu}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::vector<ChainLink> preset(std::string_view name, std::optional<ActivationKind> activation) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset.layers({activation.value_or(preset.activation)});
  }
  throw ConfigError("cnn: there is no preset '" + std::string(name) + "'");
}

}  // namespace privgrad::cnn
