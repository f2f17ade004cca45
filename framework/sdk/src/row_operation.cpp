#include "privgrad/row_operation.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

using namespace row_operation;

/// What an operation does to the number of features, and what is wrong with its numbers.
struct Checked {
  std::size_t features = 0;
  std::string problem;
};

std::string problem_of(const std::vector<double>& values, std::size_t features) {
  if (values.size() != 1 && values.size() != features) {
    return "has " + std::to_string(values.size()) + " values for " + std::to_string(features) +
           " features";
  }
  const bool are_finite =
      std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
  return are_finite ? "" : "has a value that is not finite";
}

Checked check(const Subtract& one, std::size_t n) { return {n, problem_of(one.values, n)}; }
Checked check(const Multiply& one, std::size_t n) { return {n, problem_of(one.values, n)}; }
Checked check(const Divide& one, std::size_t n) {
  const bool has_zero = std::find(one.values.begin(), one.values.end(), 0.0) != one.values.end();
  return {n, has_zero ? "divides by 0" : problem_of(one.values, n)};
}
Checked check(const Keep& one, std::size_t n) {
  return {n, one.kept.size() == n ? ""
                                  : "is of " + std::to_string(one.kept.size()) + " features for " +
                                        std::to_string(n)};
}
Checked check(const DivideByNorm& one, std::size_t n) {
  const bool is_right = one.at_least > 0.0 && std::isfinite(one.at_least);
  return {n, is_right ? "" : "has a least norm that is not finite and above 0"};
}
Checked check(const Project& one, std::size_t n) {
  std::size_t numbers = 0;
  if (one.outputs == 0 || __builtin_mul_overflow(one.outputs, n, &numbers) ||
      one.matrix.size() != numbers) {
    return {one.outputs, "has a matrix of " + std::to_string(one.matrix.size()) +
                             " numbers, expected " + std::to_string(one.outputs) + " x " +
                             std::to_string(n)};
  }
  const bool are_finite =
      std::all_of(one.matrix.begin(), one.matrix.end(), [](double x) { return std::isfinite(x); });
  return {one.outputs, are_finite ? "" : "has a value that is not finite"};
}

double of(const std::vector<double>& values, std::size_t j) {
  return values.size() == 1 ? values.front() : values[j];
}

void apply(const Subtract& one, std::vector<double>& x) {
  for (std::size_t j = 0; j < x.size(); ++j) x[j] -= of(one.values, j);
}
void apply(const Multiply& one, std::vector<double>& x) {
  for (std::size_t j = 0; j < x.size(); ++j) x[j] *= of(one.values, j);
}
void apply(const Divide& one, std::vector<double>& x) {
  for (std::size_t j = 0; j < x.size(); ++j) x[j] /= of(one.values, j);
}
void apply(const Keep& one, std::vector<double>& x) {
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (!one.kept[j]) x[j] = 0.0;
  }
}
void apply(const DivideByNorm& one, std::vector<double>& x) {
  double square = 0.0;
  for (const double value : x) square += value * value;
  const double norm = std::max(one.at_least, std::sqrt(square));
  for (double& value : x) value /= norm;
}
void apply(const Project& one, std::vector<double>& x) {
  std::vector<double> result(one.outputs);
  for (std::size_t i = 0; i < one.outputs; ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) result[i] += one.matrix[i * x.size() + j] * x[j];
  }
  x = std::move(result);
}

}  // namespace

RowOperations::~RowOperations() = default;

std::size_t check_row_operations(const std::vector<RowOperation>& operations,
                                 std::size_t features) {
  constexpr const char* kNames[] = {"subtract", "multiply",       "divide",
                                    "keep",     "divide_by_norm", "project"};
  static_assert(std::size(kNames) == std::variant_size_v<RowOperation>);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Checked checked =
        std::visit([&](const auto& one) { return check(one, features); }, operations[i]);
    if (!checked.problem.empty()) {
      throw PluginError("row operation " + std::to_string(i) + ", " +
                        kNames[operations[i].index()] + ", " + checked.problem);
    }
    features = checked.features;
  }
  return features;
}

std::vector<double> evaluate(const std::vector<RowOperation>& operations,
                             std::span<const float> features) {
  check_row_operations(operations, features.size());
  std::vector<double> x(features.begin(), features.end());
  for (const RowOperation& operation : operations)
    std::visit([&](const auto& one) { apply(one, x); }, operation);
  return x;
}

}  // namespace privgrad
