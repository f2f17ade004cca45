#include "privgrad/studies/quadratic_influence.hpp"
#include "privgrad/plan/read_data.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace privgrad::core {
namespace {

constexpr std::size_t kMostFeatures = 2000;

/// The effect of a unit of noise in each step's gradient on the last iterate, for one eigenvalue.
/// Goes backwards through the steps, with the last iterate's derivatives by the parameter theta and
/// the velocity v after step t.
std::vector<double> effects(const QuadraticDescent& descent, double eigenvalue) {
  const std::size_t steps = descent.learning_rate.size();
  std::vector<double> effect(steps);
  double by_theta = 1.0;
  double by_velocity = 0.0;
  for (std::size_t t = steps; t-- > 0;) {
    const StepRule& now = descent.optimizer[t];
    // v' = keep v + take (eigenvalue theta + noise), theta' = theta - learning_rate rate v'.
    const double by_new_velocity = by_velocity - descent.learning_rate[t] * now.rate * by_theta;
    effect[t] = now.take * by_new_velocity;
    by_theta += now.take * eigenvalue * by_new_velocity;
    by_velocity = now.keep * by_new_velocity;
  }
  return effect;
}

/// Rotates rows and columns p and q so that element (p, q) becomes 0.
void rotate(std::vector<double>& a, std::size_t n, std::size_t p, std::size_t q) {
  const double off = a[p * n + q];
  if (off == 0.0) return;
  const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * off);
  const double t = (theta >= 0.0 ? 1.0 : -1.0) / (std::fabs(theta) + std::hypot(theta, 1.0));
  const double c = 1.0 / std::hypot(t, 1.0);
  const double s = t * c;
  for (std::size_t k = 0; k < n; ++k) {
    const double kp = a[k * n + p];
    const double kq = a[k * n + q];
    a[k * n + p] = c * kp - s * kq;
    a[k * n + q] = s * kp + c * kq;
  }
  for (std::size_t k = 0; k < n; ++k) {
    const double pk = a[p * n + k];
    const double qk = a[q * n + k];
    a[p * n + k] = c * pk - s * qk;
    a[q * n + k] = s * pk + c * qk;
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw ConfigError(
      "the method hessian needs a constant Hessian: one dense layer with squared loss under "
      "gradient descent, with or without momentum; " +
      what + "; use --method retraining");
}

const Dense& dense_layer_of(const Plan& plan) {
  const Network& network = plan.setting->network;
  if (plan.setting->lora) refuse("this model has adapters (model.lora)");
  if (network.loss != Loss::squared) refuse("this loss is not the squared loss");
  if (!network.class_weights.empty() || plan.manifest->largest_class_weight)
    refuse("its classes have weights");
  const auto* dense = std::get_if<Dense>(&network.nodes.front().layer);
  if (network.nodes.size() != 1 || dense == nullptr || dense->per_place || dense->no_bias)
    refuse("this model has other layers");
  return *dense;
}

/// The rules of all steps, at a learning rate of 1.
std::vector<StepRule> linear_rule_of(const ComponentUse& use, std::uint64_t steps) {
  const auto optimizer = use.make<Optimizer>();
  const auto kind = optimizer->rule();
  if (kind != StepRule::Kind::descent && kind != StepRule::Kind::momentum)
    refuse("this optimizer is " + use.name());
  optimizer->start(1);
  std::vector<StepRule> rules;
  for (std::uint64_t step = 0; step < steps; ++step) {
    rules.push_back(optimizer->next_rule({.step = step, .learning_rate = 1.0}));
    if (kind == StepRule::Kind::descent) rules.back().take = 1.0;
  }
  return rules;
}

/// (1/N) sum_i z_i z_i^T with z_i = (x_i, 1): the Hessian of the mean of 1/2 (w x + b - y)^2.
std::vector<double> second_moments(const Dataset& data) {
  const std::size_t n = data.row_size() + 1;
  if (n > kMostFeatures) refuse("these examples have more than 1999 features");
  std::vector<double> moments(n * n, 0.0);
  std::vector<float> row(data.row_size());
  std::vector<double> z(n, 1.0);
  float target = 0.0f;
  for (std::uint32_t i = 0; i < data.rows(); ++i) {
    data.gather(std::span(&i, 1), row, std::span(&target, 1));
    std::ranges::copy(row, z.begin());
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) moments[a * n + b] += z[a] * z[b];
    }
  }
  for (double& value : moments) value /= static_cast<double>(data.rows());
  return moments;
}

}  // namespace

std::vector<double> quadratic_influence(const QuadraticDescent& descent) {
  std::vector<double> influence(descent.learning_rate.size(), 0.0);
  for (const double eigenvalue : descent.eigenvalues) {
    const std::vector<double> effect = effects(descent, eigenvalue);
    for (std::size_t t = 0; t < influence.size(); ++t) {
      influence[t] += eigenvalue * effect[t] * effect[t];
    }
  }
  for (std::size_t t = 0; t < influence.size(); ++t) {
    influence[t] *= 0.5 * descent.outputs * descent.noise_unit[t] * descent.noise_unit[t];
  }
  return influence;
}

std::vector<double> symmetric_eigenvalues(std::vector<double> matrix, std::size_t size) {
  constexpr int kMostSweeps = 60;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0.0;
    double all = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        const double square = matrix[i * size + j] * matrix[i * size + j];
        all += square;
        if (i != j) off += square;
      }
    }
    if (off <= 1e-26 * all) {
      std::vector<double> values(size);
      for (std::size_t i = 0; i < size; ++i) values[i] = matrix[i * size + i];
      std::ranges::sort(values);
      return values;
    }
    for (std::size_t p = 0; p + 1 < size; ++p) {
      for (std::size_t q = p + 1; q < size; ++q) rotate(matrix, size, p, q);
    }
  }
  throw NumericError("the eigenvalues of a Hessian do not converge");
}

QuadraticDescent quadratic_descent_of(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  QuadraticDescent descent;
  descent.outputs = static_cast<double>(dense_layer_of(plan).units);
  descent.optimizer = linear_rule_of(manifest.optimizer, plan.steps());
  descent.learning_rate = plan.learning_rate;
  for (std::size_t t = 0; t < plan.steps(); ++t) {
    descent.noise_unit.push_back(plan.clip_norm[t] / plan.batch_size[t]);
  }
  const Dataset train = read_data(manifest, *plan.setting).train;
  descent.eigenvalues = symmetric_eigenvalues(second_moments(train), train.row_size() + 1);
  for (double& value : descent.eigenvalues) value = std::max(0.0, value);
  return descent;
}

}  // namespace privgrad::core
