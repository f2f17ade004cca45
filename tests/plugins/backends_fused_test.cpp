// FusedClipping of the cpu backend against its rows, which the conformance rules hold to the
// definitions of the layers.

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "house_plugins.hpp"
#include "privgrad/backend.hpp"

using namespace privgrad;

namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Generator = std::mt19937_64;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Threads that take the next chunk each.
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

/// From parts by value: gcc 12 takes nested braces for uninitialised memory.
Network make_network(Shape features, std::vector<Layer> layers, Loss loss = Loss::cross_entropy,
                     std::size_t classes = 3) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = classes;
  network.layers = std::move(layers);
  network.loss = loss;
  return network;
}

Conv2d conv(std::size_t channels, std::size_t kernel, std::size_t stride = 1,
            std::size_t padding = 0) {
  return {.channels = channels, .kernel = kernel, .stride = stride, .padding = padding};
}

Pool pool(PoolKind kind, std::size_t window, std::size_t stride) {
  return {.kind = kind, .window = window, .stride = stride};
}

const Activation kRelu{ActivationKind::relu};
const Activation kTanh{ActivationKind::tanh};
const Activation kSigmoid{ActivationKind::sigmoid};

/// Every layer, every way of summing, in front, between and behind dense layers; widths beside the
/// extents of tiles.
std::vector<Network> networks() {
  const Pool max = pool(PoolKind::max, 2, 2);
  const Pool average = pool(PoolKind::average, 3, 2);
  const Embedding table{.vocabulary = 9, .width = 5};
  return {
      make_network({5}, {Dense{3}}),
      make_network({7}, {kTanh, Dense{40}, kRelu, Dense{3}}),
      make_network({2, 3}, {Flatten{}, Dense{129}, kRelu, Dense{257}, kSigmoid, Dense{3}, kTanh}),
      make_network({1030}, {Dense{10}, kTanh, Dense{1}}, Loss::squared, 0),
      make_network({4}, {Dense{6}, LayerNorm{}, kRelu, Dense{4}, GroupNorm{.groups = 2}, Dense{1}},
                   Loss::logistic, 2),
      // 100 places, 25 weights in a patch: rows.
      make_network({14, 14}, {conv(6, 5), kRelu, max, Flatten{}, Dense{20}, kRelu, Dense{3}}),
      make_network({11, 9, 2}, {conv(4, 3, 2, 2), kTanh, conv(5, 2), kRelu, average, Dense{3}}),
      // 4 places, 144 weights in a patch: norms by places.
      make_network({6, 6, 3}, {conv(16, 3), kRelu, conv(24, 3), kRelu, max, Dense{3}}),
      make_network({4, 4, 16}, {conv(24, 3), GroupNorm{.groups = 24}, kTanh, Dense{3}}),
      make_network({4, 4, 16}, {conv(140, 3, 1, 1), kTanh, max, conv(8, 1), Dense{3}}),
      make_network({8, 8}, {conv(8, 3), GroupNorm{.groups = 4}, kRelu, max, LayerNorm{}, Dense{3}}),
      make_network({8, 8}, {max, kRelu, conv(3, 4), Flatten{}}, Loss::squared),
      make_network({6}, {table, LayerNorm{}, Dense{8}, kRelu, Dense{3}}),
      make_network({6}, {table, Flatten{}, kTanh, Dense{3}}),
  };
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
};

Floats normals(Generator& generator, std::size_t count, double deviation = 1.0) {
  std::normal_distribution<double> normal(0.0, deviation);
  Floats out(count);
  for (float& value : out) value = static_cast<float>(normal(generator));
  return out;
}

Examples random_examples(Generator& generator, const Network& network, std::size_t rows) {
  Examples examples{normals(generator, rows * element_count(network.input.features)), {}};
  if (const auto* table = std::get_if<Embedding>(&network.layers.front())) {
    for (float& token : examples.features) {
      token = static_cast<float>(generator() % table->vocabulary);
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
  Compiled(const Network& network, Executor& executor, std::uint64_t seed = 5)
      : program(house().create<Backend>("cpu", Value::Object{})->compile(network, executor)),
        fused(dynamic_cast<FusedClipping&>(*program)),
        size(program->parameter_count()) {
    Generator generator(seed);
    program->load_parameters(normals(generator, size, 0.3));
    for (const ParameterBlock& block : parameter_blocks(network)) {
      const std::string layer = block.name.substr(0, block.name.rfind('.'));
      if (offsets.empty() || layer != last) offsets.push_back(block.offset);
      last = layer;
    }
    offsets.push_back(size);
  }

  std::span<const float> part(std::span<const float> gradient, std::size_t group) const {
    return gradient.subspan(offsets[group], offsets[group + 1] - offsets[group]);
  }

  std::unique_ptr<Program> program;
  FusedClipping& fused;
  std::size_t size;
  std::vector<std::size_t> offsets;  // of each group, and the end
  std::string last;
};

Floats gradient_rows(const Compiled& one, const Batch& batch) {
  Floats rows(batch.rows() * one.size);
  one.program->gradient_rows(batch, rows);
  return rows;
}

long double squares(std::span<const float> values) {
  long double sum = 0;
  for (const float value : values) sum += static_cast<long double>(value) * value;
  return sum;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// Norms of a batch; the pass is ready for add_scaled().
Doubles norms_of(const Compiled& one, FusedClipping::Pass& pass, const Batch& batch) {
  Doubles norms(batch.rows() * one.fused.groups(), -1.0);
  one.fused.backward(batch, pass, norms);
  return norms;
}

/// The contribution of one example alone, with the same factor for all groups.
Floats contribution(const Compiled& one, FusedClipping::Pass& pass, std::size_t rows,
                    std::size_t row, float factor) {
  const std::size_t groups = one.fused.groups();
  Floats factors(rows * groups, 0.0f);
  std::fill_n(factors.begin() + static_cast<std::ptrdiff_t>(row * groups), groups, factor);
  Floats sum(one.size, 0.0f);
  one.fused.add_scaled(pass, factors, sum);
  return sum;
}

float rounded_down(double factor) {
  const auto rounded = static_cast<float>(factor);
  return static_cast<double>(rounded) > factor ? std::nextafter(rounded, 0.0f) : rounded;
}

/// Largest difference, relative to the largest value of the group that it is in: float32 rounding
/// of sums in other orders.
double worst_difference(const Compiled& one, std::span<const float> a, const Doubles& b) {
  double worst = 0;
  for (std::size_t group = 0; group + 1 < one.offsets.size(); ++group) {
    double largest = 1e-30, difference = 0;
    for (std::size_t i = one.offsets[group]; i < one.offsets[group + 1]; ++i) {
      largest = std::max(largest, std::abs(b[i]));
      difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace

TEST_CASE("cpu fused: norms and sums agree with the rows", "[backend]") {
  ThreadExecutor serial(1);
  Generator generator(31);
  for (const Network& network : networks()) {
    const Compiled one(network, serial);
    const std::size_t rows = 1 + generator() % 150;
    const Examples examples = random_examples(generator, network, rows);
    const auto pass = one.fused.make_pass(rows);
    const std::size_t groups = one.fused.groups();
    REQUIRE(groups + 1 == one.offsets.size());
    const Floats all = gradient_rows(one, examples.batch());
    const Doubles norms = norms_of(one, *pass, examples.batch());

    Floats factors = normals(generator, rows * groups);
    for (float& factor : factors) factor = generator() % 5 == 0 ? 0.0f : std::abs(factor);
    Floats sum = normals(generator, one.size);  // what was there stays
    Doubles expected(sum.begin(), sum.end());
    one.fused.add_scaled(*pass, factors, sum);
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = std::span(all).subspan(i * one.size, one.size);
      for (std::size_t group = 0; group < groups; ++group) {
        const auto exact = static_cast<double>(squares(one.part(row, group)));
        // Norms by places leave more room for rounding.
        INFO("layer " << group << " of " << network.layers.size() << " example " << i);
        REQUIRE_THAT(norms[i * groups + group], WithinRel(exact, 2e-3) || WithinAbs(exact, 1e-9));
        for (std::size_t k = one.offsets[group]; k < one.offsets[group + 1]; ++k) {
          expected[k] +=
              static_cast<double>(factors[i * groups + group]) * static_cast<double>(row[k]);
        }
      }
    }
    CHECK(worst_difference(one, sum, expected) < 3e-5);

    // And the same pass again, without norms: the plain sum.
    one.fused.backward(examples.batch(), *pass, {});
    Floats plain(one.size, 0.0f);
    one.fused.add_scaled(*pass, {}, plain);
    Doubles total(one.size, 0.0);
    for (std::size_t i = 0; i < rows * one.size; ++i) total[i % one.size] += double{all[i]};
    CHECK(worst_difference(one, plain, total) < 3e-5);
  }
}

TEST_CASE("cpu fused: a contribution never has a norm above the stated one, nor above a bound",
          "[backend][privacy]") {
  ThreadExecutor serial(1);
  Generator generator(37);
  for (const Network& network : networks()) {
    const Compiled one(network, serial);
    constexpr std::size_t kRows = 7;
    Examples examples = random_examples(generator, network, kRows);
    if (!std::holds_alternative<Embedding>(network.layers.front())) {
      for (std::size_t i = 0; i < examples.features.size(); ++i) {
        const std::size_t row = i / examples.size();
        examples.features[i] *=
            std::array<float, kRows>{1, 1e-3f, 1e3f, 1e8f, 1e-20f, 0, 1e-3f}[row];
        // Places that see nearly the same: behind them a norm makes the errors cancel.
        if (row == 6) examples.features[i] += 1e3f;
      }
    }
    const auto pass = one.fused.make_pass(kRows);
    const std::size_t groups = one.fused.groups();
    const Doubles norms = norms_of(one, *pass, examples.batch());
    for (std::size_t row = 0; row < kRows; ++row) {
      const Floats whole = contribution(one, *pass, kRows, row, 1.0f);
      long double all = 0;
      for (std::size_t group = 0; group < groups; ++group) {
        const long double measured = squares(one.part(whole, group));
        REQUIRE(measured <= static_cast<long double>(norms[row * groups + group]));
        all += static_cast<long double>(norms[row * groups + group]);
      }
      if (all == 0) continue;
      // Bounds of all sizes; 0x1p-20 and the like leave the mantissa of the factor to chance.
      for (const double bound : {1.0, 0.1, 7.3e-4, 1.9e3}) {
        const float factor = rounded_down(bound / std::sqrt(static_cast<double>(all)) *
                                          (1 - 4 * std::numeric_limits<double>::epsilon()));
        if (!std::isfinite(factor)) continue;
        const Floats clipped = contribution(one, *pass, kRows, row, factor);
        REQUIRE(std::sqrt(squares(clipped)) <= static_cast<long double>(bound));
      }
    }
  }
}

TEST_CASE("cpu fused: bitwise the same for any threads and any cut of the batch", "[backend]") {
  Generator generator(41);
  ThreadExecutor serial(1);
  for (const Network& network : networks()) {
    const Compiled one(network, serial);
    const std::size_t chunk = one.fused.chunk_rows();
    CHECK(one.fused.pass_rows() % chunk == 0);
    const std::size_t rows = 3 * chunk + 1 + generator() % chunk;
    const Examples examples = random_examples(generator, network, rows);
    const std::size_t groups = one.fused.groups();
    Floats factors = normals(generator, rows * groups);
    for (float& factor : factors) factor = std::abs(factor);

    const auto sum_in_passes = [&](const Compiled& by, std::size_t pass_rows) {
      const auto pass = by.fused.make_pass(pass_rows);
      Floats sum(by.size, 0.0f);
      for (std::size_t first = 0; first < rows; first += pass_rows) {
        const std::size_t count = std::min(pass_rows, rows - first);
        norms_of(by, *pass, examples.batch(first, count));
        by.fused.add_scaled(*pass, std::span(factors).subspan(first * groups, count * groups), sum);
      }
      return sum;
    };
    const auto all = one.fused.make_pass(rows);
    const Doubles norms = norms_of(one, *all, examples.batch());
    const Floats expected = sum_in_passes(one, rows);
    CHECK(same_bits(sum_in_passes(one, chunk), expected));
    CHECK(same_bits(sum_in_passes(one, 2 * chunk), expected));
    for (const std::size_t threads : {2u, 5u}) {
      ThreadExecutor parallel(threads);
      const Compiled other(network, parallel);
      CHECK(norms_of(other, *other.fused.make_pass(rows), examples.batch()) == norms);
      CHECK(same_bits(sum_in_passes(other, rows), expected));
      CHECK(same_bits(sum_in_passes(other, chunk), expected));
    }
  }
}

TEST_CASE("cpu fused: examples that are not finite have such a norm and touch no other",
          "[backend][privacy]") {
  ThreadExecutor serial(1);
  Generator generator(43);
  const float poison = GENERATE(as<float>{}, kNan, kInf, -kInf, 3e38f);
  for (const Network& network : networks()) {
    const bool tokens = std::holds_alternative<Embedding>(network.layers.front());
    const Compiled one(network, serial);
    constexpr std::size_t kRows = 20;
    Examples examples = random_examples(generator, network, kRows);
    const std::vector<std::size_t> victims{0, 7, 8, 19};
    const std::size_t groups = one.fused.groups();
    Floats factors(kRows * groups, 0.7f);
    for (const std::size_t victim : victims) {
      std::fill_n(factors.begin() + static_cast<std::ptrdiff_t>(victim * groups), groups, 0.0f);
    }
    const auto pass = one.fused.make_pass(kRows);
    norms_of(one, *pass, examples.batch());
    Floats expected(one.size, 0.0f);
    one.fused.add_scaled(*pass, factors, expected);

    for (const std::size_t victim : victims) {
      // Half of the features only: the others must not hide it.
      for (std::size_t k = 0; k < (examples.size() + 1) / 2; ++k) {
        examples.features[victim * examples.size() + k] = poison;
      }
    }
    const Floats before = examples.features;
    const Doubles norms = norms_of(one, *pass, examples.batch());
    Floats sum(one.size, 0.0f);
    one.fused.add_scaled(*pass, factors, sum);
    CHECK(same_bits(sum, expected));
    CHECK(same_bits(examples.features, before));
    const Floats rows = gradient_rows(one, examples.batch());
    for (std::size_t row = 0; row < kRows; ++row) {
      double total = 0;
      for (std::size_t group = 0; group < groups; ++group) total += norms[row * groups + group];
      const bool victim = std::find(victims.begin(), victims.end(), row) != victims.end();
      if (!victim) REQUIRE(std::isfinite(total));
      if (victim && (std::isnan(poison) || tokens)) REQUIRE_FALSE(std::isfinite(total));
      const auto gradient = std::span(rows).subspan(row * one.size, one.size);
      const bool has_nan =
          std::any_of(gradient.begin(), gradient.end(), [](float x) { return std::isnan(x); });
      if (has_nan && !std::isfinite(poison)) REQUIRE_FALSE(std::isfinite(total));
      // Where sums overflow in one order and not in another, the norm decides: a finite one
      // belongs to a contribution that is finite, and bounded.
      if (victim && std::isfinite(total) && total > 0) {
        const float factor = rounded_down((1 - 1e-15) / std::sqrt(total));
        const long double norm = squares(contribution(one, *pass, kRows, row, factor));
        REQUIRE(norm <= 1.0L);
      }
    }
  }
}

TEST_CASE("cpu fused: a pass refuses what it was not made for, and takes nothing", "[backend]") {
  ThreadExecutor serial(1);
  Generator generator(47);
  const Network network = make_network({5}, {Dense{3}});
  const Compiled one(network, serial);
  const Examples examples = random_examples(generator, network, 3);
  CHECK_THROWS_AS(one.fused.make_pass(0), ConfigError);
  const auto pass = one.fused.make_pass(2);
  Doubles norms(3);
  CHECK_THROWS_WITH(one.fused.backward(examples.batch(), *pass, norms),
                    ContainsSubstring("3 examples for a pass of at most 2"));
  CHECK_THROWS_AS(one.fused.backward(examples.batch(0, 2), *pass, norms), ConfigError);
  Floats sum(one.size, 1.0f);
  one.fused.backward({}, *pass, {});
  one.fused.add_scaled(*pass, {}, sum);
  CHECK(sum == Floats(one.size, 1.0f));
  one.fused.backward(examples.batch(0, 2), *pass, std::span(norms).first(2));
  CHECK_THROWS_AS(one.fused.add_scaled(*pass, Floats(3), sum), ConfigError);
  CHECK_THROWS_AS(one.fused.add_scaled(*pass, Floats(2), std::span(sum).first(4)), ConfigError);
}

TEST_CASE("cpu fused: memory grows with examples and widths, never with their gradients",
          "[backend]") {
  ThreadExecutor serial(1);
  const Network network =
      make_network({784}, {Dense{1000}, kRelu, Dense{10}}, Loss::cross_entropy, 10);
  const Compiled one(network, serial);
  Generator generator(53);
  const Examples examples = random_examples(generator, network, 256);
  const auto allocated = [] {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  Floats sum(one.size, 0.0f);
  Doubles norms(256 * 2);
  const Floats factors(256 * 2, 1.0f);
  const std::size_t before = allocated();
  const auto pass = one.fused.make_pass(256);
  one.fused.backward(examples.batch(), *pass, norms);
  one.fused.add_scaled(*pass, factors, sum);
  // Two times (1000 + 10) floats an example, and some scratch; their gradients would be 814 MB.
  CHECK(allocated() - before < 4'000'000);
}
