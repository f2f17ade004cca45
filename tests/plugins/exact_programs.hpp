// Networks, examples, and the results of ExactClipping programs, for the tests of every backend
// that offers it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "house_plugins.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/chain.hpp"
#include "privgrad/model.hpp"

namespace exact_programs {

using namespace privgrad;

__extension__ using Wide = unsigned __int128;

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Cells = std::vector<std::int64_t>;
using Generator = std::mt19937_64;

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr std::uint64_t kCells = std::uint64_t{1} << 26;  // of a clip norm, as in the core

/// Runs chunks on threads, each of which takes the next chunk.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(std::size_t threads) : threads_(threads) {}
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    if (threads_ == 1 || chunks < 2) {
      for (std::size_t i = 0; i < chunks; ++i) body(i);
      return;
    }
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < std::min(threads_, chunks); ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < chunks; i = next++) body(i);
      });
    }
  }

 private:
  std::size_t threads_;
};

/// Takes its parts by value, because gcc 12 considers nested braces uninitialised memory.
inline Network make_network(Shape features, std::vector<ChainLink> chain,
                            Loss loss = Loss::cross_entropy, std::size_t classes = 3) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = classes;
  network.nodes = nodes_of(network.input, chain);
  network.loss = loss;
  return network;
}

inline Conv2d conv(std::size_t channels, std::size_t kernel, std::size_t stride = 1,
                   std::size_t padding = 0) {
  return {.channels = channels, .kernel = kernel, .stride = stride, .padding = padding};
}

inline Pool pool(PoolKind kind, std::size_t window, std::size_t stride) {
  return {.kind = kind, .window = window, .stride = stride};
}

inline const Activation kRelu{ActivationKind::relu};
inline const Activation kTanh{ActivationKind::tanh};
inline const Activation kSigmoid{ActivationKind::sigmoid};

/// Returns the preset wrn_16_4, layer by layer, with a 16th of its channels (initially 4, in 2
/// groups) and for images of 8 x 8, so that tests can execute the backends' code for its blocks.
inline Network small_residual_network() {
  ExampleShape images;
  images.features = {32, 32, 3};
  images.classes = 10;
  const Value::Object preset{{"preset", "wrn_16_4", {}}};
  Network network = house().create<Model>("cnn", preset)->network(images);
  network.input.features = {8, 8, 3};
  for (Node& node : network.nodes) {
    if (auto* own = std::get_if<Conv2d>(&node.layer))
      own->channels = std::max<std::size_t>(4, own->channels / 16);
    if (auto* own = std::get_if<GroupNorm>(&node.layer)) own->groups = 2;
    if (auto* own = std::get_if<Pool>(&node.layer)) own->window = own->stride = 2;
  }
  return network;
}

/// Returns networks with every layer, activation and loss, before, between and after dense layers,
/// with widths near the sizes of tiles, and inner extents near the sizes of blocks of products.
inline std::vector<Network> networks() {
  const Pool max = pool(PoolKind::max, 2, 2);
  const Pool average = pool(PoolKind::average, 3, 2);
  const Embedding table{.vocabulary = 9, .width = 5};
  const auto each = [](std::size_t units) { return Dense{.units = units, .per_place = true}; };
  std::vector<Network> networks{
      make_network({5}, {Dense{3}}),
      make_network({7}, {kTanh, Dense{40}, kRelu, Dense{3}}),
      make_network({2, 3}, {Flatten{}, Dense{129}, kRelu, Dense{257}, kSigmoid, Dense{3}, kTanh}),
      make_network({1030}, {Dense{10}, kTanh, Dense{1}}, Loss::squared, 0),
      make_network({4}, {Dense{6}, LayerNorm{}, kRelu, Dense{4}, GroupNorm{.groups = 2}, Dense{1}},
                   Loss::logistic, 2),
      make_network({14, 14}, {conv(6, 5), kRelu, max, Flatten{}, Dense{20}, kRelu, Dense{3}}),
      make_network({11, 9, 2}, {conv(4, 3, 2, 2), kTanh, conv(5, 2), kRelu, average, Dense{3}}),
      make_network({6, 6, 3}, {conv(16, 3), kRelu, conv(24, 3), kRelu, max, Dense{3}}),
      make_network({4, 4, 16}, {conv(40, 3, 1, 1), kTanh, max, conv(8, 1), Dense{3}}),
      make_network({8, 8}, {conv(8, 3), GroupNorm{.groups = 4}, kRelu, max, LayerNorm{}, Dense{3}}),
      make_network({8, 8}, {max, kRelu, conv(3, 4), Flatten{}}, Loss::squared),
      make_network({12, 12}, {conv(3, 1), pool(PoolKind::average, 12, 12)}, Loss::squared),
      make_network({6}, {table, LayerNorm{}, Dense{8}, kRelu, Dense{3}}),
      make_network({6}, {table, Flatten{}, kTanh, Dense{3}}),
      // Shortcuts, plain and projected: around a block, two from one place, to a layer at whose
      // output another shortcut begins, from the features, from the input of an activation that
      // would otherwise overwrite it, around dense layers, and from images to them.
      make_network({7, 6, 2},
                   {conv(6, 3, 1, 1), GroupNorm{.groups = 3}, kRelu, conv(6, 3, 1, 1), kTanh,
                    conv(6, 3, 1, 1), Shortcut{.over = 5}, kRelu, conv(9, 3, 2, 1),
                    Shortcut{.over = 2, .stride = 2}, Shortcut{.over = 3, .stride = 2},
                    Shortcut{.over = 1}, average, Dense{3}}),
      make_network({5, 5},
                   {conv(4, 3, 2, 1), Shortcut{.over = 1, .stride = 2}, kSigmoid, Dense{3}}),
      make_network({9}, {Dense{20}, kRelu, Dense{20}, kTanh, Dense{20}, Shortcut{.over = 4},
                         Shortcut{.over = 3}, kRelu, Dense{3}}),
      make_network({4, 4}, {conv(2, 3), kTanh, Flatten{}, Dense{8}, Shortcut{.over = 1}, Dense{3}}),
      small_residual_network(),
      // Dense layers at each place: for odd and even numbers of tokens, for pixels, for a single
      // place, with a shortcut around them, and as the first layer.
      make_network({7}, {table, each(12), kTanh, each(5), Shortcut{.over = 3}, LayerNorm{}, each(9),
                         kRelu, Dense{3}}),
      make_network({6, 5}, {each(50), kRelu, each(4), Flatten{}, Dense{3}}),
      make_network({4, 3, 6}, {each(10), kSigmoid, conv(4, 2), each(3), Dense{3}}, Loss::squared),
      make_network({1, 9}, {each(20), kTanh, each(3)}),
      make_network({9}, {each(20), kRelu, each(3)}),
  };
  // Class weights, under each loss.
  for (const Loss loss : {Loss::cross_entropy, Loss::squared}) {
    networks.push_back(make_network({7}, {Dense{20}, kTanh, Dense{3}}, loss));
    networks.back().class_weights = {0.3, 1.0, 40.0};
  }
  networks.push_back(make_network({7}, {Dense{20}, kTanh, Dense{1}}, Loss::logistic, 2));
  networks.back().class_weights = {0.3, 40.0};
  // Every activation where nothing can be done in place: first, after and before dense layers,
  // convolutions and itself, and where a shortcut begins or ends.
  for (const auto& [kind, name] : kActivations) {
    const Activation f{kind};
    networks.push_back(make_network(
        {9}, {f, Dense{20}, f, f, Dense{20}, Shortcut{.over = 3}, f, LayerNorm{}, f, Dense{3}, f}));
    networks.push_back(make_network({7, 6, 2}, {conv(5, 3), f, max, f, Flatten{}, f, Dense{3}}));
  }
  return networks;
}

/// Returns small transformers of all presets, with widths that are not multiples of a tile's
/// width.
inline std::vector<Network> transformer_networks() {
  const auto entry = [](const char* key, Value value) {
    return Value::Member{key, std::move(value), {}};
  };
  const auto made = [](Shape features, Value::Object params, std::size_t classes = 3) {
    return house().create<Model>("transformer", params)->network({std::move(features), classes});
  };
  return {made({21}, {entry("preset", "encoder"), entry("vocabulary", 9), entry("layers", 2),
                      entry("width", 12), entry("heads", 3), entry("feed_forward", 19)}),
          made({7}, {entry("preset", "encoder"), entry("vocabulary", 5), entry("layers", 1),
                     entry("width", 10), entry("heads", 1), entry("norm_first", false),
                     entry("pool", "first")}),
          made({18}, {entry("preset", "decoder"), entry("vocabulary", 7), entry("layers", 1),
                      entry("width", 24), entry("heads", 4), entry("key_heads", 2),
                      entry("feed_forward", 9)}),
          made({11},
               {entry("preset", "decoder"), entry("vocabulary", 21), entry("layers", 1),
                entry("width", 12), entry("heads", 2), entry("feed_forward", 7),
                entry("loss", "next_token")},
               0),
          made({9, 9, 2}, {entry("preset", "vision"), entry("patch", 3), entry("layers", 1),
                           entry("width", 8), entry("heads", 2)})};
}

/// Returns one network of each built-in model.
inline std::vector<Network> house_networks() {
  ExampleShape images;
  images.features = {28, 28};
  images.classes = 10;
  std::vector<Network> found;
  for (const char* name : {"linear", "mlp", "cnn"}) {
    found.push_back(house().create<Model>(name, Value::Object{})->network(images));
  }
  for (const char* preset : {"fedavg_cnn", "tempered_sigmoid"}) {
    const Value::Object params{{"preset", preset, {}}};
    found.push_back(house().create<Model>("cnn", params)->network(images));
  }
  return found;
}

struct Examples {
  Floats features, targets;
  std::size_t rows() const { return targets.size(); }
  std::size_t size() const { return features.size() / targets.size(); }
  Batch batch() const { return {features, targets}; }
  Batch batch(std::size_t first, std::size_t count) const {
    return {std::span(features).subspan(first * size(), count * size()),
            std::span(targets).subspan(first, count)};
  }
  void put(std::size_t row, const Examples& from, std::size_t of) {
    std::copy_n(from.features.begin() + static_cast<std::ptrdiff_t>(of * size()), size(),
                features.begin() + static_cast<std::ptrdiff_t>(row * size()));
    targets[row] = from.targets[of];
  }
  void fill(std::size_t row, float value) {
    std::fill_n(features.begin() + static_cast<std::ptrdiff_t>(row * size()), size(), value);
  }
};

inline Floats normals(Generator& generator, std::size_t count, double deviation = 1.0) {
  std::normal_distribution<double> normal(0.0, deviation);
  Floats out(count);
  for (float& value : out) value = static_cast<float>(normal(generator));
  return out;
}

inline Examples random_examples(Generator& generator, const Network& network, std::size_t rows) {
  Examples examples{normals(generator, rows * element_count(network.input.features)), {}};
  if (const std::size_t vocabulary = vocabulary_of(network); vocabulary > 0) {
    for (float& token : examples.features) token = static_cast<float>(generator() % vocabulary);
  }
  const bool has_mask = std::ranges::any_of(network.nodes, [](const Node& node) {
    return std::holds_alternative<TokenMask>(node.layer);
  });
  if (has_mask) {
    // Every other sequence is shorter than the features.
    const std::size_t size = element_count(network.input.features);
    for (std::size_t row = 0; row < rows; row += 2) {
      const std::size_t empty = generator() % (size + 1);
      std::fill_n(examples.features.begin() + static_cast<std::ptrdiff_t>((row + 1) * size - empty),
                  empty, kEmptyPlace);
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    examples.targets.push_back(network.input.classes == 0
                                   ? normals(generator, 1).front()
                                   : static_cast<float>(generator() % network.input.classes));
  }
  return examples;
}

/// A compiled network with random parameters.
struct Compiled {
  Compiled(const Network& network, Executor& executor, std::uint64_t seed = 5,
           const char* backend = "cpu", const Value& params = Value::Object{})
      : program(house().create<Backend>(backend, params)->compile(network, executor)),
        exact(dynamic_cast<ExactClipping&>(*program)),
        size(program->parameter_count()),
        groups(exact.groups()) {
    Generator generator(seed);
    Floats parameters = normals(generator, size, 0.3);
    for (const ParameterBlock& block : parameter_blocks(network)) {
      // The outputs of large networks would be so large that the loss is flat.
      const float size_of_weights = block.fan_in > 100 ? 0.2f : 1.0f;
      for (std::size_t i = 0; i < element_count(block.shape); ++i) {
        parameters[block.offset + i] *= size_of_weights;
      }
    }
    program->load_parameters(parameters);
    const std::vector<Shape> shapes = value_shapes(network);
    for (const ParameterBlock& block : parameter_blocks(network)) {
      if (!block.name.ends_with(".weight")) continue;
      offsets.push_back(block.offset);
      const Layer& layer = network.nodes[block.node].layer;
      const auto* own = std::get_if<Dense>(&layer);
      const Shape& in = shapes[inputs_of(network, block.node).front()];
      const bool at_places = own != nullptr && own->per_place && element_count(in) > in.back();
      dense.push_back(own != nullptr && !at_places);
      convolution.push_back(at_places || std::holds_alternative<Conv2d>(layer));
      weights.push_back(element_count(block.shape));
    }
    offsets.push_back(size);
  }

  std::unique_ptr<Program> program;
  ExactClipping& exact;
  std::size_t size, groups;
  std::vector<std::size_t> offsets;  // offsets of the groups, and the end
  std::vector<std::size_t> weights;  // weights of each group
  std::vector<bool> dense;           // whether the group is a dense layer of one place
  // or a dense layer at several places, a convolution, or a shortcut's projection
  std::vector<bool> convolution;
};

inline Floats gradient_rows(const Compiled& one, const Batch& batch) {
  Floats rows(batch.rows() * one.size);
  one.program->gradient_rows(batch, rows);
  return rows;
}

/// Returns the factors by which `flat` clips to norm 1, in cells: contributions have the largest
/// allowed length.
inline Doubles longest_scales(const Compiled& one, std::span<const double> norms,
                              std::uint64_t most = kCells) {
  Doubles scales(norms.size(), 1e300);
  for (std::size_t row = 0; row < norms.size() / one.groups; ++row) {
    double squared = 0;
    for (std::size_t g = 0; g < one.groups; ++g) squared += norms[row * one.groups + g];
    const double scale = std::isfinite(squared) && squared > 0
                             ? static_cast<double>(most) / std::sqrt(squared)
                             : 1.0;
    std::fill_n(scales.begin() + static_cast<std::ptrdiff_t>(row * one.groups), one.groups, scale);
  }
  return scales;
}

/// A batch whose cells have been computed.
struct Made {
  Made(const Compiled& compiled, const Batch& batch, std::size_t most_rows = 0)
      : one(compiled),
        rows(batch.rows()),
        pass(compiled.exact.make_pass(std::max({most_rows, rows, std::size_t{1}}))),
        norms(rows * compiled.groups, -1.0),
        lengths(rows) {
    one.exact.backward(batch, *pass, norms);
  }

  void make(std::span<const double> scales, std::uint64_t most = kCells) {
    one.exact.make_cells(*pass, scales, most, lengths);
  }

  /// Returns the sum of all examples except those in `without`.
  Cells sum(const std::vector<std::size_t>& without = {}) const {
    std::vector<std::uint8_t> taken(rows, 1);
    for (const std::size_t row : without) taken[row] = 0;
    return sum_of(taken);
  }

  Cells sum_of(std::span<const std::uint8_t> taken) const {
    Cells found(one.size, 0);
    one.exact.add_cells(*pass, taken, found);
    return found;
  }

  Cells cells(std::size_t row) const {
    std::vector<std::uint8_t> taken(rows, 0);
    taken[row] = 1;
    return sum_of(taken);
  }

  const Compiled& one;
  std::size_t rows;
  std::unique_ptr<ExactClipping::Pass> pass;
  Doubles norms;
  std::vector<SquaredLength> lengths;
};

inline bool same_bits(std::span<const double> a, std::span<const double> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

inline SquaredLength length_of(std::span<const std::int64_t> cells) {
  Wide squares = 0;
  for (const std::int64_t cell : cells) {
    const Wide size = cell < 0 ? Wide{0} - static_cast<Wide>(cell) : static_cast<Wide>(cell);
    squares += size * size;
  }
  return {static_cast<std::uint64_t>(squares >> 64), static_cast<std::uint64_t>(squares)};
}

inline bool within(const SquaredLength& length, std::uint64_t most) {
  const Wide squares = Wide{most} * most;
  return length <= SquaredLength{static_cast<std::uint64_t>(squares >> 64),
                                 static_cast<std::uint64_t>(squares)};
}

inline Cells difference(const Cells& a, const Cells& b) {
  Cells found(a.size());
  std::transform(a.begin(), a.end(), b.begin(), found.begin(), std::minus<>());
  return found;
}

/// Adds neighbours of every kind that might affect other examples.
inline void spoil(Generator& generator, Examples& examples) {
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    switch (generator() % 8) {
      case 0:
        examples.fill(row, std::array{kNan, kInf, -kInf, 3e38f}[generator() % 4]);
        break;
      case 1:
        examples.fill(row, 1e-41f);
        break;
      case 2:
        examples.features[row * examples.size() + generator() % examples.size()] = kNan;
        break;
      case 3:
        examples.targets[row] = 1e9f;
        break;
      default:
        break;
    }
  }
}

}  // namespace exact_programs
