// A transform's arithmetic as a list of operations, so that an exported model can contain it.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Arithmetic on the features x of one example, in their row-major order, as a list of steps that
/// another program can follow to do what a transform does. Everything is in double;
/// `values` has one number per feature, or a single one for all of them, all finite.
namespace row_operation {

/// x[j] - values[j].
struct Subtract {
  std::vector<double> values;
};

/// x[j] * values[j].
struct Multiply {
  std::vector<double> values;
};

/// x[j] / values[j], of which none is 0.
struct Divide {
  std::vector<double> values;
};

/// x[j] where kept[j], and 0 elsewhere, whatever x[j] is. One per feature.
struct Keep {
  std::vector<bool> kept;
};

/// x[j] / max(at_least, ||x||), by the Euclidean norm of the whole example.
struct DivideByNorm {
  double at_least = 0.0;  ///< Finite, above 0.
};

/// y[i] = sum over j of matrix[i, j] x[j].
struct Project {
  std::size_t outputs = 0;
  std::vector<double> matrix;  ///< [outputs, features], row-major, finite.
};

/// Projects along one axis of features that are seen as [before, length, after], where `before` is
/// the rest: y[b, i, a] = sum over j of matrix[i, j] x[b, j, a], [before, outputs, after].
struct ProjectAxis {
  std::size_t length = 0;  ///< length * after divides the features.
  std::size_t after = 0;
  std::size_t outputs = 0;
  std::vector<double> matrix;  ///< [outputs, length], row-major, finite.
};

/// y[i] = x[from[i]]: features in another order, left out, or more than once.
struct Take {
  std::vector<std::size_t> from;  ///< At least one.
};

/// y[j] = sqrt(x[j]^2 + x[n + j]^2), where n is half of the features: the moduli of complex numbers,
/// whose real parts come first.
struct Modulus {};

struct Branch;

/// The outputs of all branches, each computed from x, in order.
struct Concatenate {
  std::vector<Branch> branches;  ///< At least one.
};

}  // namespace row_operation

using RowOperation =
    std::variant<row_operation::Subtract, row_operation::Multiply, row_operation::Divide,
                 row_operation::Keep, row_operation::DivideByNorm, row_operation::Project,
                 row_operation::ProjectAxis, row_operation::Take, row_operation::Modulus,
                 row_operation::Concatenate>;

/// Operations in order; an empty list leaves x as it is.
struct row_operation::Branch {
  std::vector<RowOperation> operations;
};

/// Optional ability of a transform: its effect on an example can be expressed in operations that
/// other programs know, too. `privgrad export` needs it of every transform of a model. apply()
/// gives what evaluate() computes, within the rounding of float32, in the shape of
/// Transform::output_shape(). The conformance suite tests it.
///
/// Privacy: holds what fit() learnt, and is as private as Transform::statistic() says.
/// Threads: as Transform.
class PRIVGRAD_API RowOperations {
 public:
  virtual ~RowOperations();

  /// \param shape  shape of the features that enter, as given to output_shape(); e.g. {28, 28}.
  /// \returns none where an example keeps its numbers, and at most its shape changes.
  /// \throws ConfigError for examples for which it cannot be expressed, e.g. because they are too
  ///   large.
  /// \pre fit() or restore() was called.
  virtual std::vector<RowOperation> row_operations(const Shape& shape) const = 0;
};

/// \param features  how many enter the first operation.
/// \returns how many leave the last one.
/// \throws PluginError naming the operation that cannot take what enters it, or breaks what is said
///   of its numbers above.
PRIVGRAD_API std::size_t check_row_operations(const std::vector<RowOperation>& operations,
                                              std::size_t features);

/// \param features  float32, of one example.
/// \returns what the operations make of it, in double, without a rounding to float32.
/// \throws PluginError as check_row_operations() does.
PRIVGRAD_API std::vector<double> evaluate(const std::vector<RowOperation>& operations,
                                          std::span<const float> features);

}  // namespace privgrad
