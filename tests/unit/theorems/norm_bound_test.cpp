// Lemmas 5 and 11 of Tran and Cutkosky 2022, each in problems whose two sides have a closed form,
// or follow from trying every order of the examples. The gradients of F are written out here; only
// the bounds come from the framework.
#include "privgrad/theorems/norm_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "support.hpp"

using namespace privgrad;
using namespace privgrad::core;

namespace {

using Vector = std::array<double, 2>;

double norm(const Vector& v) { return std::hypot(v[0], v[1]); }
Vector plus(const Vector& a, double scale, const Vector& b) {
  return {a[0] + scale * b[0], a[1] + scale * b[1]};
}

/// f_j(w) = sqrt(1 + |w - a_j|^2): no gradient is longer than 1, and the smoothness is 1.
constexpr std::array<Vector, 4> kCentres{{{2.0, 0.0}, {-2.0, 0.5}, {0.0, 3.0}, {0.5, -3.0}}};

Vector gradient_of(std::size_t j, const Vector& w) {
  const Vector away = plus(w, -1.0, kCentres[j]);
  return plus({}, 1.0 / std::sqrt(1.0 + norm(away) * norm(away)), away);
}

Vector mean_gradient(const Vector& w) {
  Vector sum{};
  for (std::size_t j = 0; j < kCentres.size(); ++j) sum = plus(sum, 0.25, gradient_of(j, w));
  return sum;
}

/// Adds the distance of the momentum from F's gradient in each step of two epochs with these
/// orders.
/// \param noise  in each step's momentum; it affects the steps but is not part of the errors.
void add_errors(const std::array<std::size_t, 8>& order, const MomentumFacts& facts,
                const std::array<Vector, 8>& noise, std::array<double, 8>& errors) {
  Vector w{1.0, 1.0}, momentum{};
  for (std::size_t t = 0; t < 8; ++t) {
    momentum = plus(plus({}, 1.0 - facts.alpha, momentum), facts.alpha, gradient_of(order[t], w));
    errors[t] += norm(plus(momentum, -1.0, mean_gradient(w)));
    const Vector noisy = plus(momentum, 1.0, noise[t]);
    w = plus(w, -facts.learning_rate / norm(noisy), noisy);
  }
}

std::vector<std::array<std::size_t, 8>> orders_of_two_epochs() {
  std::vector<std::array<std::size_t, 8>> orders;
  std::array<std::size_t, 4> first{0, 1, 2, 3};
  do {
    std::array<std::size_t, 4> second{0, 1, 2, 3};
    do {
      std::array<std::size_t, 8> both{};
      std::ranges::copy(first, both.begin());
      std::ranges::copy(second, both.begin() + 4);
      orders.push_back(both);
    } while (std::ranges::next_permutation(second).found);
  } while (std::ranges::next_permutation(first).found);
  return orders;
}

}  // namespace

TEST_CASE("Lemma 5: each of its constants, two thirds of the printed ones, is attained",
          "[bound]") {
  constexpr double kRate = 0.25, kSteps = 20.0;
  // Straight down a slope of 3: the norm is the decrease of F.
  CHECK_THAT(norm_along_descent(3.0 * kRate * kSteps, kRate, 0.0, kSteps, 0.0),
             WithinRel(3.0, 1e-14));
  // Straight up the slope: m points the other way and is short, so its error is 3 + |m|.
  CHECK_THAT(norm_along_descent(-3.0 * kRate * kSteps, kRate, 0.0, kSteps, 3.0 + 1e-12),
             WithinRel(3.0, 1e-11));
  // F = 5/2 w^2 from w = 10 along its own gradient: without an error, only the term for the steps'
  // curvature remains.
  double w = 10.0, norms = 0.0;
  for (int step = 0; step < 20; ++step, w -= kRate) norms += 5.0 * w;
  CHECK_THAT(norm_along_descent(2.5 * (100.0 - w * w), kRate, 5.0, kSteps, 0.0),
             WithinRel(norms / kSteps, 1e-13));
}

// F = (w_1^2 - w_2^2) / 2 is not convex, and 1-smooth; m is arbitrary.
TEST_CASE("Lemma 5: no normalized steps along any vectors have longer gradients", "[bound]") {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  const auto value = [](const Vector& w) { return 0.5 * (w[0] * w[0] - w[1] * w[1]); };
  for (int trial = 0; trial < 300; ++trial) {
    const double scale = std::exp(normal(random)), rate = std::exp(2.0 * normal(random) - 2.0);
    Vector w{normal(random), normal(random)};
    const double before = value(w);
    double norms = 0.0, errors = 0.0;
    for (int step = 0; step < 30; ++step) {
      const Vector gradient{w[0], -w[1]}, error{scale * normal(random), scale * normal(random)};
      const Vector m = plus(gradient, 1.0, error);
      norms += norm(gradient) / 30.0;
      errors += norm(error) / 30.0;
      w = plus(w, -rate / norm(m), m);
    }
    CHECK(norms <= norm_along_descent(before - value(w), rate, 1.0, 30.0, errors) + 1e-12);
  }
}

// Erratum: f(w) = <g, w> for every example. m_t is (1 - (1 - alpha)^t) g, because it begins at 0.
TEST_CASE("Lemma 11 is false as printed, where momentum begins at 0", "[bound]") {
  constexpr double kAlpha = 0.01;
  const MomentumFacts facts{
      .clip_norm = 1.0, .smoothness = 0.0, .examples = 50.0, .learning_rate = 0.1, .alpha = kAlpha};
  const double printed = 2.0 * std::sqrt(kAlpha);  // its other terms have a factor L
  double momentum = 0.0, mean_error = 0.0;
  for (int t = 1; t <= 100; ++t) {
    momentum = (1.0 - kAlpha) * momentum + kAlpha;
    const double error = 1.0 - momentum;
    CHECK(error > printed);
    CHECK(error <= momentum_error(facts, std::pow(1.0 - kAlpha, t)));
    mean_error += error / 100.0;
  }
  CHECK(mean_error > 3.0 * printed);  // nor does it hold on average over the steps
}

TEST_CASE("Lemma 11, mended, holds on average over all orders of two epochs", "[bound]") {
  const auto orders = orders_of_two_epochs();
  REQUIRE(orders.size() == 576);
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const double alpha : {0.1, 0.3, 0.6, 1.0}) {
    for (const double rate : {0.01, 0.1, 1.0}) {
      for (const double sigma : {0.0, 1.0}) {
        const MomentumFacts facts{.clip_norm = 1.0,
                                  .smoothness = 1.0,
                                  .examples = 4.0,
                                  .learning_rate = rate,
                                  .alpha = alpha};
        std::array<Vector, 8> noise{};
        for (Vector& of_step : noise) of_step = {sigma * normal(random), sigma * normal(random)};
        std::array<double, 8> errors{};
        for (const auto& order : orders) add_errors(order, facts, noise, errors);
        for (std::size_t t = 0; t < 8; ++t) {
          INFO("alpha " << alpha << ", rate " << rate << ", step " << t + 1);
          const double start = std::pow(1.0 - alpha, static_cast<double>(t + 1));
          CHECK(errors[t] / 576.0 <= momentum_error(facts, start));
        }
      }
    }
  }
}

// Five examples f_j = h(<d_j, w>), d_j = e cos + u_j sin, cos^2 = 0.24; e and the u_j are
// orthonormal. h' is 1 until w has moved 0.96 along -d_j, and -1 beyond 1. A step along d_j
// reverses j's gradient and moves w by 0.24 along each other d_i, so that the gradients of later
// examples do not change: the last example's gradient is far from the mean, in every order.
TEST_CASE("Lemma 11, mended: at the end of an epoch iterates know which example is to come",
          "[bound]") {
  const double along = std::sqrt(0.24), across = std::sqrt(0.76);
  std::array<double, 5> gone{};  // the distance of w along each -d_j
  const auto slope = [](double down) { return std::clamp(1.0 - (down - 0.96) / 0.02, -1.0, 1.0); };
  for (std::size_t step = 0; step < 4; ++step) {
    REQUIRE(slope(gone[step]) == 1.0);
    for (std::size_t j = 0; j < 5; ++j) gone[j] += j == step ? 1.0 : 0.24;
  }
  // The last gradient, d_4, minus the mean, with alpha 1: coordinates along e and the u_j.
  double mean = 0.0, squares = 0.0;
  for (std::size_t j = 0; j < 5; ++j) mean += slope(gone[j]) / 5.0;
  for (std::size_t j = 0; j < 5; ++j) {
    const double own = (j == 4 ? 1.0 : 0.0) - slope(gone[j]) / 5.0;
    squares += across * across * own * own;
  }
  squares += along * along * (1.0 - mean) * (1.0 - mean);
  const MomentumFacts facts{
      .clip_norm = 1.0, .smoothness = 50.0, .examples = 5.0, .learning_rate = 1.0, .alpha = 1.0};
  MomentumFacts without_epoch = facts;
  without_epoch.examples = 1.0;
  CHECK(std::sqrt(squares) > 1.1 * momentum_error(without_epoch, 0.0));
  CHECK(std::sqrt(squares) <= momentum_error(facts, 0.0));
}

TEST_CASE("Lemma 11, mended: start, order and memory are attained to 3 %", "[bound]") {
  MomentumFacts facts{
      .clip_norm = 1.0, .smoothness = 0.0, .examples = 2000.0, .learning_rate = 0.0, .alpha = 1e-6};
  // The term of the start: the first step, if all examples have one gradient.
  CHECK(1.0 - facts.alpha <= momentum_error(facts, 1.0 - facts.alpha));
  CHECK(1.0 - facts.alpha > 0.99 * momentum_error(facts, 1.0 - facts.alpha));

  // The term of the order: 2000 examples whose gradients are the unit vectors, in any order. In
  // step t of the first epoch the momentum has the coordinates alpha (1 - alpha)^k, and F's
  // gradient is 1/2000 in each coordinate.
  facts.alpha = 0.1;
  double squares = 1.0 / 2000.0;
  for (int k = 0; k < 200; ++k) {
    const double weight = 0.1 * std::pow(0.9, k);
    squares += weight * weight - 2.0 * weight / 2000.0;
  }
  const double of_order = momentum_error(facts, std::pow(0.9, 200));
  CHECK(std::sqrt(squares) <= of_order);
  CHECK(std::sqrt(squares) > 0.99 * of_order);

  // Memory's term: one example whose gradient goes from -1 to 1 in 200 000 equal steps.
  facts = {
      .clip_norm = 1.0, .smoothness = 1.0, .examples = 1.0, .learning_rate = 1e-5, .alpha = 5e-5};
  double momentum = 0.0, gradient = -1.0;
  for (int t = 1; t <= 200'000; ++t) {
    gradient = -1.0 + facts.learning_rate * t;
    momentum += facts.alpha * (gradient - momentum);
  }
  const double of_memory = momentum_error(facts, std::pow(1.0 - facts.alpha, 200'000.0));
  CHECK(gradient - momentum <= of_memory);
  CHECK(gradient - momentum > 0.97 * of_memory);
}
