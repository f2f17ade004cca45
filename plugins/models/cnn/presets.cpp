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

/// LeCun, Bottou, Bengio and Haffner 1998, as it is usually written today: every map sees every
/// channel, plain average pooling. 61706 parameters on 28 x 28 images of 10 classes.
std::vector<Layer> lenet(Activation f) {
  const Pool halve = pool(PoolKind::average, 2, 2);
  return {conv(6, 5, 1, 2), f, halve, conv(16, 5, 1, 0), f, halve, Dense{120}, f, Dense{84}, f};
}

/// The convolutional network of McMahan et al. 2017, without padding, as later federated work has
/// it: 582026 parameters on 28 x 28 images of 10 classes.
std::vector<Layer> fedavg_cnn(Activation f) {
  const Pool halve = pool(PoolKind::max, 2, 2);
  return {conv(32, 5, 1, 0), f, halve, conv(64, 5, 1, 0), f, halve, Dense{512}, f};
}

/// Papernot et al. 2021, the network for MNIST and Fashion-MNIST: 26010 parameters there. The
/// padding of 3 is what "same" means for a kernel of 8 and a stride of 2 on 28 x 28.
std::vector<Layer> tempered_sigmoid(Activation f) {
  const Pool overlapping = pool(PoolKind::max, 2, 1);
  return {conv(16, 8, 2, 3), f, overlapping, conv(32, 4, 2, 0), f, overlapping, Dense{32}, f};
}

struct Preset {
  std::string_view name;
  std::vector<Layer> (*layers)(Activation);
  ActivationKind activation;
};

constexpr Preset kPresets[] = {{"lenet", lenet, ActivationKind::tanh},
                               {"fedavg_cnn", fedavg_cnn, ActivationKind::relu},
                               {"tempered_sigmoid", tempered_sigmoid, ActivationKind::tanh}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::vector<Layer> preset(std::string_view name, std::optional<ActivationKind> activation) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset.layers({activation.value_or(preset.activation)});
  }
  throw ConfigError("cnn: there is no preset '" + std::string(name) + "'");
}

}  // namespace privgrad::cnn
