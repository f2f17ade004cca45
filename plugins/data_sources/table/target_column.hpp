// The column that a model predicts: how its texts become classes or reals.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../files/target_task.hpp"
#include "cell_text.hpp"
#include "privgrad/params.hpp"

/// How targets are given: as a class's declared name, as a class's number, or as a real.
class TargetColumn {
 public:
  static std::vector<privgrad::ParamSpec> params();

  /// \throws ConfigError if keys contradict each other.
  TargetColumn(const privgrad::Params& params, bool decimal_comma);

  const std::string& name() const noexcept { return name_; }
  const std::vector<std::string>& class_names() const noexcept { return labels_; }
  std::size_t classes() const { return task_.classes(); }
  bool states_classes() const { return task_.states_classes(); }

  /// Whether every text gives a target, so that no row can end a run.
  bool is_total() const { return fill_.has_value(); }

  /// \param filled  out: whether the fill was used.
  /// \returns the target, or nothing if the text is not a target and no fill was declared.
  std::optional<float> read(std::string_view text, bool& filled) const;

  /// Whether a source's column of numbers, or of days, can contain a target.
  bool takes_numbers() const { return labels_.empty() || places_.has_numbers(); }
  bool takes_days() const;

  /// Returns "a class index: a whole number in 0..9".
  std::string expected() const;

  /// Derives the number of classes from the training targets, unless it was declared.
  /// \returns the problem with the targets; "" if there is none.
  std::string learn(std::span<const float> train_targets) { return task_.learn(train_targets); }
  std::vector<std::string> unaccounted() const;

 private:
  std::optional<float> value_of(std::string_view text) const;

  std::string name_;
  TargetTask task_;
  bool decimal_comma_;
  std::vector<std::string> labels_;
  Choices places_;  ///< The index of each label.
  std::optional<float> fill_;
};
