#include "privgrad/row_operation.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

using namespace row_operation;

/// The number of features after an operation, and what is wrong with its numbers, or "".
struct Checked {
  std::size_t features = 0;
  std::string problem;
};

std::string problem_of(const std::vector<double>& values, std::size_t features) {
  if (values.size() != 1 && values.size() != features) {
    return "has " + std::to_string(values.size()) + " values for " + std::to_string(features) +
           " features";
  }
  const bool are_finite = std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
  return are_finite ? "" : "has a value that is not finite";
}

Checked check(const Subtract& one, std::size_t n) { return {n, problem_of(one.values, n)}; }
Checked check(const Multiply& one, std::size_t n) { return {n, problem_of(one.values, n)}; }
Checked check(const Divide& one, std::size_t n) {
  const bool has_zero = std::ranges::find(one.values, 0.0) != one.values.end();
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
std::string problem_of_matrix(const std::vector<double>& matrix, std::size_t outputs,
                              std::size_t inputs) {
  std::size_t numbers = 0;
  if (outputs == 0 || __builtin_mul_overflow(outputs, inputs, &numbers) ||
      matrix.size() != numbers) {
    return "has a matrix of " + std::to_string(matrix.size()) + " numbers, expected " +
           std::to_string(outputs) + " x " + std::to_string(inputs);
  }
  const bool are_finite = std::ranges::all_of(matrix, [](double x) { return std::isfinite(x); });
  return are_finite ? "" : "has a value that is not finite";
}
Checked check(const Project& one, std::size_t n) {
  return {one.outputs, problem_of_matrix(one.matrix, one.outputs, n)};
}
Checked check(const ProjectAxis& one, std::size_t n) {
  std::size_t block = 0, features = 0;
  if (__builtin_mul_overflow(one.length, one.after, &block) || block == 0 || n % block != 0) {
    return {n, "has an axis of " + std::to_string(one.length) + " with " +
                   std::to_string(one.after) + " behind it, which is not part of " +
                   std::to_string(n) + " features"};
  }
  if (__builtin_mul_overflow(n / one.length, one.outputs, &features))
    return {n, "has more outputs than can be counted"};
  return {features, problem_of_matrix(one.matrix, one.outputs, one.length)};
}
Checked check(const Take& one, std::size_t n) {
  if (one.from.empty()) return {n, "takes no features"};
  const std::size_t last = *std::ranges::max_element(one.from);
  return {one.from.size(),
          last < n ? "" : "takes feature " + std::to_string(last) + " of " + std::to_string(n)};
}
Checked check(const Modulus&, std::size_t n) {
  const bool are_pairs = n > 0 && n % 2 == 0;
  return {n / 2, are_pairs ? "" : "has " + std::to_string(n) + " features, expected pairs"};
}
Checked check(const Concatenate& one, std::size_t n) {
  Checked all{0, one.branches.empty() ? "has no branches" : ""};
  for (const Branch& branch : one.branches) {
    if (__builtin_add_overflow(all.features, check_row_operations(branch.operations, n),
                               &all.features))
      return {n, "has more outputs than can be counted"};
  }
  return all;
}

void apply_all(const std::vector<RowOperation>& operations, std::vector<double>& x);

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

void apply(const ProjectAxis& one, std::vector<double>& x) {
  const std::size_t before = x.size() / (one.length * one.after);
  std::vector<double> result(before * one.outputs * one.after);
  for (std::size_t b = 0; b < before; ++b) {
    const double* in = x.data() + b * one.length * one.after;
    for (std::size_t i = 0; i < one.outputs; ++i) {
      double* out = result.data() + (b * one.outputs + i) * one.after;
      for (std::size_t j = 0; j < one.length; ++j) {
        const double weight = one.matrix[i * one.length + j];
        for (std::size_t a = 0; a < one.after; ++a) out[a] += weight * in[j * one.after + a];
      }
    }
  }
  x = std::move(result);
}
void apply(const Take& one, std::vector<double>& x) {
  std::vector<double> result;
  result.reserve(one.from.size());
  for (const std::size_t place : one.from) result.push_back(x[place]);
  x = std::move(result);
}
void apply(const Modulus&, std::vector<double>& x) {
  const std::size_t half = x.size() / 2;
  for (std::size_t j = 0; j < half; ++j) x[j] = std::sqrt(x[j] * x[j] + x[half + j] * x[half + j]);
  x.resize(half);
}
void apply(const Concatenate& one, std::vector<double>& x) {
  std::vector<double> result;
  for (const Branch& branch : one.branches) {
    std::vector<double> part = x;
    apply_all(branch.operations, part);
    result.insert(result.end(), part.begin(), part.end());
  }
  x = std::move(result);
}

void apply_all(const std::vector<RowOperation>& operations, std::vector<double>& x) {
  for (const RowOperation& operation : operations)
    std::visit([&](const auto& one) { apply(one, x); }, operation);
}

}  // namespace

std::size_t check_row_operations(const std::vector<RowOperation>& operations,
                                 std::size_t features) {
  constexpr const char* kNames[] = {"subtract",       "multiply",   "divide",       "keep",
                                    "divide_by_norm", "project",    "project_axis", "take",
                                    "modulus",        "concatenate"};
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
  apply_all(operations, x);
  return x;
}

}  // namespace privgrad
