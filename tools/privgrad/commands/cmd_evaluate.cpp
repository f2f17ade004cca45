#include <nlohmann/json.hpp>

#include "command.hpp"
#include "model_call.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;

std::string metric_text(const Json& json) {
  return json.is_number() ? short_number(json.get<double>()) : "-";
}

std::string metrics_table(const Json& result) {
  Table table({Align::left, Align::left});
  table.add({"rows", std::to_string(result.at("rows").get<std::size_t>()) + " (" +
                         result.at("split").get<std::string>() +
                         (result.at("private").get<bool>() ? ", private)" : ", public)")});
  const std::pair<const char*, const char*> names[] = {{"loss", "loss"},
                                                       {"tokens", "tokens"},
                                                       {"accuracy", "accuracy"},
                                                       {"perplexity", "perplexity"},
                                                       {"auc", "AUC"},
                                                       {"calibration_error", "calibration error"},
                                                       {"mse", "mean squared error"},
                                                       {"mae", "mean absolute error"},
                                                       {"r2", "R2"},
                                                       {"not_finite", "rows that overflowed"}};
  for (const auto& [key, name] : names) {
    if (result.contains(key)) table.add({name, metric_text(result.at(key))});
  }
  return table.text();
}

std::string classes_table(const Json& result) {
  if (!result.contains("per_class")) return "";
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right});
  table.add({"class", "rows", "precision", "recall", "F1"});
  for (const Json& one : result.at("per_class")) {
    table.add({one.at("class").get<std::string>(),
               std::to_string(one.at("rows").get<std::size_t>()), metric_text(one.at("precision")),
               metric_text(one.at("recall")), metric_text(one.at("f1"))});
  }
  return "\n" + table.text();
}

std::string confusion_table(const Json& result) {
  constexpr std::size_t kMost = 20;
  if (!result.contains("confusion") || result.at("confusion").size() > kMost) return "";
  const Json& rows = result.at("confusion");
  Table table(std::vector<Align>(rows.size() + 1, Align::right));
  std::vector<std::string> head{"truth \\ prediction"};
  for (const Json& one : result.at("per_class")) head.push_back(one.at("class"));
  table.add(std::move(head));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells{result.at("per_class")[i].at("class")};
    for (const Json& count : rows[i]) cells.push_back(std::to_string(count.get<std::size_t>()));
    table.add(std::move(cells));
  }
  return "\n" + table.text();
}

int do_evaluate(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const ModelCall call = open_model_call(arguments, host.catalog());
  Json result;
  {
    StatusLine status(arguments.has("quiet"));
    result = api::evaluate(call, row_display(call, status, arguments.has("quiet")));
  }
  tell_if_private(call, "these are metrics");
  if (result.contains("remark")) complain("note", result.at("remark").get<std::string>());
  print_answer(arguments, result,
               metrics_table(result) + classes_table(result) + confusion_table(result));
  return 0;
}

}  // namespace

Command evaluate_command() {
  return {.usage = {.name = "evaluate",
                    .summary = "Says how well a trained model does: loss, accuracy and confusion, "
                               "precision and recall,\nAUC and calibration, or the errors of a "
                               "regression.",
                    .operands = {"MODEL"},
                    .options = model_call_options(),
                    .details =
                        "MODEL is a run directory or its model.safetensors. Metrics of rows that "
                        "are not declared\npublic are private, and say so. docs/models.md "
                        "describes each of them.\n\n"
                        "exit codes: 0 done, 2 the call or the rows are wrong, 4 the model or "
                        "the rows could not be\nread",
                    .examples = {"privgrad evaluate runs/e2", "privgrad evaluate runs/e2 --json",
                                 "privgrad evaluate model.safetensors --data '{kind: csv, train: "
                                 "new.csv, target: label}'"}},
          .run = do_evaluate};
}

}  // namespace privgrad::tool
