// The activations of the backend cpu, compared with the C library in 80 bits.
#include <cmath>
#include <limits>
#include <numbers>

#include "exact_programs.hpp"

using namespace privgrad;
namespace activations_test {

using exact_programs::make_network;
using exact_programs::ThreadExecutor;

namespace {

using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<Program> compile(const Network& network) {
  static ThreadExecutor executor(1);
  return house().create<Backend>("cpu", Value::Object{})->compile(network, executor);
}

}  // namespace

TEST_CASE("cpu: tanh and sigmoid are right to two units in the last place, everywhere",
          "[backend]") {
  const auto kind = GENERATE(ActivationKind::tanh, ActivationKind::sigmoid);
  // One output with weight 0 and target -1/2 under squared loss: the derivative with respect to the
  // weights is a positive multiple of the activation, with the same factor for every feature; the
  // derivative with respect to the bias is that factor.
  std::vector<float> features{0.0f, -0.0f, 1e-30f, -1e-30f, 0.65f, -0.65f, 88.0f, -80.0f, 1e30f};
  for (float x = -30.0f; x <= 30.0f; x += 0.0103f) features.push_back(x);
  for (float x = 1e-20f; x < 85.0f; x *= 1.19f) features.insert(features.end(), {x, -x});
  const std::size_t size = features.size();
  const Network network = make_network({size}, {Activation{kind}, Dense{1}}, Loss::squared, 0);
  const auto program = compile(network);
  program->load_parameters(Floats(size + 1, 0.0f));
  const Floats targets{-0.5f};
  Floats row(size + 1);
  program->gradient_rows({features, targets}, row);
  const float multiple = row[size];
  REQUIRE(std::exp2(std::round(std::log2(multiple))) == multiple);  // divides without rounding
  for (std::size_t i = 0; i < size; ++i) {
    const double x = features[i];
    const double exact = kind == ActivationKind::tanh ? std::tanh(x) : 1.0 / (1.0 + std::exp(-x));
    INFO(x);
    REQUIRE(std::abs(static_cast<double>(row[i] / multiple) - exact) <=
            2.0 * 0x1p-23 * std::abs(exact));
  }
}

TEST_CASE("cpu: gelu and its derivative are right to 5e-7 of their parts", "[backend]") {
  // Compared with the C library in 80 bits: x Phi(x), and Phi(x) + x phi(x).
  constexpr long double kError = 5e-7L;
  const auto tail = [](long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2.0L; };
  std::vector<float> features{0.0f, 1e-30f, -1e-30f, 88.0f, 1e30f, -12.9f};
  for (float x = -13.0f; x <= 20.0f; x += 0.0053f) features.push_back(x);
  const std::size_t size = features.size();
  const Activation gelu{ActivationKind::gelu};

  // As for tanh, the derivative with respect to a weight is a power of two times the activation.
  const auto values = compile(make_network({size}, {gelu, Dense{1}}, Loss::squared, 0));
  values->load_parameters(Floats(size + 1, 0.0f));
  const Floats half{-0.5f};
  Floats row(size + 1);
  values->gradient_rows({features, half}, row);
  const float multiple = row[size];
  REQUIRE(std::exp2(std::round(std::log2(multiple))) == multiple);

  // Examples with one feature that passes through a weight of 1, the activation and another weight
  // of 1, with a target 1 below the output: the derivative with respect to the first bias is
  // gelu's.
  const auto slopes = compile(make_network({1}, {Dense{1}, gelu, Dense{1}}, Loss::squared, 0));
  slopes->load_parameters(Floats{1.0f, 0.0f, 1.0f, 0.0f});

  for (std::size_t i = 0; i < size; ++i) {
    const long double x = static_cast<long double>(features[i]);
    const long double value = x * tail(x);
    const long double density =
        std::exp(-x * x / 2.0L) / std::sqrt(2.0L * std::numbers::pi_v<long double>);
    INFO(features[i]);
    REQUIRE(std::abs(static_cast<long double>(row[i] / multiple) - value) <=
            kError * std::abs(value));
    if (std::abs(x) > 13.0L) continue;  // the residual would be rounded
    Floats found(4);
    const Floats target{static_cast<float>(value) - 1.0f};
    slopes->gradient_rows({std::span(features).subspan(i, 1), target}, found);
    // found[3] is the residual. The two parts of the derivative cancel at -0.75.
    REQUIRE(std::abs(static_cast<long double>(found[1] / found[3]) - (tail(x) + x * density)) <=
            kError * (tail(x) + std::abs(x) * density));
  }
}

TEST_CASE("cpu: silu and gelu_tanh are x times a sigmoid to 5e-7", "[backend]") {
  // Compared with the C library in 80 bits: x s(v), and s(v) + x s(v) s(-v) v', where v is x for
  // silu, and 2 sqrt(2 / pi) (x + 0.044715 x^3) for gelu_tanh. The exponential receives v after at
  // most six roundings to float32, each of which costs |v| 2^-24.
  const ActivationKind kind = GENERATE(ActivationKind::silu, ActivationKind::gelu_tanh);
  const bool is_silu = kind == ActivationKind::silu;
  const long double k = 2.0L * std::sqrt(2.0L / std::numbers::pi_v<long double>);
  const auto argument = [&](long double x) {
    return is_silu ? x : k * (x + 0.044715L * x * x * x);
  };
  const auto sigmoid = [](long double v) { return 1.0L / (1.0L + std::exp(-v)); };
  const Activation layer{kind};
  const auto values = compile(make_network({1}, {layer, Dense{1}}, Loss::squared, 0));
  values->load_parameters(Floats{1.0f, 0.0f});
  const auto slopes = compile(make_network({1}, {Dense{1}, layer, Dense{1}}, Loss::squared, 0));
  slopes->load_parameters(Floats{1.0f, 0.0f, 1.0f, 0.0f});
  for (float feature = -13.0f; feature <= 13.0f; feature += 0.0053f) {
    const long double x = static_cast<long double>(feature), v = argument(x);
    if (std::abs(v) > 80.0L) continue;  // e^-80 is 2e-35
    const long double error = 5e-7L + (is_silu ? 0.0L : 6.0L * std::abs(v) * 0x1p-24L);
    const long double value = x * sigmoid(v);
    Floats out(1), found(4);
    dynamic_cast<const Outputs&>(*values).outputs(Floats{feature}, 1, out);
    INFO(to_text(kind) << " of " << feature);
    REQUIRE(std::abs(static_cast<long double>(out[0]) - value) <= error * std::abs(value));
    const Floats target{static_cast<float>(value) - 1.0f};
    slopes->gradient_rows({Floats{feature}, target}, found);
    const long double slope = is_silu ? 1.0L : k * (1.0L + 3.0L * 0.044715L * x * x);
    const long double share = sigmoid(v), other = x * share * sigmoid(-v) * slope;
    REQUIRE(std::abs(static_cast<long double>(found[1] / found[3]) - (share + other)) <=
            2.0L * error * (share + std::abs(other)));
  }
}

TEST_CASE("cpu: gelu, silu and gelu_tanh beyond what float32 holds", "[backend]") {
  // The limits of the function, and NaN for NaN.
  const ActivationKind kind =
      GENERATE(ActivationKind::gelu, ActivationKind::silu, ActivationKind::gelu_tanh);
  const auto program = compile(make_network({1}, {Activation{kind}, Dense{1}}, Loss::squared, 0));
  program->load_parameters(Floats{1.0f, 0.0f});
  const auto at = [&](float x) {
    Floats out(1);
    dynamic_cast<const Outputs&>(*program).outputs(Floats{x}, 1, out);
    return out.front();
  };
  CHECK(std::abs(at(-1e30f)) < 1e-35f);
  CHECK(std::abs(at(-kInf)) < 1e-35f);
  if (kind == ActivationKind::gelu) CHECK(at(-kInf) == 0.0f);
  CHECK(at(1e30f) == 1e30f);
  CHECK(at(kInf) == kInf);
  CHECK(std::isnan(at(kNan)));
}

}  // namespace activations_test
