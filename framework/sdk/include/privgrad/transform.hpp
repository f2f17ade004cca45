#pragma once

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

  /// Changes the examples in place, the same way for every split.
  virtual void apply(Dataset& data) const = 0;

  virtual Statistic statistic() const = 0;

 protected:
  Transform() = default;
};

/// The parameter that every fitted transform declares: `statistics: unaccounted | public`.
PRIVGRAD_API ParamSpec statistics_param();

/// \returns what the parameter above says.
/// \throws nothing beyond Params.
PRIVGRAD_API Statistic statistic_from(const Params& params);

}  // namespace privgrad
