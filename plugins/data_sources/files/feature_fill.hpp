// The parameter feature_fill: how data sources treat features that are not finite numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

/// The rule for features that are not finite numbers in float32: NaN, infinities, and doubles that
/// overflow. All sources whose features are reals use the same rule.
///
/// Privacy: with a declared fill, an example is a function of its own row, so neighbouring data
/// sets differ in the examples of one row, whatever that row contains. Without a fill, such a
/// feature ends the run. Then a completed run reveals that no row has such a feature, a fact that
/// unaccounted() lists. Threads: immutable.
class FeatureFill {
 public:
  static privgrad::ParamSpec param() {
    return privgrad::param::real(
               "feature_fill",
               "The number for a feature that is NaN, infinite, or beyond float32, in the units "
               "of the data, before any transform. Without it such a feature is an error, and "
               "listed as unaccounted where the features are reals.")
        .optional();
  }

  /// Reads the parameter of param().
  /// \throws ConfigError if it is not finite as a float32.
  FeatureFill(std::string_view component, const privgrad::Params& params) {
    if (!params.has("feature_fill")) return;
    const double fill = params.real("feature_fill");
    if (!std::isfinite(static_cast<float>(fill)))
      throw privgrad::ConfigError(std::string(component) + ": feature_fill is " +
                                  privgrad::format_number(fill) +
                                  ", expected a finite number within float32");
    fill_ = static_cast<float>(fill);
  }

  bool is_declared() const noexcept { return fill_.has_value(); }

  /// Replaces features that are not finite by feature_fill.
  /// \param features  any number of examples, one after the other.
  /// \returns the place of the first feature that is not finite, if no feature_fill was declared;
  ///   otherwise nothing.
  std::optional<std::size_t> fit(std::span<float> features) const {
    if (!fill_) return first_misfit(features);
    std::ranges::replace_if(
        features, [](float x) { return !std::isfinite(x); }, *fill_);
    return std::nullopt;
  }

  static std::optional<std::size_t> first_misfit(std::span<const float> features) {
    if (privgrad::all_finite(features)) return std::nullopt;
    const auto bad = std::ranges::find_if(features, [](float x) { return !std::isfinite(x); });
    return static_cast<std::size_t>(bad - features.begin());
  }

  /// Returns the end of an error about such a feature, to follow the feature's place.
  static std::string remedy() { return "; feature_fill says what such a feature counts as"; }

  /// Adds to `facts` what a run reveals about the rows.
  /// \param are_reals  whether the features' type has values that are not finite; public, like the
  ///   form of a file.
  void add_unaccounted(bool are_reals, std::vector<std::string>& facts) const {
    if (are_reals && !fill_) facts.emplace_back("that every feature is finite (feature_fill)");
  }

 private:
  std::optional<float> fill_;
};
