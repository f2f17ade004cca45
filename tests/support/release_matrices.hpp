// The releases of a run as dense matrices, to compare correlated noise with its definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "privgrad/aggregator.hpp"

/// Dense matrices for small cases, by rows.
using Matrix = std::vector<std::vector<double>>;

/// The recipes of a run as matrices, computed by applying the definition of ReleaseRecipe to unit
/// vectors: release t is sum_u A_tu x_u + sum_j B_tj zeta_j, before scale and divisor.
struct ReleaseMatrices {
  Matrix data;                      // A
  Matrix noise;                     // B
  std::vector<std::uint64_t> node;  // node of each column of B
};

inline ReleaseMatrices release_matrices(const privgrad::Aggregator& aggregator,
                                        std::uint64_t steps) {
  ReleaseMatrices result;
  std::map<std::uint64_t, std::size_t> columns;
  std::vector<double> keep;
  std::vector<std::map<std::size_t, double>> z(steps);
  std::vector<double> s(steps, 0.0);
  for (std::uint64_t t = 0; t < steps; ++t) {
    const privgrad::ReleaseRecipe recipe = aggregator.recipe(t);
    keep.push_back(recipe.keep);
    for (double& entry : s) entry *= recipe.keep;
    s[t] = 1.0;
    result.data.push_back(s);
    for (const auto& [from, share] : recipe.earlier) {
      double carried = share;
      for (std::uint64_t u = from + 1; u <= t; ++u) carried *= keep[u];
      for (const auto& [column, value] : z[from]) z[t][column] += carried * value;
    }
    for (const auto& [node, multiplier] : recipe.noise) {
      const auto [place, fresh] = columns.try_emplace(node, columns.size());
      if (fresh) result.node.push_back(node);
      z[t][place->second] += multiplier;
    }
  }
  for (const auto& row : z) {
    std::vector<double>& dense = result.noise.emplace_back(columns.size(), 0.0);
    for (const auto& [column, value] : row) dense[column] = value;
  }
  return result;
}

/// Returns B B^T for the first `steps` releases.
inline Matrix covariance(const ReleaseMatrices& matrices, std::size_t steps) {
  Matrix result(steps, std::vector<double>(steps, 0.0));
  for (std::size_t i = 0; i < steps; ++i) {
    for (std::size_t j = 0; j < steps; ++j) {
      for (std::size_t k = 0; k < matrices.node.size(); ++k)
        result[i][j] += matrices.noise[i][k] * matrices.noise[j][k];
    }
  }
  return result;
}

/// Returns u^T S^-1 u, by Cholesky's S = L L^T: the squared sensitivity of a Gaussian mechanism
/// with covariance S whose mean changes by u.
inline double squared_length_under(const Matrix& s, const std::vector<double>& u) {
  const std::size_t n = u.size();
  Matrix lower(n, std::vector<double>(n, 0.0));
  std::vector<double> x(n);
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double entry = s[i][j];
      for (std::size_t k = 0; k < j; ++k) entry -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? std::sqrt(entry) : entry / lower[j][j];
    }
    double rest = u[i];
    for (std::size_t k = 0; k < i; ++k) rest -= lower[i][k] * x[k];
    x[i] = rest / lower[i][i];
    sum += x[i] * x[i];
  }
  return sum;
}
