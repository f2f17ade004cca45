// A transform's arithmetic as a list of operations, so that an exported model can contain it.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Arithmetic on the features x of one example, in row-major order, as a list of operations that
/// another program can execute to reproduce a transform. All arithmetic is in double; `values` has
/// one number per feature, or a single number for all features; all numbers are finite.
namespace row_operation {

/// x[j] - values[j].
struct Subtract {
  std::vector<double> values;
};

/// x[j] * values[j].
struct Multiply {
  std::vector<double> values;
};

/// x[j] / values[j]; no value is 0.
struct Divide {
  std::vector<double> values;
};

/// x[j] where kept[j], and 0 elsewhere, whatever x[j] is; `kept` has one element per feature.
struct Keep {
  std::vector<bool> kept;
};

/// x[j] / max(at_least, ||x||), with the Euclidean norm of the whole example.
struct DivideByNorm {
  double at_least = 0.0;  ///< Finite, above 0.
};

/// y[i] = sum over j of matrix[i, j] x[j].
struct Project {
  std::size_t outputs = 0;
  std::vector<double> matrix;  ///< [outputs, features], row-major, finite.
};

/// Projects one axis of the features, which are seen as [before, length, after] and become
/// [before, outputs, after]: y[b, i, a] = sum over j of matrix[i, j] x[b, j, a]. `before` follows
/// from the number of features.
struct ProjectAxis {
  std::size_t length = 0;  ///< length * after divides the number of features.
  std::size_t after = 0;
  std::size_t outputs = 0;
  std::vector<double> matrix;  ///< [outputs, length], row-major, finite.
};

/// y[i] = x[from[i]]: reorders the features, and may leave out or repeat some of them.
struct Take {
  std::vector<std::size_t> from;  ///< At least one.
};

/// y[j] = sqrt(x[j]^2 + x[n + j]^2), where n is half the number of features: the moduli of complex
/// numbers whose real parts come first.
struct Modulus {};

struct Branch;

/// The outputs of all branches, in order. Each branch receives x.
struct Concatenate {
  std::vector<Branch> branches;  ///< At least one.
};

}  // namespace row_operation

using RowOperation =
    std::variant<row_operation::Subtract, row_operation::Multiply, row_operation::Divide,
                 row_operation::Keep, row_operation::DivideByNorm, row_operation::Project,
                 row_operation::ProjectAxis, row_operation::Take, row_operation::Modulus,
                 row_operation::Concatenate>;

/// Operations in order; an empty list leaves x unchanged.
struct row_operation::Branch {
  std::vector<RowOperation> operations;
};

/// \param features  the number of features that enter the first operation.
/// \returns the number of features that leave the last operation.
/// \throws PluginError that names an operation that cannot process its input, or that breaks a rule
///   stated above.
PRIVGRAD_API std::size_t check_row_operations(const std::vector<RowOperation>& operations,
                                              std::size_t features);

/// \param features  float32, of one example.
/// \returns the result of the operations in double, without rounding to float32.
/// \throws PluginError like check_row_operations().
PRIVGRAD_API std::vector<double> evaluate(const std::vector<RowOperation>& operations,
                                          std::span<const float> features);

}  // namespace privgrad
