#include "privgrad/studies/quadratic_influence.hpp"

#include <cmath>

#include "support.hpp"

using namespace privgrad::core;

namespace {

using Doubles = std::vector<double>;
using Rules = std::vector<privgrad::StepRule>;

/// Plain descent with a learning rate of 1.
constexpr privgrad::StepRule kDescent{.rate = 1.0, .take = 1.0};

/// Returns the last iterate along one axis from 0, with one unit of noise in step `noisy`.
double simulated(const QuadraticDescent& descent, double eigenvalue, std::size_t noisy) {
  double theta = 0.0;
  double velocity = 0.0;
  for (std::size_t t = 0; t < descent.learning_rate.size(); ++t) {
    const double gradient = eigenvalue * theta + (t == noisy ? 1.0 : 0.0);
    velocity = descent.optimizer[t].keep * velocity + descent.optimizer[t].take * gradient;
    theta -= descent.learning_rate[t] * descent.optimizer[t].rate * velocity;
  }
  return theta;
}

}  // namespace

TEST_CASE("quadratic influence: a step of plain descent forgets by (1 - eta lambda)^2",
          "[influence]") {
  const QuadraticDescent descent{.eigenvalues = {0.5, 3.0},
                                 .outputs = 2.0,
                                 .learning_rate = Doubles(20, 0.1),
                                 .noise_unit = Doubles(20, 0.04),
                                 .optimizer = Rules(20, kDescent)};
  const Doubles influence = quadratic_influence(descent);
  for (std::size_t t = 0; t < 20; ++t) {
    double expected = 0.0;
    for (const double lambda : descent.eigenvalues) {
      expected +=
          lambda * 0.01 * std::pow(1.0 - 0.1 * lambda, 2.0 * (19.0 - static_cast<double>(t)));
    }
    CHECK_THAT(influence[t], WithinRel(0.5 * 2.0 * 0.04 * 0.04 * expected, 1e-12));
  }
}

TEST_CASE("quadratic influence: what a unit of noise does to the last iterate, simulated",
          "[influence]") {
  QuadraticDescent descent{.eigenvalues = {0.7, 2.0},
                           .outputs = 1.0,
                           .learning_rate = {0.3, 0.2, 0.1, 0.3, 0.2, 0.4},
                           .noise_unit = {1.0, 0.5, 1.0, 2.0, 1.0, 1.0},
                           .optimizer = {}};
  Rules bias_corrected;
  for (int t = 0; t < 6; ++t)
    bias_corrected.push_back(
        {.rate = 1.0 / (1.0 - std::pow(0.9, t + 1)), .keep = 0.9, .take = 0.1});
  const Rules heavy_ball(6, {.rate = 1.0, .keep = 0.9, .take = 1.0});
  for (const Rules& optimizer : {Rules(6, kDescent), bias_corrected, heavy_ball}) {
    INFO("keep " << optimizer.front().keep << ", take " << optimizer.front().take);
    descent.optimizer = optimizer;
    const Doubles influence = quadratic_influence(descent);
    for (std::size_t t = 0; t < 6; ++t) {
      double expected = 0.0;
      for (const double lambda : descent.eigenvalues) {
        const double moved = simulated(descent, lambda, t) * descent.noise_unit[t];
        expected += 0.5 * lambda * moved * moved;
      }
      CHECK_THAT(influence[t], WithinRel(expected, 1e-12));
    }
  }
}

TEST_CASE("eigenvalues of symmetric matrices", "[influence]") {
  // Eigenvalues: [[2, 1], [1, 2]] 1, 3; second difference of n points 2 - 2 cos(k pi / (n + 1)).
  const Doubles two = symmetric_eigenvalues({2, 1, 1, 2}, 2);
  CHECK_THAT(two[0], WithinRel(1.0, 1e-14));
  CHECK_THAT(two[1], WithinRel(3.0, 1e-14));
  constexpr std::size_t n = 30;
  Doubles matrix(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    matrix[i * n + i] = 2.0;
    if (i + 1 < n) matrix[i * n + i + 1] = matrix[(i + 1) * n + i] = -1.0;
  }
  const Doubles found = symmetric_eigenvalues(matrix, n);
  for (std::size_t k = 1; k <= n; ++k) {
    const double expected =
        2.0 - 2.0 * std::cos(static_cast<double>(k) * std::acos(-1.0) / (n + 1.0));
    CHECK_THAT(found[k - 1], WithinRel(expected, 1e-11));
  }
  CHECK(symmetric_eigenvalues({0, 0, 0, 0}, 2) == Doubles{0.0, 0.0});
}
