// The common part of transforms that learn numbers from the training examples, either exactly or as
// a private statistic.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::learnt {

/// A transform whose parameters say how its numbers are learnt.
class LearntTransform : public Transform, public BoundedStatistic {
 public:
  Statistic statistic() const override { return statistic_; }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }

 protected:
  /// Bounds are multiplied by this, so that they do not shorten contributions that only rounding to
  /// float32 has made too long.
  static constexpr double kAbove = 1.0 + 1e-6;

  LearntTransform(std::string who, const Params& params)
      : who_(std::move(who)),
        statistic_(statistic_from(params)),
        noise_(statistic_noise_from(params, who_)) {}

  [[noreturn]] void refuse(const std::string& what) const { throw ConfigError(who_ + ": " + what); }

  /// Checks that the bound on an example is given if and only if the statistic is private.
  /// \param name  the parameter that is the bound.
  /// \param what  what the parameter bounds, and how to choose it.
  void check_bound(const Params& params, const std::string& name, const std::string& what) const {
    if (params.has(name) == noise_.has_value()) return;
    refuse(noise_ ? "statistic: private needs " + what : name + " is only for statistic: private");
  }

  /// \returns the parameter max_norm of a private statistic; otherwise 0.
  double max_norm_from(const Params& params) const {
    check_bound(params, "max_norm", "a public bound on the norm of an example; give max_norm");
    return noise_ ? params.real("max_norm") : 0.0;
  }

  void check_fit(const Dataset& train) const {
    if (noise_) throw PluginError(who_ + ": learns only from a released statistic");
    if (train.rows() == 0) refuse("there are no training examples");
  }

  void check_width(std::size_t fitted, std::size_t given, const char* unit = "features") const {
    if (fitted == given) return;
    refuse("was fitted to " + std::to_string(fitted) + " " + unit + ", the examples have " +
           std::to_string(given));
  }

  std::string who_;
  Statistic statistic_;
  std::optional<StatisticNoise> noise_;  ///< Nothing if there is no private statistic.
};

/// Subtracts a number from each feature and divides the difference by another number; a feature
/// whose divisor is 0 becomes 0. Difference and quotient are each rounded once, so they have the
/// same bits on every machine.
class ShiftAndDivide : public LearntTransform {
 public:
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    check_width(shift_.size(), features.size());
    for (std::size_t j = 0; j < features.size(); ++j) {
      const double x = static_cast<double>(features[j]) - shift_[j];
      out[j] = divisor_[j] == 0.0 ? 0.0f : static_cast<float>(x / divisor_[j]);
    }
  }

  std::vector<FittedTensor> fitted_values() const override {
    return {{shift_name_, {shift_.size()}, shift_}, {divisor_name_, {divisor_.size()}, divisor_}};
  }

  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 2)
      refuse("expected the fitted tensors " + shift_name_ + " and " + divisor_name_);
    const FittedTensor& shift = find_fitted(values, who_, shift_name_, {0});
    const FittedTensor& divisor = find_fitted(values, who_, divisor_name_, shift.shape);
    if (std::ranges::any_of(divisor.values, [](double x) { return x < 0.0; }))
      refuse("the fitted tensor " + divisor_name_ + " has a value below 0");
    if (given_ && (shift.values != shift_ || divisor.values != divisor_))
      refuse("the fitted tensors are not the " + shift_name_ + " and " + divisor_name_ +
             " that were given");
    shift_ = shift.values;
    divisor_ = divisor.values;
  }

  std::vector<RowOperation> row_operations(const Shape&) const override {
    std::vector<bool> kept(divisor_.size());
    std::vector<double> divisors(divisor_.size(), 1.0);
    for (std::size_t j = 0; j < divisor_.size(); ++j) {
      kept[j] = divisor_[j] != 0.0;
      if (kept[j]) divisors[j] = divisor_[j];
    }
    namespace row = row_operation;
    return {row::Subtract{shift_}, row::Divide{std::move(divisors)}, row::Keep{std::move(kept)}};
  }

 protected:
  ShiftAndDivide(std::string who, const Params& params, std::string shift, std::string divisor)
      : LearntTransform(std::move(who), params),
        shift_name_(std::move(shift)),
        divisor_name_(std::move(divisor)) {}

  bool given_ = false;           ///< Whether the manifest gives both numbers.
  std::vector<double> shift_;    ///< [features].
  std::vector<double> divisor_;  ///< [features]; 0 if the feature becomes 0.

 private:
  std::string shift_name_, divisor_name_;  ///< Names of the fitted tensors.
};

}  // namespace privgrad::learnt
