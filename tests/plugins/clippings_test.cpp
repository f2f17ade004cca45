#include "privgrad/clipping.hpp"

#include <cmath>

#include "forged_release.hpp"
#include "house_plugins.hpp"
#include "privgrad/optimizer.hpp"

using namespace privgrad;

namespace {

ComponentPtr<Clipping> clipping(const char* name, Value::Object params = {},
                                std::size_t groups = 2) {
  auto made = house().create<Clipping>(name, std::move(params));
  std::vector<ParameterGroup> layers;
  for (std::size_t i = 0; i < groups; ++i) layers.push_back({"layers." + std::to_string(i), i, 1});
  made->start(layers);
  return made;
}

std::vector<double> factors(const Clipping& rule, std::vector<double> norms, double clip_norm) {
  std::vector<double> out(norms.size(), -1.0);
  for (double& norm : norms) norm *= norm;
  rule.factors(norms, clip_norm, out);
  return out;
}

const AdaptiveClipNorm& adaptive(const ComponentPtr<Clipping>& rule) {
  const auto* ability = dynamic_cast<const AdaptiveClipNorm*>(rule.get());
  REQUIRE(ability != nullptr);
  return *ability;
}

}  // namespace

// The expected values follow from the formula of each rule by hand: layers with norms 3 and 4 give
// a gradient with norm 5.

TEST_CASE("flat: min(1, C / norm), one factor for all layers", "[clipping]") {
  const auto flat = clipping("flat");
  CHECK(factors(*flat, {3, 4}, 2.5) == std::vector<double>{0.5, 0.5});
  CHECK(factors(*flat, {3, 4}, 5) == std::vector<double>{1, 1});
  CHECK(factors(*flat, {3, 4}, 50) == std::vector<double>{1, 1});
  CHECK(factors(*flat, {0, 0}, 1) == std::vector<double>{1, 1});
}

TEST_CASE("per_layer: each layer to its share, whose squares add up to C^2", "[clipping]") {
  SECTION("uniform: C / sqrt(layers)") {
    const auto uniform = clipping("per_layer", {}, 4);
    CHECK(factors(*uniform, {1, 4, 8, 0}, 4) == std::vector<double>{1, 0.5, 0.25, 1});
  }
  SECTION("weights: C w / norm of w, in any scale") {
    for (const double scale : {1.0, 70.0}) {
      const auto weighted =
          clipping("per_layer", {{"weights", Value::List{3 * scale, 4 * scale}, {}}});
      const auto f = factors(*weighted, {12, 2}, 10);  // bounds 6 and 8
      CHECK_THAT(f[0], WithinRel(0.5, 1e-12));
      CHECK(f[1] == 1.0);
    }
  }
  SECTION("weights for another number of layers are refused, naming the layers") {
    CHECK_THROWS_WITH(
        clipping("per_layer", {{"weights", Value::List{1.0, 2.0}, {}}}, 3),
        ContainsSubstring("2 weights") && ContainsSubstring("layers.0, layers.1, layers.2"));
    CHECK_THROWS_AS(clipping("per_layer", {{"weights", Value::List{1.0, 0.0}, {}}}), ConfigError);
  }
}

TEST_CASE("automatic: C / (norm + gamma)", "[clipping]") {
  const auto automatic = clipping("automatic", {{"gamma", 0.25, {}}});
  CHECK(factors(*automatic, {3, 4}, 10.5) == std::vector<double>{2, 2});
  CHECK(factors(*automatic, {0, 0}, 1) == std::vector<double>{4, 4});
  CHECK_THAT(factors(*clipping("automatic"), {0.6, 0.8}, 1)[0], WithinRel(1 / 1.01, 1e-12));
}

TEST_CASE("normalized: C / norm, up or down; zero has no direction", "[clipping]") {
  const auto normalized = clipping("normalized");
  CHECK(factors(*normalized, {3, 4}, 2.5) == std::vector<double>{0.5, 0.5});
  CHECK(factors(*normalized, {3, 4}, 50) == std::vector<double>{10, 10});
  CHECK(factors(*normalized, {0, 0}, 1) == std::vector<double>{0, 0});
}

TEST_CASE("adaptive: clips as flat does and moves the clip norm by the log of its error",
          "[clipping]") {
  const auto rule = clipping("adaptive", {{"quantile", 0.75, {}}, {"learning_rate", 0.5, {}}});
  CHECK(factors(*rule, {3, 4}, 2.5) == std::vector<double>{0.5, 0.5});
  CHECK(factors(*rule, {3, 4}, 50) == std::vector<double>{1, 1});
  CHECK(adaptive(rule).next_clip_norm(2, 0.75) == 2);
  // Andrew et al. 2021, Algorithm 1: C <- C exp(-eta (b - gamma)).
  CHECK_THAT(adaptive(rule).next_clip_norm(2, 0.25), WithinRel(2 * std::exp(0.25), 1e-12));
  CHECK_THAT(adaptive(rule).next_clip_norm(2, 1.25), WithinRel(2 * std::exp(-0.25), 1e-12));
}

TEST_CASE("adaptive: the count's noise is a twentieth of the batch unless given", "[clipping]") {
  CHECK(adaptive(clipping("adaptive")).count_noise(512, 1.0) == 25.6);
  CHECK(adaptive(clipping("adaptive")).count_noise(10, 1.5) == 1.5);
  const auto given = clipping("adaptive", {{"count_noise", 2.0, {}}});
  CHECK(adaptive(given).count_noise(512, 1.0) == 2.0);
  CHECK(adaptive(given).count_noise(512, 3.99) == 2.0);
  CHECK_THROWS_WITH(adaptive(given).count_noise(512, 4.0),
                    ContainsSubstring("count_noise is 2") && ContainsSubstring("half"));
}

TEST_CASE("adaclip: scales by sqrt(s) sqrt(sum s), and follows releases less their noise",
          "[clipping]") {
  // The geometric mean of the smallest and the largest variance is 1/4, so s is 1/2 for both
  // coordinates, and b is sqrt(1/2) sqrt(1).
  const auto rule = clipping("adaclip", {{"mean_decay", 0.75, {}},
                                         {"variance_decay", 0.5, {}},
                                         {"least_variance", 0.0625, {}},
                                         {"most_variance", 1.0, {}}});
  auto& scaling = dynamic_cast<CoordinateScaling&>(*rule);
  CHECK(factors(*rule, {3, 4}, 2.5) == std::vector<double>{0.5, 0.5});
  CHECK(factors(*rule, {3, 4}, 50) == std::vector<double>{1, 1});
  const auto both = [&](float m0, float m1, double b0, double b1) {
    CHECK_THAT(scaling.shift()[0], WithinAbs(m0, 1e-6));
    CHECK_THAT(scaling.shift()[1], WithinAbs(m1, 1e-6));
    CHECK_THAT(scaling.scale()[0], WithinRel(static_cast<float>(b0), 1e-6f));
    CHECK_THAT(scaling.scale()[1], WithinRel(static_cast<float>(b1), 1e-6f));
  };
  both(0, 0, std::sqrt(0.5), std::sqrt(0.5));
  // b^2 (r^2 - sigma^2) = (4 - 3) / 2 and (1 - 3) / 2, which is below the minimum.
  scaling.learn(TrustBase::release({-2.0f, 1.0f}, std::sqrt(3.0)));
  const double s0 = std::sqrt(0.125 + 0.25), s1 = std::sqrt(0.125 + 0.03125);
  const double m0 = -0.25 * 2 * std::sqrt(0.5), m1 = 0.25 * std::sqrt(0.5);
  const double b0 = std::sqrt(s0 * (s0 + s1)), b1 = std::sqrt(s1 * (s0 + s1));
  both(static_cast<float>(m0), static_cast<float>(m1), b0, b1);
  // E ||w||^2 = sum s^2 / b^2 = 1.
  CHECK_THAT(s0 * s0 / (b0 * b0) + s1 * s1 / (b1 * b1), WithinRel(1.0, 1e-12));
  // Above the maximum, which is 1; an invalid number changes nothing.
  scaling.learn(TrustBase::release({1e3f, INFINITY}, 1.0));
  const double t0 = std::sqrt(0.5 * s0 * s0 + 0.5);
  both(static_cast<float>(m0 + 0.25 * b0 * 1e3), static_cast<float>(m1), std::sqrt(t0 * (t0 + s1)),
       std::sqrt(s1 * (t0 + s1)));
  CHECK_THROWS_AS(scaling.learn(TrustBase::release({1.0f}, 1.0)), PluginError);
}

TEST_CASE("adaclip: a state that no run can have left is refused", "[clipping]") {
  const auto rule = clipping("adaclip");
  const auto members = rule->state();
  REQUIRE(members.size() == 2);
  auto& variances = *std::get<std::vector<float>*>(members[1].value);
  REQUIRE(variances.size() == 2);
  rule->restored();
  for (const float bad : {0.0f, -1.0f}) {
    variances = {1.0f, bad};
    CHECK_THROWS_AS(rule->restored(), ConfigError);
  }
}
