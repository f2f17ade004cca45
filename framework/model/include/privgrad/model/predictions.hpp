// A network's outputs for examples, and the metrics that compare them with the targets.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/network.hpp"

namespace privgrad::core {

/// The outputs of a network for examples, and their meaning under its loss.
///
/// Privacy: depends only on the rows and the released model; as private as the rows.
struct Predictions {
  Loss loss = Loss::cross_entropy;
  std::size_t classes = 0;    ///< 0 if values are predicted.
  std::size_t outputs = 0;    ///< The number per example, > 0.
  std::vector<float> values;  ///< float32, [rows, outputs], before any loss.
  /// For the loss next_token: the first `places` features of each row.
  std::vector<float> tokens = {};
  std::size_t places = 0;

  /// Returns predictions with memory for this many rows, to be filled.
  static Predictions of_rows(const Network& network, std::size_t rows);
  /// \param features  the features of the rows [first, first + rows), in the form of the network's
  ///   input.
  void take_tokens(std::size_t first, std::span<const float> features, std::size_t rows);

  std::size_t rows() const { return outputs == 0 ? 0 : values.size() / outputs; }
  std::span<const float> of(std::size_t row) const {
    return std::span(values).subspan(row * outputs, outputs);
  }
  /// Whether the loss defines probabilities: cross_entropy and logistic do.
  bool has_probabilities() const { return classes > 0 && loss != Loss::squared; }
  /// Returns one probability per class, in double: the softmax of the outputs, or the logistic
  /// function of the single output. NaN if an output is not finite.
  /// \pre has_probabilities()
  std::vector<double> probabilities(std::size_t row) const;
  /// Returns the class with the largest output, the lowest such class if there are several
  /// (logistic: 1 if the only output is above 0); nothing if targets are reals, or an output is not
  /// finite.
  std::optional<std::size_t> predicted(std::size_t row) const;
  /// Returns the loss of one row (network.hpp), in double; not finite if an output is not finite.
  /// \pre the loss uses targets.
  double loss_of(std::size_t row, float target) const;
};

/// Returns a program's outputs for examples in the form of the network's input: the same outputs on
/// any number of threads.
Predictions predict(const Outputs& program, const Network& network, const Dataset& data,
                    Executor& executor);

/// Writes a program's outputs for `rows` examples to the caller's memory.
/// \param features  float32, [rows, features...].
/// \param out  float32, [rows, outputs].
void outputs_of(const Outputs& program, std::span<const float> features, std::size_t rows,
                std::span<float> out, Executor& executor);

/// Returns the quality of predictions, which is as private as the rows, by scikit-learn's
/// definitions:
///
/// - "rows", and "loss", the mean over the rows;
/// - with classes: "accuracy"; "confusion" [truth][prediction], if there are at most 100 classes;
///   "per_class": for each class "class", "rows", "precision", "recall" and "f1", which are 0
///   instead of divisions by 0; "auc", with ties by mid-ranks: for two classes the AUC of the
///   second class's probability, for more classes the mean AUC of each class against the rest
///   ("auc_per_class"), null if a class has no rows or all rows; "calibration_error" (Guo et al.
///   2017, equation 3) of the largest probability in 15 bins of equal width, null if the loss
///   defines no probabilities; "roc" for two classes: {"fpr", "tpr"}, at most 201 points of the
///   curve;
/// - without classes: "mse", "mae", and "r2", null if all targets are the same;
/// - "not_finite": the number of rows without a prediction, which count as wrong, if there are any;
///   "remark": the classes that were never predicted, although rows have them, if there are any.
///
/// \param predictions  the predictions, under a loss that uses targets.
/// \param targets  one per row.
/// \param names  the names of the classes.
nlohmann::json evaluation_json(const Predictions& predictions, std::span<const float> targets,
                               const std::vector<std::string>& names);

/// Returns the quality for the loss next_token: "rows", "loss" and "not_finite"; "tokens",
/// the number of tokens that are predicted; "accuracy", the share of these tokens with the largest
/// output; "perplexity", e to the power of their mean cross-entropy, null if it is not finite.
/// \param predict  called for one block of rows at a time, because there are many outputs.
nlohmann::json next_token_json(const Network& network, const Dataset& rows,
                               const std::function<Predictions(const Dataset&)>& predict);

}  // namespace privgrad::core
