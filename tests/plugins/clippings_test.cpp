#include "privgrad/clipping.hpp"

#include <cmath>

#include "house_plugins.hpp"

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

// The expected values follow from the formula of each rule by hand: layers of norm 3 and 4 are a
// gradient of norm 5.

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
