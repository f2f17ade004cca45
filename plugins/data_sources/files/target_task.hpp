// The parameters task, classes and target_fill: whether targets are classes or reals.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

/// The kind of a table's targets: reals, or class indices 0, 1, ... below the number of classes,
/// which the manifest states or, otherwise, the largest training target determines.
class TargetTask {
 public:
  static constexpr std::size_t kMostClasses = 100'000;

  static std::vector<privgrad::ParamSpec> params() {
    return {privgrad::param::text("task", "Whether targets are class indices 0, 1, ... or reals.")
                .one_of({"classification", "regression"})
                .defaults_to("classification"),
            privgrad::param::integer("classes",
                                     "Classification: number of classes. Without it, the number is "
                                     "read off the training targets, which is listed as "
                                     "unaccounted.")
                .at_least(2)
                .at_most(static_cast<double>(kMostClasses))
                .optional()};
  }

  /// Returns the parameter target_fill, for sources whose targets are numbers in a file: the
  /// replacement for targets that do not fit.
  static privgrad::ParamSpec fill_param() {
    return privgrad::param::real(
               "target_fill",
               "The class index, or the real, for a missing or invalid target. "
               "Without it, such a row is an error, which is listed as unaccounted.")
        .optional();
  }

  TargetTask(std::string_view component, const privgrad::Params& params)
      : regression_(params.text("task") == "regression") {
    if (!params.has("classes")) return;
    if (regression_) {
      throw privgrad::ConfigError(std::string(component) +
                                  ": classes is given, but the task is regression");
    }
    classes_ = static_cast<std::size_t>(params.integer("classes"));
    stated_ = true;
  }

  /// Declares the number of classes, as the parameter `classes` does.
  /// \returns what contradicts the parameters; "" if nothing does.
  std::string state_classes(std::size_t classes) {
    if (regression_) return "the task is regression";
    if (stated_ && *classes_ != classes) return "classes is " + std::to_string(*classes_);
    classes_ = classes;
    stated_ = true;
    return "";
  }

  /// Prepares for rows without targets, which have no classes unless the number of classes is
  /// stated.
  void have_none() { regression_ = regression_ || !stated_; }

  /// Reads the parameter of fill_param().
  void take_fill(std::string_view component, const privgrad::Params& params) {
    if (!params.has("target_fill")) return;
    const double fill = params.real("target_fill");
    if (const std::string wrong = problem(fill); !wrong.empty())
      throw privgrad::ConfigError(std::string(component) + ": target_fill " + wrong);
    fill_ = static_cast<float>(fill);
  }

  /// Replaces targets that do not fit by target_fill.
  /// \param count  out: the number of replaced targets.
  /// \returns the first row whose target does not fit, if no target_fill was declared; otherwise
  ///   nothing.
  std::optional<std::size_t> fit(std::span<float> targets, std::size_t& count) const {
    count = 0;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      if (accepts(static_cast<double>(targets[row]))) continue;
      if (!fill_) return row;
      targets[row] = *fill_;
      ++count;
    }
    return std::nullopt;
  }

  /// Returns a remark for the user on the number of targets that fit() has replaced, which is a
  /// private fact; "" if none was replaced.
  static std::string remark(const std::string& file, std::size_t count, std::size_t rows) {
    if (count == 0) return "";
    return file + ": " + std::to_string(count) + " of " + std::to_string(rows) +
           " targets are missing or invalid, and count as target_fill";
  }

  bool accepts(double target) const {
    return regression_ ? std::isfinite(static_cast<float>(target))
                       : target >= 0.0 && target < static_cast<double>(limit()) &&
                             target == std::floor(target);
  }

  /// \returns "a finite number", or "a class index: a whole number in 0..9".
  std::string expected() const {
    return regression_ ? "a finite number"
                       : "a class index: a whole number in 0.." + std::to_string(limit() - 1);
  }

  /// \returns "is 2.5, expected a class index ...", or "" if the target is accepted. The target
  ///   must not come from a row, because messages never quote a row.
  std::string problem(double target) const {
    return accepts(target) ? ""
                           : "is " + privgrad::format_number(target) + ", expected " + expected();
  }

  /// Derives the number of classes from accepted training targets, unless it was stated. Afterwards
  /// fit() and problem() apply that number to other splits.
  /// \returns the problem with the targets as a whole; "" if there is none.
  std::string learn(std::span<const float> train_targets) {
    if (states_classes()) return "";
    if (train_targets.empty()) return "there are no targets to count classes in; say classes: N";
    const auto [least, most] = std::ranges::minmax_element(train_targets);
    if (*least == *most) {
      return "all targets are of one class, expected at least two classes; say classes: N if that "
             "is meant";
    }
    classes_ = static_cast<std::size_t>(*most) + 1;
    return "";
  }

  /// Whether the parameters state the number of classes, so that targets do not determine it.
  bool states_classes() const { return regression_ || stated_; }

  /// \returns the number of classes, 0 for regression; valid once the number is stated or learnt.
  std::size_t classes() const { return regression_ ? 0 : classes_.value_or(0); }

  std::vector<std::string> unaccounted() const {
    return states_classes() ? std::vector<std::string>{}
                            : std::vector<std::string>{"number of classes (classes)"};
  }

  /// Returns the unaccounted facts of sources that call fit(). Without target_fill a target that
  /// does not fit ends the run, so a completed run reveals that every row fits.
  std::vector<std::string> unaccounted_of_fit() const {
    std::vector<std::string> facts = unaccounted();
    if (!fill_) facts.emplace_back("that every target fits (target_fill)");
    return facts;
  }

 private:
  std::size_t limit() const { return classes_.value_or(kMostClasses); }

  bool regression_;
  bool stated_ = false;
  std::optional<std::size_t> classes_;
  std::optional<float> fill_;
};
