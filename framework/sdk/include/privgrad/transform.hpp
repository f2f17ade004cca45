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

namespace privgrad {

/// Where the numbers that a transform uses come from.
enum class Statistic {
  none = 1,     ///< It uses no numbers (flatten): apply() is the same without fit().
  is_public,    ///< The manifest gives the numbers; no row was read.
  unaccounted,  ///< Computed from private rows without a charge; listed in every output.
  /// Computed from training rows that the manifest declares usable for this purpose. Also listed
  /// in every output, and refused in release mode, where private rows cannot be known to be
  /// public.
  declared_public,
  /// Learnt from a noised sum over the training rows that the core releases and charges to the
  /// ledger (BoundedStatistic).
  released,
};

/// Changes the features of examples, once, before training.
///
/// Privacy: fit() receives private rows if statistic() is `unaccounted` or `declared_public`, and a
/// row of zeros if it is `none` or `is_public`; it is not called if that is `released`. The core
/// reads what an instance has learnt (FittedValues) before the instance is applied to any row, and
/// applies it to test rows, which may be public, before training rows. Threads: calls on one
/// instance never overlap.
///
/// Example that learns nothing and processes each row by itself:
///
///     class Halve final : public Transform, public RowTransform {
///      public:
///       explicit Halve(const Params&) {}
///       ExampleShape output_shape(const ExampleShape& input) const override { return input; }
///       void fit(Dataset&) override {}
///       void apply(Dataset& data) const override {
///         apply_to_each_row(*this, data.shape().features, data);
///       }
///       void apply_row(const Shape&, std::span<const float> features,
///                      std::span<float> out) const override {
///         for (std::size_t i = 0; i < features.size(); ++i) out[i] = 0.5f * features[i];
///       }
///       Statistic statistic() const override { return Statistic::none; }
///     };
class PRIVGRAD_API Transform {
 public:
  static constexpr std::string_view kKind = "transform";
  static constexpr int kInterfaceVersion = 2;
  static constexpr std::string_view kSees = "private rows";

  virtual ~Transform();
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  /// \returns the shape into which apply() turns `input`.
  /// \throws ConfigError if the transform cannot be applied to such examples.
  virtual ExampleShape output_shape(const ExampleShape& input) const = 0;

  /// Learns what apply() needs from the training examples. Called once, before apply().
  virtual void fit(Dataset& train) = 0;

  /// Changes the features of the examples in place, in the same way for every split. The set of
  /// examples, their targets and their order must stay the same; the core checks this. For a
  /// RowTransform, the core calls apply_row() instead.
  virtual void apply(Dataset& data) const = 0;

  virtual Statistic statistic() const = 0;

 protected:
  Transform() = default;
};

/// Optional ability of a transform: the transformed example is a function of that example and of
/// the transform's given or fitted numbers alone, bit for bit: together with any other examples,
/// before or after them, and on any processor.
///
/// A matrix product does not have this property, because its order of summation may depend on a
/// row's place. A loop over the features in a fixed order has it, if the compiler does not contract
/// products and sums (-ffp-contract=off). The conformance suite tests it.
///
/// Privacy: without this ability, one example can affect the rounding of others. If a transform
/// lacks it, every output of a run lists `floating_point` as unaccounted, and release mode refuses
/// the run. Threads: apply_row() may run concurrently.
class PRIVGRAD_API RowTransform {
 public:
  virtual ~RowTransform();

  /// \param shape  shape of the features, the same as for output_shape(); e.g. {28, 28}.
  /// \param features  float32, of one example, element_count(shape).
  /// \param out  float32, as many as Transform::output_shape() says; not `features`.
  /// \throws ConfigError if the number of features is not that of the examples on which the
  ///   transform was fitted.
  virtual void apply_row(const Shape& shape, std::span<const float> features,
                         std::span<float> out) const = 0;

  /// Transforms several examples at once, each exactly as apply_row() does, bit for bit, whatever
  /// the other examples are. The core calls this function, and compares some examples with the
  /// result of apply_row(). By default one after another; a transform whose numbers do not fit into
  /// the caches overrides this, to read them once for all examples.
  /// \param rows  how many examples there are, at least 1.
  /// \param features  float32, [rows, element_count(shape)].
  /// \param out  float32, [rows, as many as Transform::output_shape() says]; not `features`.
  /// \throws ConfigError like apply_row().
  virtual void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                          std::span<float> out) const;

  /// Whether computing a transformed example takes longer than reading it from a disk. With
  /// `privgrad run --cache`, if the Statistic is `none`, the transformed examples are stored for
  /// the next run with the same data, parameters and code, and read from there, bit for bit. They
  /// are as private as the examples themselves, and are only stored on request.
  virtual bool is_costly() const { return false; }
};

/// A part of what a transform has learnt.
struct FittedTensor {
  std::string name;            ///< Letters, digits and '_', at most 64; unique in the transform.
  Shape shape;                 ///< Every extent > 0.
  std::vector<double> values;  ///< Row-major, finite, element_count(shape).
};

/// Optional ability of a transform: the numbers that fit() learnt can be read, and passed to
/// another instance with the same parameters, which then transforms every example to the same
/// bits. A model is saved with these numbers, so that it can later be applied to raw examples; a
/// model behind a transform that lacks this ability, and whose statistic() is not `none`, can
/// only be applied to examples that the transform has already changed. The conformance suite
/// tests it.
///
/// Privacy: these numbers are as private as statistic() says, and become part of what a run
/// releases: if they were learnt from private rows, every output of the run lists the transform as
/// unaccounted, and release mode refuses it. Threads: like Transform.
class PRIVGRAD_API FittedValues {
 public:
  virtual ~FittedValues();

  /// \returns all numbers that apply() uses besides the parameters, including numbers computed from
  ///   parameters; nothing if statistic() is `none`.
  /// \pre fit() or restore() was called.
  virtual std::vector<FittedTensor> fitted_values() const = 0;

  /// Replaces fit().
  /// \throws ConfigError for missing or unknown tensors, and for shapes or values that contradict
  ///   the parameters. The instance then stays as it was.
  virtual void restore(const std::vector<FittedTensor>& values) = 0;
};

/// Finds one of the tensors that restore() was given.
/// \param who  the transform's name, for the error.
/// \param shape  its shape; an extent of 0 means any extent.
/// \throws ConfigError if it is missing, has another shape or number of values, or a value that is
///   not finite.
PRIVGRAD_API const FittedTensor& find_fitted(const std::vector<FittedTensor>& values,
                                             std::string_view who, std::string_view name,
                                             const Shape& shape);

/// Transform::apply() for a transform with the ability RowTransform. An example that overflows
/// becomes NaN and stays in place: refusing it would reveal it. Its gradient counts as zero.
/// \param shape  the shape of a transformed example.
PRIVGRAD_API void apply_to_each_row(const RowTransform& transform, const Shape& shape,
                                    Dataset& data);

/// The same on an executor's threads, some rows at a time, with the same bits.
PRIVGRAD_API void apply_to_each_row(const RowTransform& transform, const Shape& shape,
                                    Dataset& data, Executor& executor);

/// The parameter that a fitted transform declares: `statistic: unaccounted | public`. A transform
/// with the ability BoundedStatistic declares private_statistic_params() instead.
PRIVGRAD_API ParamSpec statistics_param();

/// \returns the meaning of the parameter `statistic`, declared in either way.
/// \throws nothing beyond Params.
PRIVGRAD_API Statistic statistic_from(const Params& params);

}  // namespace privgrad
