// The interface of transforms, which change the features of examples before training.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/export.hpp"
#include "privgrad/params.hpp"
#include "privgrad/row_operation.hpp"

namespace privgrad {

/// Where the numbers that a transform uses come from.
enum class Statistic {
  none = 1,     ///< It uses no numbers (flatten): apply() is the same without fit().
  is_public,    ///< The manifest gives the numbers; they do not come from rows.
  unaccounted,  ///< Computed from private rows without a charge; listed in every output.
  /// Computed from training rows that the manifest declares usable for this purpose. Like
  /// `unaccounted`, listed in every output. Refused in release mode, because nobody can verify that
  /// the rows are public.
  declared_public,
  /// Learnt from a noised sum over the training rows that the core releases and charges to the
  /// ledger (BoundedStatistic).
  released,
};

/// A tensor that a transform has learnt.
struct FittedTensor {
  std::string name;            ///< Letters, digits and '_', at most 64; unique in the transform.
  Shape shape;                 ///< Every extent > 0.
  std::vector<double> values;  ///< Row-major, finite, element_count(shape).
};

/// Changes the features of examples, once, before training.
///
/// Privacy: fit() receives private rows if statistic() is `unaccounted` or `declared_public`, and a
/// row of zeros if it is `none` or `is_public`; it is not called if the statistic is `released`.
/// The core reads what an instance has learnt (fitted_values()) before the instance is applied to
/// any row, and applies it to test rows, which may be public, before training rows. Threads: calls
/// on one instance never overlap, except for apply_row() and apply_rows().
///
/// Example that learns nothing and processes each row by itself:
///
///     class Halve final : public Transform {
///      public:
///       explicit Halve(const Params&) {}
///       ExampleShape output_shape(const ExampleShape& input) const override { return input; }
///       void fit(Dataset&) override {}
///       Statistic statistic() const override { return Statistic::none; }
///       bool is_by_row() const override { return true; }
///       void apply_row(const Shape&, std::span<const float> features,
///                      std::span<float> out) const override {
///         for (std::size_t i = 0; i < features.size(); ++i) out[i] = 0.5f * features[i];
///       }
///     };
class PRIVGRAD_API Transform {
 public:
  static constexpr std::string_view kKind = "transform";
  static constexpr int kInterfaceVersion = 3;
  static constexpr std::string_view kSees = "private rows";

  virtual ~Transform();
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  /// \returns the shape into which apply() turns `input`.
  /// \throws ConfigError if the transform cannot be applied to such examples.
  virtual ExampleShape output_shape(const ExampleShape& input) const = 0;

  /// Learns what apply() needs from the training examples. Called once, before apply().
  virtual void fit(Dataset& train) = 0;

  virtual Statistic statistic() const = 0;

  /// Changes the features of the examples in place, in the same way for every split. The set of
  /// examples, their targets and their order must stay the same; the core checks this. The default
  /// calls apply_rows(), as the core itself does if is_by_row(); other transforms override this
  /// function.
  virtual void apply(Dataset& data) const;

  // ---- Examples one at a time

  /// Whether apply_row() makes the transformed example only from the original one and from the
  /// transform's given or fitted numbers, with the same bits whatever other examples come before
  /// it, after it or with it, and on any processor. Always the same for the same parameters.
  ///
  /// A matrix product does not have this property, because its order of summation may depend on a
  /// row's place. A loop over the features in a fixed order has it, if the compiler does not
  /// contract products and sums (-ffp-contract=off). The conformance suite tests it.
  ///
  /// Privacy: if false, one example can affect how others are rounded. Every output of a run then
  /// lists `floating_point` as unaccounted, and release mode refuses the run.
  virtual bool is_by_row() const { return false; }

  /// Called only if is_by_row(). Threads: calls of apply_row() and apply_rows() may overlap.
  /// \param shape  shape of the features, the same as for output_shape(); e.g. {28, 28}.
  /// \param features  float32, of one example, element_count(shape).
  /// \param out  float32, as many as output_shape() says; other memory than `features`.
  /// \throws ConfigError if the transform was fitted on examples with another number of features.
  virtual void apply_row(const Shape& shape, std::span<const float> features,
                         std::span<float> out) const;

  /// Transforms several examples at once, each exactly as apply_row() does, bit for bit, whatever
  /// the other examples are. The core calls this function, and compares some examples with the
  /// result of apply_row(). The default transforms them one by one; a transform whose numbers do
  /// not fit into the caches overrides this, to read the numbers once for all examples.
  /// \param rows  how many examples there are, at least 1.
  /// \param features  float32, [rows, element_count(shape)].
  /// \param out  float32, [rows, as many as output_shape() says]; other memory than `features`.
  /// \throws ConfigError like apply_row().
  virtual void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                          std::span<float> out) const;

  /// Whether computing a transformed example takes longer than reading it from a disk. With
  /// `privgrad run --cache`, if is_by_row() and the Statistic is `none`, the transformed examples
  /// are stored for later runs with the same data, parameters and code, which read exactly these
  /// bits. The stored examples are as private as the original ones, and are only stored on request.
  virtual bool is_costly() const { return false; }

  // ---- Functions for saved models

  /// Whether the numbers that fit() learnt can be read and then passed to another instance with the
  /// same parameters, so that the other instance transforms every example to the same bits. If so,
  /// a model is saved with these numbers and can later be applied to raw examples; if not, it can
  /// only be applied to examples that the transform has already changed. By default, true only if
  /// there are no numbers. Always the same for the same parameters. The conformance suite tests it.
  ///
  /// Privacy: these numbers are as private as statistic() says, and become part of a run's
  /// releases: if they were learnt from private rows, every output of the run lists the transform
  /// as unaccounted, and release mode refuses it.
  virtual bool is_restorable() const { return statistic() == Statistic::none; }

  /// Called only if is_restorable().
  /// \returns all numbers that apply() uses besides the parameters, including numbers computed from
  ///   parameters; nothing if statistic() is `none`.
  /// \pre fit() or restore() was called.
  virtual std::vector<FittedTensor> fitted_values() const { return {}; }

  /// Replaces fit(). Called only if is_restorable().
  /// \throws ConfigError for missing or unknown tensors, and for shapes or values that contradict
  ///   the parameters. The instance then stays as it was.
  virtual void restore(const std::vector<FittedTensor>& values);

  /// Expresses the transform as operations that other programs can execute. `privgrad export` needs
  /// them for every transform of a model. apply() gives the result of evaluate(), within the
  /// rounding of float32, in the shape of output_shape(). The conformance suite tests it.
  ///
  /// Privacy: contains what fit() learnt, and is as private as statistic() says.
  /// \param shape  shape of the input features, the same as for output_shape(); e.g. {28, 28}.
  /// \returns an empty list if the transform changes nothing but the shape of an example.
  /// \throws ConfigError if the transform cannot be expressed for such examples, e.g. because they
  ///   are too large; the default always throws.
  /// \pre fit() or restore() was called.
  virtual std::vector<RowOperation> row_operations(const Shape& shape) const;

 protected:
  Transform() = default;
};

/// Finds one of the tensors that were passed to restore().
/// \param who  the transform's name, for the error.
/// \param shape  the tensor's shape; an extent of 0 means any extent.
/// \throws ConfigError if it is missing, has another shape or number of values, or a value that is
///   not finite.
PRIVGRAD_API const FittedTensor& find_fitted(const std::vector<FittedTensor>& values,
                                             std::string_view who, std::string_view name,
                                             const Shape& shape);

/// Applies a transform with is_by_row() on an executor's threads, some rows at a time. An example
/// that overflows becomes NaN and stays in the data, because an error would reveal it. Its gradient
/// then counts as zero.
/// \param shape  the shape of a transformed example.
PRIVGRAD_API void apply_to_each_row(const Transform& transform, const Shape& shape, Dataset& data,
                                    Executor& executor);

/// The parameter that a fitted transform declares: `statistic: unaccounted | public`. A transform
/// with the ability BoundedStatistic declares private_statistic_params() instead.
PRIVGRAD_API ParamSpec statistics_param();

/// \returns the meaning of the parameter `statistic`, declared in either way.
/// \throws only what Params throws.
PRIVGRAD_API Statistic statistic_from(const Params& params);

}  // namespace privgrad
