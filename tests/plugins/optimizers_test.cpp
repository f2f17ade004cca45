#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "forged_release.hpp"
#include "house_plugins.hpp"
#include "privgrad/optimizer.hpp"

using privgrad::Optimizer;
using privgrad::TrustBase;
using privgrad::Value;

TEST_CASE("sgd: w <- w - learning_rate * g", "[optimizer]") {
  const auto sgd = house().create<Optimizer>("sgd", Value::Object{});
  sgd->start(3);
  std::vector<float> w{1.0f, -2.0f, 0.5f};
  sgd->step(w, TrustBase::release({2.0f, 4.0f, -8.0f}), {.step = 0, .learning_rate = 0.25});
  CHECK(w == std::vector<float>{0.5f, -3.0f, 2.5f});  // all exact in binary
  sgd->step(w, TrustBase::release({2.0f, 4.0f, -8.0f}), {.step = 1, .learning_rate = 0.0});
  CHECK(w == std::vector<float>{0.5f, -3.0f, 2.5f});
}

namespace {

auto create(const char* name, const Value& params, std::size_t parameters) {
  auto optimizer = house().create<Optimizer>(name, params);
  optimizer->start(parameters);
  return optimizer;
}

/// Returns the parameter after each gradient, starting at 0, with learning rate 1.
std::vector<double> path(Optimizer& optimizer, const std::vector<float>& gradients) {
  std::vector<float> w{0.0f};
  std::vector<double> positions;
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    optimizer.step(w, TrustBase::release({gradients[t]}), {.step = t, .learning_rate = 1.0});
    positions.push_back(static_cast<double>(w[0]));
  }
  return positions;
}

Value momentum(double beta, const char* variant) {
  return Value::Object{{"beta", beta, {}}, {"variant", variant, {}}};
}

const std::vector<float> kGradients{1.0f, -3.0f, 0.5f, 2.0f, 2.0f, -0.25f};

}  // namespace

// The explicit sums: m_t = sum_i (1-beta) beta^(t-i) g_i / (1 - beta^t), t = 1, 2, ...
TEST_CASE("momentum: hong is the weighted mean of the gradients", "[optimizer]") {
  for (const double beta : {0.0, 0.5, 0.9, 0.999}) {
    const auto optimizer = create("momentum", momentum(beta, "hong"), 1);
    const auto got = path(*optimizer, kGradients);
    double w = 0.0;
    for (std::size_t t = 1; t <= kGradients.size(); ++t) {
      double sum = 0.0, weights = 0.0;
      for (std::size_t i = 1; i <= t; ++i) {
        const double weight = std::pow(beta, static_cast<double>(t - i));
        sum += weight * static_cast<double>(kGradients[i - 1]);
        weights += weight;  // the geometric series: (1 - beta^t) / (1 - beta)
      }
      w -= sum / weights;
      CHECK_THAT(got[t - 1], WithinAbs(w, 1e-4 * (beta == 0.999) + 2e-6));
    }
  }
}

TEST_CASE("momentum: heavy ball sums what is left of the gradients", "[optimizer]") {
  const auto optimizer = create("momentum", momentum(0.5, "heavy_ball"), 1);
  // v: 1, -2.5, -0.75, 1.625, 2.8125, 1.15625; all exact in binary.
  CHECK(path(*optimizer, kGradients) ==
        std::vector<double>{-1.0, 1.5, 2.25, 0.625, -2.1875, -3.34375});
  optimizer->start(1);  // must forget the earlier steps
  CHECK(path(*optimizer, {1.0f}) == std::vector<double>{-1.0});
}

TEST_CASE("momentum: hong, with the defaults, does not shorten the first steps", "[optimizer]") {
  const auto optimizer = create("momentum", Value::Object{}, 1);
  const auto got = path(*optimizer, std::vector<float>(50, 1.0f));
  for (std::size_t t = 0; t < got.size(); ++t) {
    CHECK_THAT(got[t], WithinRel(-static_cast<double>(t + 1), 1e-6));  // a mean of ones is 1
  }
}

// Kingma and Ba, Algorithm 1, in double.
TEST_CASE("adam: follows its definition", "[optimizer]") {
  const double b1 = 0.8, b2 = 0.95, eps = 1e-3;
  const auto optimizer =
      create("adam", Value::Object{{"beta1", b1, {}}, {"beta2", b2, {}}, {"eps", eps, {}}}, 1);
  const auto got = path(*optimizer, kGradients);
  double m = 0.0, v = 0.0, w = 0.0;
  for (std::size_t t = 1; t <= kGradients.size(); ++t) {
    const double g = static_cast<double>(kGradients[t - 1]);
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double n = static_cast<double>(t);
    w -= m / (1 - std::pow(b1, n)) / (std::sqrt(v / (1 - std::pow(b2, n))) + eps);
    CHECK_THAT(got[t - 1], WithinAbs(w, 3e-6));
  }
}

TEST_CASE("adam: a constant gradient of any size gives steps of the learning rate", "[optimizer]") {
  // m and sqrt(v) are both |g| then; g^2 is not representable in float32 at either end.
  for (const float g : {1e30f, 1.0f, 1e-3f, -1e30f}) {
    const auto optimizer = create("adam", Value::Object{{"eps", 1e-12, {}}}, 1);
    const auto got = path(*optimizer, std::vector<float>(5, g));
    for (std::size_t t = 0; t < got.size(); ++t) {
      CHECK_THAT(got[t], WithinRel((g < 0 ? 1.0 : -1.0) * static_cast<double>(t + 1), 1e-5));
    }
  }
}

TEST_CASE("normalized_sgd: every step is as long as the learning rate", "[optimizer]") {
  const auto optimizer = create("normalized_sgd", Value::Object{}, 2);
  std::vector<float> w{1.0f, 1.0f};
  const auto step = [&](float x, float y) {
    optimizer->step(w, TrustBase::release({x, y}), {.step = 0, .learning_rate = 0.5});
  };
  step(3.0f, -4.0f);  // its length is 5
  CHECK_THAT(w[0], WithinRel(0.7, 1e-6));
  CHECK_THAT(w[1], WithinRel(1.4, 1e-6));
  // Squares that float32 cannot represent.
  step(3e30f, -4e30f);
  step(3e-30f, -4e-30f);
  CHECK_THAT(w[0], WithinRel(0.1, 1e-5));
  CHECK_THAT(w[1], WithinRel(2.2, 1e-6));
  const std::vector<float> before = w;
  step(0.0f, 0.0f);
  CHECK(w == before);
}

TEST_CASE("normalized_sgd: momentum averages the releases before their norm is taken",
          "[optimizer]") {
  const auto optimizer = create("normalized_sgd", Value::Object{{"momentum", 0.5, {}}}, 2);
  std::vector<float> w{1.0f, 1.0f};
  const auto step = [&](float x, float y) {
    optimizer->step(w, TrustBase::release({x, y}), {.step = 0, .learning_rate = 0.5});
  };
  step(3.0f, -4.0f);  // m = (1.5, -2), of length 2.5
  CHECK_THAT(w[0], WithinRel(0.7, 1e-6));
  CHECK_THAT(w[1], WithinRel(1.4, 1e-6));
  step(4.0f, 3.0f);  // m = (2.75, 0.5)
  const double length = std::sqrt(2.75 * 2.75 + 0.25);
  CHECK_THAT(w[0], WithinRel(0.7 - 0.5 * 2.75 / length, 1e-6));
  CHECK_THAT(w[1], WithinRel(1.4 - 0.5 * 0.5 / length, 1e-6));
}

TEST_CASE("ftrl: the parameters are the start less the released sum", "[optimizer]") {
  const auto optimizer = create("ftrl", Value::Object{}, 1);
  std::vector<float> w{2.0f};
  const auto after = [&](float sum, double rate) {
    optimizer->step(w, TrustBase::release({sum}), {.step = 0, .learning_rate = rate});
    return w[0];
  };
  // All values are exact in binary. Earlier releases do not count.
  CHECK(after(1.0f, 0.5) == 1.5f);
  CHECK(after(-3.0f, 0.5) == 3.5f);
  CHECK(after(-3.0f, 0.25) == 2.75f);
  optimizer->start(1);
  CHECK(after(0.0f, 0.5) == 2.75f);
}

TEST_CASE("ftrl: with momentum a sum counts in later steps too", "[optimizer]") {
  const auto optimizer = create("ftrl", Value::Object{{"momentum", 0.5, {}}}, 1);
  // v: 1, -2.5, -0.75, 1.625, 2.8125, 1.15625; the path of kGradients as sums.
  CHECK(path(*optimizer, kGradients) ==
        std::vector<double>{-1.0, 2.5, 0.75, -1.625, -2.8125, -1.15625});
}

TEST_CASE("momentum, adam, ftrl: a restored run continues as if never stopped", "[optimizer]") {
  for (const char* name : {"momentum", "adam", "ftrl"}) {
    INFO(name);
    const auto whole = create(name, Value::Object{}, 2);
    const auto half = create(name, Value::Object{}, 2);
    const auto resumed = create(name, Value::Object{}, 2);
    std::vector<float> w{0.0f, 1.0f}, other = w;
    const auto gradient = [](int t) {
      return TrustBase::release({static_cast<float>(t % 5) - 1.5f, 0.25f * static_cast<float>(t)});
    };
    for (int t = 0; t < 7; ++t) whole->step(w, gradient(t), {.step = 0, .learning_rate = 0.1});
    for (int t = 0; t < 4; ++t) half->step(other, gradient(t), {.step = 0, .learning_rate = 0.1});
    const auto members = half->state(), others = resumed->state();
    REQUIRE(members.size() == others.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (const auto* number = std::get_if<std::uint64_t*>(&members[i].value))
        *std::get<std::uint64_t*>(others[i].value) = **number;
      else
        *std::get<std::vector<float>*>(others[i].value) =
            *std::get<std::vector<float>*>(members[i].value);
    }
    for (int t = 4; t < 7; ++t) {
      resumed->step(other, gradient(t), {.step = 0, .learning_rate = 0.1});
    }
    CHECK(other == w);
  }
}

TEST_CASE("momentum: the count stays exact beyond what one float32 can count", "[optimizer]") {
  const auto optimizer = create("momentum", momentum(0.999999999, "hong"), 1);
  auto* steps = std::get<std::uint64_t*>(optimizer->state().at(1).value);
  *steps = (std::uint64_t{1} << 26) - 1;
  std::vector<float> w{0.0f};
  const double g = 1e9;
  optimizer->step(w, TrustBase::release({static_cast<float>(g)}), {.step = 0, .learning_rate = 1});
  // (1 - beta) g / (1 - beta^t) with t = 2^26
  const double beta = 0.999999999;
  const double expected = (1.0 - beta) * g / -std::expm1(0x1p26 * std::log(beta));
  CHECK_THAT(static_cast<double>(w[0]), WithinRel(-expected, 1e-6));
  CHECK(*steps == std::uint64_t{1} << 26);
}

TEST_CASE("momentum, adam: parameters out of range", "[optimizer]") {
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    CHECK_THROWS_AS(create("momentum", Value::Object{{"beta", bad, {}}}, 1), privgrad::ConfigError);
    CHECK_THROWS_AS(create("adam", Value::Object{{"beta1", bad, {}}}, 1), privgrad::ConfigError);
    CHECK_THROWS_AS(create("adam", Value::Object{{"beta2", bad, {}}}, 1), privgrad::ConfigError);
  }
  CHECK_THROWS_AS(create("adam", Value::Object{{"eps", 0.0, {}}}, 1), privgrad::ConfigError);
  CHECK_THROWS_WITH(create("momentum", Value::Object{{"variant", "heavyball", {}}}, 1),
                    ContainsSubstring("did you mean 'heavy_ball'?"));
}

TEST_CASE("optimizers: what they cannot use changes nothing", "[optimizer]") {
  for (const char* name : {"sgd", "momentum", "adam"}) {
    INFO(name);
    const auto optimizer = create(name, Value::Object{}, 2);
    std::vector<float> w{1.0f, 2.0f};
    optimizer->step(w, TrustBase::release({1.0f, 1.0f}), {.step = 0, .learning_rate = 0.5});
    const std::vector<float> before = w;
    const auto state_now = [&] {
      std::vector<double> all;
      for (const auto& member : optimizer->state()) {
        if (const auto* number = std::get_if<std::uint64_t*>(&member.value)) {
          all.push_back(static_cast<double>(**number));
        } else {
          const auto& numbers = *std::get<std::vector<float>*>(member.value);
          all.insert(all.end(), numbers.begin(), numbers.end());
        }
      }
      return all;
    };
    const std::vector<double> state = state_now();
    const privgrad::StepContext context{.step = 1, .learning_rate = 0.5};
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      CHECK_THROWS_AS(optimizer->step(w, TrustBase::release({1.0f, bad}), context),
                      privgrad::NumericError);
    }
    CHECK_THROWS_AS(optimizer->step(w, TrustBase::release({1.0f}), context), privgrad::PluginError);
    for (const double rate : {std::numeric_limits<double>::infinity(), 1e300, std::nan("")}) {
      CHECK_THROWS_AS(
          optimizer->step(w, TrustBase::release({1.0f, 1.0f}), {.step = 1, .learning_rate = rate}),
          privgrad::NumericError);
    }
    CHECK(w == before);
    CHECK(state == state_now());
  }
}
