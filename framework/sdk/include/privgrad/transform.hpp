#pragma once

#include <span>
#include <string_view>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"
#include "privgrad/params.hpp"

namespace privgrad {

/// Where the numbers that a transform uses come from.
enum class Statistic {
  none = 1,     ///< It uses none (flatten).
  is_public,    ///< The manifest gives the numbers; no row was looked at.
  unaccounted,  ///< Computed from private rows and charged nowhere; listed in every output.
  /// Computed from the training rows, of which the manifest says that they may be looked at for
  /// this. Listed in every output too, and refused in release mode: what is private there is not
  /// known to be public here.
  declared_public,
};

/// Changes the features of examples, once, before training.
///
/// Privacy: fit() sees private rows; what it keeps is described by statistic().
/// Threads: calls on one instance never overlap.
class PRIVGRAD_API Transform {
 public:
  static constexpr std::string_view kKind = "transform";
  static constexpr int kInterfaceVersion = 1;
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

/// Optional ability of a transform, found with dynamic_cast: what an example becomes is a function of
/// that example and of the numbers that the transform was given or fitted, and of nothing else, bit
/// for bit: beside any other examples, before and after them, and on any processor.
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

  /// \param features  float32, of one example.
  /// \param out  float32, as many as Transform::output_shape() says; not `features`.
  /// \throws ConfigError if `features` has not as many numbers as it was fitted to.
  virtual void apply_row(std::span<const float> features, std::span<float> out) const = 0;
};

/// Transform::apply() for a transform with that ability. An example that overflows becomes NaN, and
/// stays among the others: to refuse it would tell of it, and its gradient counts as zero.
/// \param shape  of what becomes of an example.
PRIVGRAD_API void apply_to_each_row(const RowTransform& transform, const Shape& shape,
                                    Dataset& data);

/// The parameter that every fitted transform declares: `statistics: unaccounted | public`.
PRIVGRAD_API ParamSpec statistics_param();

/// \returns what the parameter above says.
/// \throws nothing beyond Params.
PRIVGRAD_API Statistic statistic_from(const Params& params);

}  // namespace privgrad
