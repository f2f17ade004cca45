#include "statistics_prose.hpp"

#include <cstddef>

#include "privgrad/record/short_numbers.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// Returns "noise multiplier 4, for a share of 0.05 of the budget".
std::string noise_words(const auto& one) {
  std::string words = "noise multiplier " + short_number(one.noise_multiplier, 5);
  if (one.share) words += ", for a share of " + format_number(*one.share) + " of the budget";
  return words;
}

std::string values_text(std::uint64_t value) { return std::to_string(value); }
std::string values_text(const std::vector<double>& values) {
  std::string text;
  for (const double one : values) text += (text.empty() ? "" : ", ") + short_number(one, 6);
  return text;
}

/// Describes the weights that follow from class counts; "" if no weights do.
std::string class_weights_prose(const StatisticFacts& one) {
  if (!one.largest_class_weight) return "";
  std::string words =
      "The loss of each row is multiplied by a weight of its class, which follows from these "
      "released counts and is at most " +
      format_number(*one.largest_class_weight);
  if (!one.class_weights.empty()) words += ": " + values_text(one.class_weights);
  return words + ". ";
}

std::string counts_prose(const Statement& statement, bool noise) {
  std::string words;
  for (const StatisticFacts& one : statement.statistics) {
    if (one.transform) continue;
    const bool is_of_rows = one.name == "data.size";
    const std::string when = is_of_rows ? "Before anything else is released of the rows, the "
                                        : "Before the first step, the ";
    words +=
        when + one.what + " is" +
        (noise ? ", noised and charged as one Gaussian release without amplification, to which "
                 "a row adds 1 (" +
                     noise_words(one) + ")"
               : ", as it is, without noise");
    if (one.value)
      words += std::visit([](const auto& value) { return ": " + values_text(value); }, *one.value);
    words += is_of_rows ? ". Means that are released later are divided by it. " : ". ";
    words += class_weights_prose(one);
  }
  return words;
}

}  // namespace

std::string releases_beside_steps(const Statement& statement) {
  std::string words;
  if (const std::size_t count = statement.statistics.size(); count > 0) {
    words += " and of " + std::to_string(count) + (count == 1 ? " statistic" : " statistics") +
             " of the rows";
  }
  if (statement.reported) {
    const bool is_one = !statement.reported->train_accuracy.every;
    words += is_one ? " and of the reported accuracy" : " and of the reported accuracies";
  }
  return words;
}

std::string statistics_prose(const Statement& statement) {
  const bool noise = statement.noise;
  std::string items;
  for (const StatisticFacts& one : statement.statistics) {
    if (!one.transform) continue;
    items += (items.empty() ? "" : "; ") + one.name + " (" + one.what + ", " +
             std::to_string(one.numbers) + " numbers; a row adds at most an L2 norm of " +
             short_number(one.l2_bound, 5) + (noise ? "; " + noise_words(one) : "") + ")";
  }
  std::string counts = counts_prose(statement, noise);
  if (items.empty()) return counts;
  return counts + "Before the first step, transforms learnt from sums over all rows, each clipped" +
         std::string(noise ? ", noised and charged as one Gaussian release without amplification: "
                           : " and used as it is, without noise: ") +
         items + ". What they learnt is in the model file. ";
}

std::string report_prose(const Statement& statement) {
  if (!statement.reported || !statement.noise) return "";
  const ReportFacts& report = statement.reported->train_accuracy;
  const bool is_one = !report.every;
  std::string words =
      is_one ? " Of the model that is kept, the accuracy on the training rows is released in the "
               "summary once the steps are over: "
             : " The accuracy on the training rows is released behind every " +
                   std::to_string(*report.every) +
                   " steps, and of the model that is kept once they are over: ";
  words +=
      "a sum over all rows, to which each adds one half or takes it away, noised and charged as "
      "one Gaussian release" +
      std::string(is_one ? " (" : " each time (") + noise_words(report) +
      (is_one || !report.share ? ")." : " for all of them).");
  if (report.patience) {
    words +=
        " The run ends when " + std::to_string(*report.patience) +
        " of these in a row were no better than one before: what was released decides that, so "
        "that the guarantee is the cost of all steps and accuracies that the budget pays for, "
        "whatever came to be made.";
  }
  return words;
}

}  // namespace privgrad::core
