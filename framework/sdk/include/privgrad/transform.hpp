// The interface of transforms: what is done to the features of examples before training.
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

/// The origin of the numbers that a transform uses.
enum class Statistic {
  none = 1,     ///< It uses none (flatten): apply() is the same without fit().
  is_public,    ///< The manifest gives the numbers; no row was looked at.
  unaccounted,  ///< Computed from private rows and charged nowhere; listed in every output.
  /// Computed from the training rows, of which the manifest says that they may be looked at for
  /// this. Listed in every output too, and refused in release mode: what is private there is not
  /// known to be public here.
  declared_public,
  /// Learnt from a noised sum over the training rows that the core releases and the ledger is charged
  /// for (BoundedStatistic).
  released,
};

/// Changes the features of examples, once, before training.
///
/// Privacy: fit() sees private rows where statistic() is `unaccounted` or `declared_public`, and a
/// row of zeros where it is `none` or `is_public`; it is not called where that is `released`. What
/// an instance has learnt is asked for (FittedValues) before it is applied to any row, and it is
/// applied to test rows, which may be public, before training rows.
/// Threads: calls on one instance never overlap.
///
/// Example, which learns nothing and treats each row by itself:
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

  /// \returns the shape that apply() turns `input` into.
  /// \throws ConfigError if it cannot be applied to such examples.
  virtual ExampleShape output_shape(const ExampleShape& input) const = 0;

  /// Learns what apply() needs, from the training examples. Called once, before apply().
  virtual void fit(Dataset& train) = 0;

  /// Changes the features of the examples in place, the same way for every split. Which examples
  /// there are, their targets and their order stay; the core compares them. Of a RowTransform the
  /// core calls apply_row() instead.
  virtual void apply(Dataset& data) const = 0;

  virtual Statistic statistic() const = 0;

 protected:
  Transform() = default;
};

/// Optional ability of a transform: what an example becomes is a function of that example and of
/// the numbers that the transform was given or fitted, and of nothing else, bit for bit: beside any
/// other examples, before and after them, and on any processor.
///
/// A product of matrices does not have it: what it adds up first may depend on a row's place. One
/// loop over the features in a fixed order, whose compiler does not contract products and sums
/// (-ffp-contract=off), does. The conformance suite tests it.
///
/// Privacy: without it, one example can move the roundings of its neighbours. Where a transform
/// lacks it, every output of a run lists `floating_point` as unaccounted, and release mode refuses.
/// Threads: apply_row() may run concurrently.
class PRIVGRAD_API RowTransform {
 public:
  virtual ~RowTransform();

  /// \param shape  shape of the features, as given to output_shape(); e.g. {28, 28}.
  /// \param features  float32, of one example, element_count(shape).
  /// \param out  float32, as many as Transform::output_shape() says; not `features`.
  /// \throws ConfigError if `features` does not have as many numbers as the transform was fitted
  ///   to.
  virtual void apply_row(const Shape& shape, std::span<const float> features,
                         std::span<float> out) const = 0;

  /// Several examples at once, each of which becomes what apply_row() makes of it, bit for bit,
  /// whatever stands beside it. The core calls this one, and compares some examples with themselves
  /// alone. By default one after the other; for a transform whose numbers are more than the caches
  /// hold, so that it reads them once for all of these.
  /// \param rows  how many examples there are, at least 1.
  /// \param features  float32, [rows, element_count(shape)].
  /// \param out  float32, [rows, as many as Transform::output_shape() says]; not `features`.
  /// \throws ConfigError as apply_row().
  virtual void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                          std::span<float> out) const;

  /// Whether to compute what an example becomes takes longer than to read it from a disk. `privgrad
  /// run --cache` keeps it for the next run with the same data, parameters and code if the Statistic
  /// is `none`, and takes it from there, bit for bit. What is kept is as private as the examples,
  /// and nothing is kept unless the user asks for it.
  virtual bool is_costly() const { return false; }
};

/// A part of what a transform has learnt.
struct FittedTensor {
  std::string name;            ///< Letters, digits and '_', at most 64; unique in the transform.
  Shape shape;                 ///< Every extent > 0.
  std::vector<double> values;  ///< Row-major, finite, element_count(shape).
};

/// Optional ability of a transform: what fit() learnt can be taken out, and put into another
/// instance with the same parameters, which then makes the same bits of every example. A model is
/// saved with these numbers, so that it can be applied to raw examples later; a model behind a
/// transform that lacks the ability, and whose statistic() is not `none`, can be applied to nothing
/// but what the transform has made. The conformance suite tests it.
///
/// Privacy: what is taken out is as private as statistic() says, and becomes a part of what a run
/// releases: where it was learnt from private rows, every output of the run lists the transform as
/// unaccounted, and release mode refuses it.
/// Threads: as Transform.
class PRIVGRAD_API FittedValues {
 public:
  virtual ~FittedValues();

  /// \returns all numbers that apply() uses besides the parameters, those that the parameters gave
  ///   included; nothing if statistic() is `none`.
  /// \pre fit() or restore() was called.
  virtual std::vector<FittedTensor> fitted_values() const = 0;

  /// Takes the place of fit().
  /// \throws ConfigError for tensors that are missing or unknown, that have other shapes than the
  ///   parameters allow, or other values than the parameters give. The instance stays as it was.
  virtual void restore(const std::vector<FittedTensor>& values) = 0;
};

/// Finds one of the tensors that restore() was given.
/// \param who  the transform's name, for the error.
/// \param shape  its shape; an extent of 0 may be anything.
/// \throws ConfigError if it is missing, has another shape, not as many values, or one that is not
///   finite.
PRIVGRAD_API const FittedTensor& find_fitted(const std::vector<FittedTensor>& values,
                                             std::string_view who, std::string_view name,
                                             const Shape& shape);

/// Transform::apply() for a transform with the ability RowTransform. An example that overflows becomes
/// NaN, and stays among the others: to refuse it would tell of it, and its gradient counts as zero.
/// \param shape  the shape of a transformed example.
PRIVGRAD_API void apply_to_each_row(const RowTransform& transform, const Shape& shape,
                                    Dataset& data);

/// The same on an executor's threads, some rows at a time, with the same bits.
PRIVGRAD_API void apply_to_each_row(const RowTransform& transform, const Shape& shape,
                                    Dataset& data, Executor& executor);

/// The parameter that a fitted transform declares: `statistic: unaccounted | public`. One with the
/// ability BoundedStatistic declares private_statistic_params() instead.
PRIVGRAD_API ParamSpec statistics_param();

/// \returns the meaning of the parameter `statistic`, declared in either way.
/// \throws nothing beyond Params.
PRIVGRAD_API Statistic statistic_from(const Params& params);

}  // namespace privgrad
