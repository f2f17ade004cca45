#include "privgrad/backend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <thread>

#include "house_plugins.hpp"

using namespace privgrad;

namespace {

class InlineExecutor final : public Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    for (std::size_t i = 0; i < chunks; ++i) body(i);
  }
};

std::unique_ptr<Program> compile(const Network& network) {
  static InlineExecutor executor;
  return house().create<Backend>("cpu", Value::Object{})->compile(network, executor);
}

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Generator = std::mt19937_64;

Floats normals(Generator& generator, std::size_t count, double deviation = 1.0) {
  std::normal_distribution<double> normal(0.0, deviation);
  Floats out(count);
  for (float& value : out) value = static_cast<float>(normal(generator));
  return out;
}

/// Rows of a batch, with their storage.
struct Examples {
  Floats features, targets;
  Batch batch() const { return {features, targets}; }
  Batch batch(std::size_t first, std::size_t count) const {
    const std::size_t size = features.size() / targets.size();
    return {std::span(features).subspan(first * size, count * size),
            std::span(targets).subspan(first, count)};
  }
};

Examples random_examples(Generator& generator, const ExampleShape& shape, std::size_t rows) {
  Examples examples{normals(generator, rows * element_count(shape.features)), {}};
  for (std::size_t i = 0; i < rows; ++i) {
    examples.targets.push_back(shape.classes == 0
                                   ? normals(generator, 1).front()
                                   : static_cast<float>(generator() % shape.classes));
  }
  return examples;
}

Floats gradient_rows(const Program& program, const Batch& batch) {
  Floats rows(batch.rows() * program.parameter_count(), 12345.0f);
  program.gradient_rows(batch, rows);
  return rows;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

bool are_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// --- The reference: outputs and losses in double, written from the definitions in network.hpp. ---

Doubles reference_outputs(const Network& network, const Doubles& parameters, Doubles values) {
  std::size_t at = 0;
  for (const Node& node : network.nodes) {
    const Layer& layer = node.layer;
    if (const auto* dense = std::get_if<Dense>(&layer)) {
      Doubles out(dense->units);
      const std::size_t bias = at + dense->units * values.size();
      for (std::size_t j = 0; j < dense->units; ++j) {
        out[j] = parameters[bias + j];
        for (std::size_t k = 0; k < values.size(); ++k) {
          out[j] += parameters[at + j * values.size() + k] * values[k];
        }
      }
      at = bias + dense->units;
      values = out;
    } else {
      for (double& value : values) {
        switch (std::get<Activation>(layer).kind) {
          case ActivationKind::relu:
            value = value > 0 ? value : 0;
            break;
          case ActivationKind::tanh:
            value = std::tanh(value);
            break;
          case ActivationKind::sigmoid:
            value = 1 / (1 + std::exp(-value));
            break;
          case ActivationKind::gelu:
            value *= (1 + std::erf(value / std::sqrt(2.0))) / 2;
            break;
          case ActivationKind::silu:
            value /= 1 + std::exp(-value);
            break;
          case ActivationKind::gelu_tanh:
            value *= (1 + std::tanh(std::sqrt(2.0 / std::numbers::pi) *
                                    (value + 0.044715 * value * value * value))) /
                     2;
            break;
        }
      }
    }
  }
  return values;
}

double reference_loss(const Network& network, const Doubles& outputs, double target) {
  double loss = 0;
  switch (network.loss) {
    case Loss::cross_entropy:
      for (const double output : outputs) loss += std::exp(output);
      return std::log(loss) - outputs[static_cast<std::size_t>(target)];
    case Loss::squared:
      for (std::size_t j = 0; j < outputs.size(); ++j) {
        const double hot = j == static_cast<std::size_t>(target) ? 1 : 0;
        loss += std::pow(outputs[j] - (network.input.classes == 0 ? target : hot), 2) / 2;
      }
      return loss;
    case Loss::logistic:
      return std::log(1 + std::exp(-(target == 1 ? 1 : -1) * outputs[0]));
    case Loss::next_token:
      break;  // next_token_test.cpp
  }
  return loss;
}

/// The largest output wins; for logistic loss, the sign decides.
bool reference_correct(const Network& network, const Doubles& outputs, double target) {
  if (network.input.classes == 0) return false;
  if (network.loss == Loss::logistic) return (outputs[0] > 0) == (target == 1);
  const double winner = outputs[static_cast<std::size_t>(target)];
  return std::all_of(outputs.begin(), outputs.end(), [&](double o) { return o <= winner; });
}

Doubles reference_gradient(const Network& network, Doubles parameters, const Doubles& features,
                           double target) {
  // the central difference has an error of kStep^2 plus 1e-16 / kStep
  constexpr double kStep = 1e-5;
  const auto loss = [&] {
    return reference_loss(network, reference_outputs(network, parameters, features), target);
  };
  Doubles gradient(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double here = parameters[i];
    parameters[i] = here + kStep;
    const double above = loss();
    parameters[i] = here - kStep;
    gradient[i] = (above - loss()) / (2 * kStep);
    parameters[i] = here;
  }
  return gradient;
}

/// Takes its parts by value, because gcc 12 considers nested braces uninitialised memory.
Network make_network(Shape features, std::size_t classes, std::vector<Node> nodes, Loss loss) {
  Network network;
  network.input.features = std::move(features);
  network.input.classes = classes;
  network.nodes = std::move(nodes);
  network.loss = loss;
  return network;
}

struct Case {
  Loss loss;
  std::size_t classes;
};

/// Makes a random network for the case: 0 to 3 hidden layers, sometimes an activation first.
Network random_network(Generator& generator, Case chosen, ActivationKind activation) {
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(generator() % bound);
  };
  Network network = make_network({1 + below(4), 1 + below(6)}, chosen.classes, {}, chosen.loss);
  if (below(4) == 0) network.nodes.push_back(Activation{activation});
  for (std::size_t hidden = below(4); hidden > 0; --hidden) {
    network.nodes.push_back(Dense{1 + below(40)});
    network.nodes.push_back(Activation{activation});
  }
  const bool single = chosen.classes == 0 || chosen.loss == Loss::logistic;
  network.nodes.push_back(Dense{single ? 1 : chosen.classes});
  return network;
}

Network linear(std::size_t features, std::size_t classes, Loss loss) {
  const bool single = classes == 0 || loss == Loss::logistic;
  return make_network({features}, classes, {Dense{single ? 1 : classes}}, loss);
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("cpu: on an image of one pixel, wide convolutions are dense layers, bit for bit",
          "[backend]") {
  Generator generator(2027);
  const Conv2d first{.channels = 45, .kernel = 1}, second{.channels = 70, .kernel = 1};
  const auto wide = compile(make_network({1, 1, 37}, 0, {first, second, Dense{1}}, Loss::squared));
  const Network network = make_network({37}, 0, {Dense{45}, Dense{70}, Dense{1}}, Loss::squared);
  const auto dense = compile(network);
  const Floats parameters = normals(generator, dense->parameter_count(), 0.4);
  wide->load_parameters(parameters);
  dense->load_parameters(parameters);
  const Examples examples = random_examples(generator, network.input, 5);
  CHECK(gradient_rows(*wide, examples.batch()) == gradient_rows(*dense, examples.batch()));
}

TEST_CASE("cpu: gradients and losses agree with finite differences in double", "[backend]") {
  const auto chosen =
      GENERATE(Case{Loss::cross_entropy, 2}, Case{Loss::cross_entropy, 5}, Case{Loss::squared, 3},
               Case{Loss::squared, 0}, Case{Loss::logistic, 2});
  const ActivationKind activation =
      GENERATE(from_range(std::begin(kActivations), std::end(kActivations))).kind;
  Generator generator(2026);
  for (int trial = 0; trial < 4; ++trial) {
    const Network network = random_network(generator, chosen, activation);
    const auto program = compile(network);
    const std::size_t d = program->parameter_count();
    REQUIRE(d == parameter_count(network));
    const Floats parameters = normals(generator, d, 0.4);
    program->load_parameters(parameters);
    const Examples examples = random_examples(generator, network.input, 1 + generator() % 6);
    const std::size_t size = element_count(network.input.features);

    const Floats rows = gradient_rows(*program, examples.batch());
    double loss = 0;
    std::size_t correct = 0;
    double worst = 0;
    for (std::size_t i = 0; i < examples.targets.size(); ++i) {
      const Doubles exact(parameters.begin(), parameters.end());
      const auto first = examples.features.begin() + static_cast<std::ptrdiff_t>(i * size);
      const Doubles features(first, first + static_cast<std::ptrdiff_t>(size));
      const double target = examples.targets[i];
      const Doubles outputs = reference_outputs(network, exact, features);
      loss += reference_loss(network, outputs, target);
      correct += reference_correct(network, outputs, target) ? 1 : 0;
      const Doubles gradient = reference_gradient(network, exact, features, target);
      for (std::size_t j = 0; j < d; ++j) {
        const double scale = 1 + std::abs(gradient[j]);
        worst = std::max(worst, std::abs(rows[i * d + j] - gradient[j]) / scale);
      }
    }
    // float32 through four layers of 40 terms: a few hundred roundings of 6e-8.
    CHECK(worst < 2e-5);
    const Evaluation evaluation = program->evaluate(examples.batch());
    CHECK_THAT(evaluation.loss, WithinRel(loss, 1e-5));
    CHECK(evaluation.correct == correct);
  }
}

TEST_CASE("cpu: softmax regression at zero weights, in closed form", "[backend]") {
  // All classes are equally likely: loss ln K, gradient (1/K - [class is j]) x for row j of W.
  constexpr std::size_t kClasses = 4;
  const auto program = compile(linear(3, kClasses, Loss::cross_entropy));
  program->load_parameters(Floats(program->parameter_count(), 0.0f));
  const Examples examples{{1.0f, -2.0f, 0.5f}, {2.0f}};
  CHECK_THAT(program->evaluate(examples.batch()).loss, WithinRel(std::log(4.0), 1e-15));
  CHECK(gradient_rows(*program, examples.batch()) ==
        Floats{0.25f, -0.5f, 0.125f, 0.25f, -0.5f, 0.125f, -0.75f, 1.5f, -0.375f, 0.25f, -0.5f,
               0.125f, 0.25f, 0.25f, -0.75f, 0.25f});
}

TEST_CASE("cpu: ties go to the lowest class", "[backend]") {
  const Examples examples{{1.0f, 1.0f}, {0.0f, 1.0f}};
  for (const Loss loss : {Loss::cross_entropy, Loss::squared, Loss::logistic}) {
    const auto program = compile(linear(1, 2, loss));
    program->load_parameters(Floats(program->parameter_count(), 0.0f));
    CHECK(program->evaluate(examples.batch()).correct == 1);
    CHECK(program->evaluate(examples.batch(1, 1)).correct == 0);
  }
}

TEST_CASE("cpu: of equal values in a window the first gets the gradient", "[backend]") {
  // One pixel, the largest of four, times w = 2, times 1: output 2, loss 2, derivative 2. The
  // gradient of w is 2 times the chosen pixel; a sum over all four would give 8. A mean gives 4
  // times 1/4 of that.
  const auto kind = GENERATE(PoolKind::max, PoolKind::average);
  const Network network = make_network(
      {2, 2}, 0,
      {Conv2d{.channels = 1, .kernel = 1}, Pool{.kind = kind, .window = 2, .stride = 2}, Dense{1}},
      Loss::squared);
  const auto program = compile(network);
  program->load_parameters(Floats{2, 0, 1, 0});
  const Examples examples{{1, 1, 1, 1}, {0}};
  CHECK(program->evaluate(examples.batch()).loss == 2.0);
  CHECK(gradient_rows(*program, examples.batch()) == Floats{2, 2, 4, 2});
  for (std::size_t place = 0; place < 4; ++place) {
    Examples spoilt = examples;
    spoilt.features[place] = kNan;
    CHECK(std::isnan(program->evaluate(spoilt.batch()).loss));
  }
}

TEST_CASE("cpu: values that are not tokens spoil their own example alone", "[backend]") {
  const Network network =
      make_network({2}, 2, {Embedding{.vocabulary = 3, .width = 2}, Dense{2}}, Loss::cross_entropy);
  const auto program = compile(network);
  const std::size_t d = program->parameter_count();
  Floats parameters(d);
  for (std::size_t i = 0; i < d; ++i) parameters[i] = 0.1f * static_cast<float>(i % 5);
  program->load_parameters(parameters);
  for (const float token : {-2.0f, -0.5f, 3.0f, 0.5f, 1e30f, kNan, kInf}) {
    const Examples examples{{2, token, 1, 1}, {0, 1}};
    const Floats rows = gradient_rows(*program, examples.batch());
    CHECK_FALSE(are_finite(std::span(rows).first(d)));
    CHECK(are_finite(std::span(rows).subspan(d)));
    // The token that occurs twice has one row, the sum of both derivatives; others have zeros.
    CHECK(rows[d] == 0.0f);
    CHECK(rows[d + 2] != 0.0f);
    CHECK(rows[d + 4] == 0.0f);
  }
}

TEST_CASE("cpu: an empty place has zeros, and no row of the table learns from it", "[backend]") {
  const Network network =
      make_network({2}, 2, {Embedding{.vocabulary = 3, .width = 2}, Dense{2}}, Loss::cross_entropy);
  const auto program = compile(network);
  const std::size_t d = program->parameter_count();
  program->load_parameters(Floats(d, 1.0f));
  const Examples examples{{2, kEmptyPlace, kEmptyPlace, kEmptyPlace}, {0, 0}};
  const Floats rows = gradient_rows(*program, examples.batch());
  REQUIRE(are_finite(rows));
  // Row 2 has a derivative of sum over j of (p_j - y_j) times ones, which is 0 where all weights
  // are equal; the dense layer's weights have inputs of ones for the token, and zeros
  // elsewhere.
  CHECK(Floats(rows.begin() + 6, rows.begin() + 10) == Floats{-0.5f, -0.5f, 0.0f, 0.0f});
  const auto second = rows.begin() + static_cast<std::ptrdiff_t>(d);
  CHECK(std::all_of(second, second + 14, [](float x) { return x == 0.0f; }));
}

TEST_CASE("cpu: an output is one chain of fused multiply-adds, on every processor", "[backend]") {
  // With squared loss and target 0, the bias's gradient is the output itself. The widths are around
  // 16, the number of columns that are multiplied together.
  const std::size_t units = GENERATE(1u, 2u, 15u, 16u, 17u, 40u);
  constexpr std::size_t kInputs = 1301;  // more than one chain processes at once
  Generator generator(7);
  const Network network = make_network({kInputs}, 0, {Dense{units}, Dense{1}}, Loss::squared);
  const auto program = compile(network);
  // The second layer selects one unit of the first, so that each can be examined.
  Floats parameters = normals(generator, program->parameter_count());
  const Examples examples{normals(generator, 7 * kInputs), Floats(7, 0.0f)};
  for (std::size_t unit = 0; unit < units; ++unit) {
    std::fill(parameters.end() - static_cast<std::ptrdiff_t>(units) - 1, parameters.end(), 0.0f);
    parameters[units * (kInputs + 1) + unit] = 1.0f;
    program->load_parameters(parameters);
    const Floats rows = gradient_rows(*program, examples.batch());
    for (std::size_t i = 0; i < 7; ++i) {
      float sum = parameters[units * kInputs + unit];
      for (std::size_t k = 0; k < kInputs; ++k) {
        sum = std::fma(examples.features[i * kInputs + k], parameters[unit * kInputs + k], sum);
      }
      REQUIRE(rows[(i + 1) * program->parameter_count() - 1] == sum);
    }
  }
}

TEST_CASE("cpu: a row is bitwise the same in every batch and place", "[backend]") {
  Generator generator(11);
  const Network network = make_network({37}, 5,
                                       {Dense{50}, Activation{ActivationKind::tanh}, Dense{19},
                                        Activation{ActivationKind::relu}, Dense{5}},
                                       Loss::cross_entropy);
  const auto program = compile(network);
  const std::size_t d = program->parameter_count();
  program->load_parameters(normals(generator, d, 0.3));
  const Examples examples = random_examples(generator, network.input, 257);
  const Floats all = gradient_rows(*program, examples.batch());
  const std::size_t size = GENERATE(1u, 2u, 3u, 5u, 63u, 64u, 65u, 200u);
  double loss = 0;
  for (std::size_t first = 0; first < 257; first += size) {
    const std::size_t count = std::min(size, 257 - first);
    const Floats rows = gradient_rows(*program, examples.batch(first, count));
    REQUIRE(same_bits(rows, std::span(all).subspan(first * d, count * d)));
    loss += program->evaluate(examples.batch(first, count)).loss;
  }
  // Losses are the same too, except for the order of summation.
  CHECK_THAT(loss, WithinRel(program->evaluate(examples.batch()).loss, 1e-13));
}

TEST_CASE("cpu: non-finite examples stay among themselves", "[backend]") {
  Generator generator(13);
  const Case chosen = GENERATE(Case{Loss::cross_entropy, 3}, Case{Loss::squared, 3},
                               Case{Loss::squared, 0}, Case{Loss::logistic, 2});
  const ActivationKind activation =
      GENERATE(from_range(std::begin(kActivations), std::end(kActivations))).kind;
  const std::size_t outputs = chosen.loss == Loss::logistic ? 1 : std::max(chosen.classes, 1ul);
  const Network network = make_network(
      {6}, chosen.classes, {Dense{20}, Activation{activation}, Dense{outputs}}, chosen.loss);
  const auto program = compile(network);
  const std::size_t d = program->parameter_count();
  program->load_parameters(normals(generator, d));
  Examples examples = random_examples(generator, network.input, 70);
  examples.targets[5] = 0.0f;  // the class that NaN outputs would select
  const Floats before = gradient_rows(*program, examples.batch());
  REQUIRE(are_finite(before));
  const float poison = GENERATE(as<float>{}, kNan, kInf, -kInf, 3e38f, -3e38f);
  for (const std::size_t victim : {0u, 5u, 63u, 64u}) {
    for (std::size_t k = 0; k < 6; ++k) examples.features[victim * 6 + k] = poison;
  }
  const Floats after = gradient_rows(*program, examples.batch());
  for (std::size_t i = 0; i < 70; ++i) {
    const auto row = std::span(after).subspan(i * d, d);
    if (i == 0 || i == 5 || i == 63 || i == 64) {
      if (std::isnan(poison)) CHECK_FALSE(are_finite(row));
    } else {
      REQUIRE(same_bits(row, std::span(before).subspan(i * d, d)));
    }
  }
  if (std::isnan(poison)) {
    CHECK(std::isnan(program->evaluate(examples.batch(5, 1)).loss));
    CHECK(program->evaluate(examples.batch(5, 1)).correct == 0);
  }
}

TEST_CASE("cpu: outputs of 1e4 neither overflow nor lose the loss", "[backend]") {
  // The outputs are +-1e4 x. For an example on the right side the loss is at most exp(-1e4), which
  // is 0 in double; on the wrong side it is the margin.
  const Examples examples{{1.0f, -1.0f}, {1.0f, 1.0f}};
  SECTION("logistic") {
    const auto program = compile(linear(1, 2, Loss::logistic));
    program->load_parameters(Floats{1e4f, 0.0f});
    CHECK(program->evaluate(examples.batch(0, 1)).loss == 0.0);
    CHECK(program->evaluate(examples.batch(1, 1)).loss == 1e4);
    CHECK(gradient_rows(*program, examples.batch()) == Floats{0.0f, 0.0f, 1.0f, -1.0f});
  }
  SECTION("cross-entropy") {
    const auto program = compile(linear(1, 2, Loss::cross_entropy));
    program->load_parameters(Floats{-1e4f, 1e4f, 0.0f, 0.0f});
    CHECK(program->evaluate(examples.batch(0, 1)).loss == 0.0);
    CHECK(program->evaluate(examples.batch(1, 1)).loss == 2e4);
    CHECK(gradient_rows(*program, examples.batch()) ==
          Floats{0.0f, 0.0f, 0.0f, 0.0f, -1.0f, 1.0f, 1.0f, -1.0f});
  }
  SECTION("a small loss keeps its digits") {
    const auto program = compile(linear(1, 2, Loss::cross_entropy));
    program->load_parameters(Floats{-25.0f, 25.0f, 0.0f, 0.0f});
    CHECK_THAT(program->evaluate(examples.batch(0, 1)).loss, WithinRel(std::exp(-50.0), 1e-12));
  }
}

TEST_CASE("cpu: two threads get what one gets", "[backend]") {
  Generator generator(17);
  const Network network = make_network(
      {30}, 4, {Dense{64}, Activation{ActivationKind::relu}, Dense{4}}, Loss::cross_entropy);
  const auto program = compile(network);
  program->load_parameters(normals(generator, program->parameter_count(), 0.2));
  const Examples examples = random_examples(generator, network.input, 130);
  const Floats expected = gradient_rows(*program, examples.batch());
  const double loss = program->evaluate(examples.batch()).loss;
  std::array<int, 2> wrong{};
  {
    const auto work = [&](int& failures) {
      for (int i = 0; i < 10; ++i) {
        if (!same_bits(gradient_rows(*program, examples.batch()), expected)) ++failures;
        if (program->evaluate(examples.batch()).loss != loss) ++failures;
      }
    };
    std::jthread first(work, std::ref(wrong[0]));
    std::jthread second(work, std::ref(wrong[1]));
  }
  CHECK(wrong == std::array<int, 2>{});
}

TEST_CASE("cpu: an empty batch has no rows and no loss", "[backend]") {
  const auto program = compile(linear(3, 2, Loss::cross_entropy));
  CHECK(gradient_rows(*program, {}).empty());
  CHECK(program->evaluate({}).loss == 0.0);
  CHECK(program->evaluate({}).correct == 0);
}

TEST_CASE("cpu: a target that is not a class spoils its own row alone", "[backend]") {
  const Loss loss = GENERATE(Loss::cross_entropy, Loss::squared, Loss::logistic);
  const auto program = compile(linear(2, 2, loss));
  const std::size_t d = program->parameter_count();
  program->load_parameters(Floats(d, 0.1f));
  for (const float target : {-1.0f, 2.0f, 0.5f, 1e30f, kNan, kInf}) {
    const Examples examples{{1, 2, 3, 4}, {target, 1}};
    const Floats rows = gradient_rows(*program, examples.batch());
    CHECK(std::isnan(rows[0]));
    CHECK(are_finite(std::span(rows).subspan(d)));
    CHECK(std::isnan(program->evaluate(examples.batch()).loss));
    CHECK(program->evaluate(examples.batch(0, 1)).correct == 0);
  }
}

TEST_CASE("cpu: what it cannot execute is refused by name", "[backend]") {
  const ExampleShape shape{{4}, 2};
  CHECK_THROWS_WITH(compile({shape, {Dense{0}, Dense{2}}, Loss::squared}),
                    ContainsSubstring("layer 0, dense 0, has no units"));
  CHECK_THROWS_AS(
      compile({shape, {Dense{2}, Activation{static_cast<ActivationKind>(9)}}, Loss::squared}),
      ConfigError);
  CHECK_THROWS_WITH(compile({shape, {Dense{3}}, Loss::cross_entropy}),
                    ContainsSubstring("one output per class"));
  CHECK_THROWS_AS(compile({shape, {}, Loss::cross_entropy}), ConfigError);
}

TEST_CASE("cpu: memory of the wrong size is refused and changes nothing", "[backend]") {
  const auto program = compile(linear(2, 0, Loss::squared));
  program->load_parameters(Floats{1, 2, 3});
  CHECK_THROWS_WITH(program->load_parameters(Floats(4)),
                    ContainsSubstring("has 4 elements, expected 3"));
  const Floats features{1, 1, 1};
  const Floats targets{0};
  Floats rows(3);
  CHECK_THROWS_AS(program->gradient_rows({features, targets}, rows), ConfigError);
  CHECK_THROWS_AS(program->evaluate({features, targets}), ConfigError);
  const Examples examples{{1, 1}, {0}};
  Floats small(2);
  CHECK_THROWS_AS(program->gradient_rows(examples.batch(), small), ConfigError);
  CHECK(program->evaluate(examples.batch()).loss == 18.0);  // 1/2 (1 + 2 + 3)^2
}
