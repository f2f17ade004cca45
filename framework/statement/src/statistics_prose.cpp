#include "statistics_prose.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "privgrad/record/short_numbers.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

nlohmann::json statistics_of(const nlohmann::json& statement) {
  return statement.value("statistics", nlohmann::json::array());
}

/// The noise in words: "noise multiplier 4, for a share of 0.05 of the budget".
std::string noise_words(const nlohmann::json& one) {
  std::string words =
      "noise multiplier " + short_number(one.at("noise_multiplier").get<double>(), 5);
  const double share = one.at("share").is_number() ? one.at("share").get<double>() : 0.0;
  if (share > 0.0) words += ", for a share of " + format_number(share) + " of the budget";
  return words;
}

/// A number or a list as text: "398", or "201.3, 196.9".
std::string values_text(const nlohmann::json& value) {
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const nlohmann::json& one : value)
    text += (text.empty() ? "" : ", ") + short_number(one.get<double>(), 6);
  return text;
}

/// Describes the weights that follow from class counts; "" if no weights do.
std::string class_weights_prose(const nlohmann::json& one) {
  if (!one.contains("largest_class_weight")) return "";
  std::string words =
      "The loss of each row is multiplied by a weight of its class, which follows from these "
      "released counts and is at most " +
      format_number(one.at("largest_class_weight").get<double>());
  if (one.contains("class_weights")) words += ": " + values_text(one.at("class_weights"));
  return words + ". ";
}

/// Describes the counts that are released before everything else.
std::string counts_prose(const nlohmann::json& statement, bool noise) {
  std::string words;
  for (const nlohmann::json& one : statistics_of(statement)) {
    if (!one.at("transform").is_null()) continue;
    const bool is_of_rows = one.at("name") == "data.size";
    const std::string when = is_of_rows ? "Before anything else is released of the rows, the "
                                        : "Before the first step, the ";
    words +=
        when + one.at("what").get<std::string>() + " is" +
        (noise ? ", noised and charged as one Gaussian release without amplification, to which "
                 "a row adds 1 (" +
                     noise_words(one) + ")"
               : ", as it is, without noise");
    if (one.contains("value")) words += ": " + values_text(one.at("value"));
    words += is_of_rows ? ". Means that are released later are divided by it. " : ". ";
    words += class_weights_prose(one);
  }
  return words;
}

}  // namespace

std::string releases_beside_steps(const nlohmann::json& statement) {
  std::string words;
  if (const std::size_t count = statistics_of(statement).size(); count > 0) {
    words += " and of " + std::to_string(count) + (count == 1 ? " statistic" : " statistics") +
             " of the rows";
  }
  if (statement.contains("reported")) {
    const bool is_one = !statement.at("reported").at("train_accuracy").contains("every");
    words += is_one ? " and of the reported accuracy" : " and of the reported accuracies";
  }
  return words;
}

std::string statistics_prose(const nlohmann::json& statement) {
  const bool noise = statement.at("noise").get<bool>();
  std::string items;
  for (const nlohmann::json& one : statistics_of(statement)) {
    if (one.at("transform").is_null()) continue;
    items += (items.empty() ? "" : "; ") + one.at("name").get<std::string>() + " (" +
             one.at("what").get<std::string>() + ", " + one.at("numbers").dump() +
             " numbers; a row adds at most an L2 norm of " +
             short_number(one.at("l2_bound").get<double>(), 5) +
             (noise ? "; " + noise_words(one) : "") + ")";
  }
  std::string counts = counts_prose(statement, noise);
  if (items.empty()) return counts;
  return counts + "Before the first step, transforms learnt from sums over all rows, each clipped" +
         std::string(noise ? ", noised and charged as one Gaussian release without amplification: "
                           : " and used as it is, without noise: ") +
         items + ". What they learnt is in the model file. ";
}

std::string report_prose(const nlohmann::json& statement) {
  if (!statement.contains("reported") || !statement.at("noise").get<bool>()) return "";
  const nlohmann::json& report = statement.at("reported").at("train_accuracy");
  const bool is_one = !report.contains("every");
  std::string words =
      is_one ? " Of the model that is kept, the accuracy on the training rows is released in the "
               "summary once the steps are over: "
             : " The accuracy on the training rows is released behind every " +
                   report.at("every").dump() +
                   " steps, and of the model that is kept once they are over: ";
  words +=
      "a sum over all rows, to which each adds one half or takes it away, noised and charged as "
      "one Gaussian release" +
      std::string(is_one ? " (" : " each time (") + noise_words(report) +
      (is_one || !report.at("share").is_number() ? ")." : " for all of them).");
  if (report.contains("patience")) {
    words +=
        " The run ends when " + report.at("patience").dump() +
        " of these in a row were no better than one before: what was released decides that, so "
        "that the guarantee is the cost of all steps and accuracies that the budget pays for, "
        "whatever came to be made.";
  }
  return words;
}

}  // namespace privgrad::core
