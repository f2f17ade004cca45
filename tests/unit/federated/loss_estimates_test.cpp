#include "privgrad/federated/loss_estimates.hpp"

#include <cmath>
#include <vector>

#include "support.hpp"
#include "test_random.hpp"

using namespace privgrad::core;

namespace {

/// Clients with losses a/2 |w - c_i|^2: every constant is known. Slope and divergence at w follow
/// from the gradients a (w - c_i); the curvature of the loss is a.
struct Bowls {
  std::size_t size = 20000;
  double a = 0.5;
  std::vector<std::vector<float>> centres;

  explicit Bowls(std::size_t clients) {
    for (std::size_t i = 0; i < clients; ++i) {
      std::vector<float> centre(size);
      TestStream(7, i).fill_normal(centre);
      for (float& x : centre) x *= 0.01f;
      centres.push_back(std::move(centre));
    }
  }

  std::vector<float> gradient(std::size_t client, const std::vector<float>& w) const {
    std::vector<float> g(size);
    for (std::size_t j = 0; j < size; ++j)
      g[j] = static_cast<float>(a) * (w[j] - centres[client][j]);
    return g;
  }

  /// Makes one noised step of gradient descent by all clients.
  std::vector<ClientRound> round(const std::vector<float>& w, double rate, double noise,
                                 std::uint64_t seed) const {
    std::vector<ClientRound> sent(centres.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const auto g = gradient(i, w);
      std::vector<float> zeta(size);
      TestStream(seed, i).fill_normal(zeta);
      sent[i].model.resize(size);
      for (std::size_t j = 0; j < size; ++j) {
        sent[i].model[j] =
            w[j] - static_cast<float>(rate) * (g[j] + static_cast<float>(noise) * zeta[j]);
      }
      sent[i].weight = 1.0 / static_cast<double>(sent.size());
      sent[i].rates = rate;
      sent[i].noise_variance = rate * rate * noise * noise;
    }
    return sent;
  }

  std::vector<float> mean(const std::vector<ClientRound>& sent) const {
    std::vector<float> w(size, 0.0f);
    for (const ClientRound& client : sent) {
      for (std::size_t j = 0; j < size; ++j)
        w[j] += static_cast<float>(client.weight) * client.model[j];
    }
    return w;
  }
};

double norm(const std::vector<float>& v) {
  double square = 0.0;
  for (const float x : v) square += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(square);
}

}  // namespace

TEST_CASE("from_models: without noise the constants of quadratic losses come out", "[estimates]") {
  const Bowls bowls(4);
  LossEstimator estimator(EstimateMode::from_models, bowls.size);
  const std::vector<float> start(bowls.size, 0.02f);
  const auto first = bowls.round(start, 0.3, 0.0, 1);
  const LossEstimates one = estimator.after_round(start, first);
  CHECK_FALSE(one.smoothness.has_value());  // needs two rounds
  double slope = 0.0, divergence = 0.0, fall = 0.0;
  std::vector<float> mean(bowls.size, 0.0f);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto g = bowls.gradient(i, start);
    slope += norm(g) / 4.0;
    fall += 0.3 * norm(g) * norm(g) / 4.0;
    for (std::size_t j = 0; j < g.size(); ++j) mean[j] += g[j] / 4.0f;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    auto g = bowls.gradient(i, start);
    for (std::size_t j = 0; j < g.size(); ++j) g[j] -= mean[j];
    divergence += norm(g) * norm(g) / 4.0;
  }
  CHECK_THAT(one.lipschitz.value(), WithinRel(slope, 1e-3));
  CHECK_THAT(one.divergence.value(), WithinRel(std::sqrt(divergence), 1e-3));
  CHECK_THAT(one.heterogeneity.value(), WithinRel(fall, 1e-3));

  const std::vector<float> then = bowls.mean(first);
  const LossEstimates two = estimator.after_round(then, bowls.round(then, 0.3, 0.0, 2));
  CHECK_THAT(two.smoothness.value(), WithinRel(0.5, 1e-2));
  CHECK_THAT(two.convexity.value(), WithinRel(0.5, 1e-2));
}

TEST_CASE("from_models: the noise in lengths is taken off", "[estimates]") {
  // The noise is as long as the gradients (0.01 in each of 20000 coordinates); its squared length
  // has a relative standard deviation of sqrt(2/20000) = 1 %. The mean of the ten gradients of a
  // round has noise of variance 1e-5 in each coordinate, and so has the resulting step. The squared
  // smoothness is thus 0.25 with a deviation of 0.02; a change of its root by 10 % is 2.5
  // deviations. Without the correction for the noise's own path, 2 h m, it would be 0.75.
  const Bowls bowls(10);
  const std::vector<float> start(bowls.size, 0.02f);
  const auto estimates_with = [&](double noise) {
    LossEstimator estimator(EstimateMode::from_models, bowls.size);
    const auto first = bowls.round(start, 0.3, noise, 3);
    estimator.after_round(start, first);
    const auto then = bowls.mean(first);
    return estimator.after_round(then, bowls.round(then, 0.3, noise, 4));
  };
  const LossEstimates exact = estimates_with(0.0), noised = estimates_with(0.01);
  CHECK_THAT(noised.divergence.value(), WithinRel(exact.divergence.value(), 0.1));
  CHECK_THAT(noised.heterogeneity.value(), WithinRel(exact.heterogeneity.value(), 0.1));
  // (|g|^2 - d n) / |g|: the noised gradient is sqrt(1 + d n / |g|^2) times as long as the exact
  // gradient, and the corrected value is shorter by the same factor. |g| = 0.5 |0.02 - 0.01 z|, so
  // |g|^2 / d is 0.25 (4e-4 + 1e-4).
  const double share = 0.01 * 0.01 / (0.25 * 5e-4);
  CHECK_THAT(noised.lipschitz.value(),
             WithinRel(exact.lipschitz.value() / std::sqrt(1.0 + share), 0.1));
  CHECK_THAT(noised.smoothness.value(), WithinRel(0.5, 0.1));
  CHECK_THAT(noised.convexity.value(), WithinRel(0.5, 0.1));
}

TEST_CASE("without a learning rate a round shows nothing", "[estimates]") {
  // A model that did not change has no mean gradient; 0/0 must not become an estimate of 0.
  for (const EstimateMode mode :
       {EstimateMode::from_models, EstimateMode::private_sums, EstimateMode::unaccounted}) {
    LossEstimator estimator(mode, 1);
    std::vector<ClientRound> sent(2);
    for (ClientRound& client : sent) {
      client.weight = 0.5;
      client.model = {0.0f};
      client.loss_changes = {{0.0, 0.0}};
      client.exact.emplace().gradient = {1.0f};
    }
    sent[0].model = {1.0f};
    sent[0].rates = 1.0;
    const std::vector<float> start{0.0f};
    const LossEstimates made = estimator.after_round(start, sent);
    CHECK_FALSE(made.lipschitz.has_value());
    CHECK_FALSE(made.smoothness.has_value());
    CHECK_FALSE(made.divergence.has_value());
    CHECK_FALSE(made.convexity.has_value());
    CHECK_FALSE(made.heterogeneity.has_value());
  }
}

TEST_CASE("private: from two released numbers a client", "[estimates]") {
  // Two clients with weights 0.25 and 0.75 that moved by 2 and 4.
  LossEstimator estimator(EstimateMode::private_sums, 1);
  std::vector<ClientRound> sent(2);
  sent[0] = {.weight = 0.25,
             .model = {-2.0f},
             .rates = 1.0,
             .noise_variance = 0.0,
             .loss_changes = {{-0.4, 0.1}},
             .exact = {}};
  sent[1] = {.weight = 0.75,
             .model = {4.0f},
             .rates = 1.0,
             .noise_variance = 0.0,
             .loss_changes = {{-0.2, 0.4}},
             .exact = {}};
  const std::vector<float> start{0.0f};
  const LossEstimates made = estimator.after_round(start, sent);
  CHECK_THAT(made.lipschitz.value(), WithinRel(0.25 * 0.4 / 2.0 + 0.75 * 0.2 / 4.0, 1e-12));
  const double bend = 0.25 * 4.0 * 0.1 / 4.0 + 0.75 * 4.0 * 0.4 / 16.0;
  CHECK_THAT(made.convexity.value(), WithinRel(bend, 1e-12));
  CHECK_THAT(made.smoothness.value(), WithinRel(bend, 1e-12));
  CHECK_THAT(made.heterogeneity.value(), WithinRel(0.25 * 0.4 + 0.75 * 0.2, 1e-12));
  // The resulting gradients are 2 and -4, their mean -2.5: 0.25 * 4.5^2 + 0.75 * 1.5^2 = 6.75.
  CHECK_THAT(made.divergence.value(), WithinRel(std::sqrt(6.75), 1e-6));
}

TEST_CASE("unaccounted: as printed", "[estimates]") {
  LossEstimator estimator(EstimateMode::unaccounted, 1);
  std::vector<ClientRound> sent(2);
  for (int i = 0; i < 2; ++i) {
    sent[i].weight = 0.5;
    sent[i].model = {i == 0 ? 2.0f : -1.0f};
    sent[i].rates = 1.0;
    sent[i].exact = ExactLosses{.before = 1.0,
                                .after = i == 0 ? 0.5 : 1.5,
                                .gradient_change = 0.6,
                                .along = 0.3,
                                .gradient = {i == 0 ? 1.0f : 3.0f}};
  }
  const std::vector<float> start{0.0f};
  const LossEstimates made = estimator.after_round(start, sent);
  CHECK_THAT(made.lipschitz.value(), WithinRel(0.5 * 0.5 / 2.0 + 0.5 * 0.5 / 1.0, 1e-9));
  CHECK_THAT(made.smoothness.value(), WithinRel(0.5 * 0.6 / 2.0 + 0.5 * 0.6 / 1.0, 1e-9));
  // The gradients are 1 and 3, each 1 from the mean.
  CHECK_THAT(made.divergence.value(), WithinRel(1.0, 1e-9));
  CHECK_THAT(made.convexity.value(), WithinRel(0.5 * 0.3 / 4.0 + 0.5 * 0.3 / 1.0, 1e-9));
  CHECK(made.heterogeneity.value() == 0.0);  // the losses did not fall on average
}

TEST_CASE("nothing arrived: nothing is known", "[estimates]") {
  LossEstimator estimator(EstimateMode::from_models, 1);
  const std::vector<float> start{0.0f};
  CHECK_FALSE(estimator.after_round(start, {}).lipschitz.has_value());
}
