#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "command.hpp"
#include "model_call.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;
using api::KeptColumn;
using core::Predictions;

constexpr std::size_t kShownRows = 50;

/// Returns probabilities if the loss defines them, otherwise the model's outputs.
std::vector<double> numbers_of(const Predictions& predictions, std::size_t row) {
  if (predictions.has_probabilities()) return predictions.probabilities(row);
  const auto values = predictions.of(row);
  return {values.begin(), values.end()};
}

Json numbers_json(const Predictions& predictions, std::size_t row) {
  Json list = Json::array();
  for (const double value : numbers_of(predictions, row)) list.push_back(core::json_number(value));
  return list;
}

/// Returns one number for a regression, otherwise a list.
Json value_json(const Predictions& predictions, std::size_t row) {
  Json list = numbers_json(predictions, row);
  return predictions.classes == 0 && list.size() == 1 ? list[0] : list;
}

const char* numbers_name(const Predictions& predictions) {
  return predictions.has_probabilities() ? "probabilities" : "values";
}

Json class_json(const Predictions& predictions, std::size_t row) {
  const auto predicted = predictions.predicted(row);
  return predicted ? Json(*predicted) : Json(nullptr);
}

Json document(const Predictions& predictions, const std::vector<std::string>& classes) {
  Json json{{"rows", predictions.rows()}};
  Json numbers = Json::array(), chosen = Json::array();
  for (std::size_t row = 0; row < predictions.rows(); ++row) {
    numbers.push_back(value_json(predictions, row));
    if (predictions.classes > 0) chosen.push_back(class_json(predictions, row));
  }
  json[numbers_name(predictions)] = std::move(numbers);
  if (predictions.classes == 0) return json;
  json["classes"] = classes;
  json["predictions"] = std::move(chosen);
  return json;
}

std::string json_lines(const Predictions& predictions, const std::vector<std::string>& classes,
                       const std::vector<KeptColumn>& kept) {
  std::string text;
  for (std::size_t row = 0; row < predictions.rows(); ++row) {
    Json line{{"row", row}, {numbers_name(predictions), value_json(predictions, row)}};
    if (predictions.classes > 0) {
      const auto predicted = predictions.predicted(row);
      line["prediction"] = class_json(predictions, row);
      line["class"] = predicted ? Json(classes.at(*predicted)) : Json(nullptr);
    }
    for (const KeptColumn& column : kept) line["kept"][column.name] = column.texts[row];
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

/// Returns a cell of a CSV file, quoted as RFC 4180 requires.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::vector<std::string> columns(const Predictions& predictions,
                                 const std::vector<std::string>& classes) {
  std::vector<std::string> names;
  if (predictions.classes == 0 && predictions.outputs == 1) return {"value"};
  const std::size_t count =
      predictions.has_probabilities() ? predictions.classes : predictions.outputs;
  const std::string begin = predictions.has_probabilities() ? "probability_" : "value_";
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(begin + (i < classes.size() ? classes[i] : std::to_string(i)));
  return names;
}

/// \throws ConfigError if a kept column has the name of another column.
std::string csv_head(const Predictions& predictions, const std::vector<std::string>& classes,
                     const std::vector<KeptColumn>& kept) {
  std::vector<std::string> names{"row"};
  for (const KeptColumn& column : kept) names.push_back(column.name);
  if (predictions.classes > 0) names.insert(names.end(), {"prediction", "class"});
  for (std::string& name : columns(predictions, classes)) names.push_back(std::move(name));
  std::string text;
  for (const std::string& name : names) {
    if (std::ranges::count(names, name) > 1) {
      throw ConfigError("--keep: the file would have two columns '" + core::shown_line(name) +
                        "', one of them kept; write .jsonl");
    }
    text += (text.empty() ? "" : ",") + csv_cell(name);
  }
  return text + "\n";
}

std::string csv(const Predictions& predictions, const std::vector<std::string>& classes,
                const std::vector<KeptColumn>& kept) {
  std::string text = csv_head(predictions, classes, kept);
  for (std::size_t row = 0; row < predictions.rows(); ++row) {
    text += std::to_string(row);
    for (const KeptColumn& column : kept) text += "," + csv_cell(column.texts[row]);
    if (predictions.classes > 0) {
      const auto predicted = predictions.predicted(row);
      text += predicted ? "," + std::to_string(*predicted) + "," + csv_cell(classes.at(*predicted))
                        : ",,";
    }
    for (const double value : numbers_of(predictions, row)) text += "," + format_number(value);
    text += "\n";
  }
  return text;
}

/// Writes version 1.0 of NumPy's format: [rows, classes] of probabilities, or [rows, outputs] of
/// values, float64.
std::string npy(const Predictions& predictions, const std::vector<std::string>&,
                const std::vector<KeptColumn>&) {
  static_assert(std::endian::native == std::endian::little, "the header says '<f8'");
  const std::size_t width =
      predictions.has_probabilities() ? predictions.classes : predictions.outputs;
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" +
                       std::to_string(predictions.rows()) + ", " + std::to_string(width) + "), }";
  constexpr std::size_t kBefore = 10;  // magic, version and length
  header.resize((kBefore + header.size() + 64) / 64 * 64 - kBefore - 1, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  for (std::size_t row = 0; row < predictions.rows(); ++row) {
    const std::vector<double> values = numbers_of(predictions, row);
    file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  }
  return file;
}

using Writer = std::string (*)(const Predictions&, const std::vector<std::string>&,
                               const std::vector<KeptColumn>&);

/// \throws UsageError if no writer fits.
Writer writer_for(const std::string& file, bool keeps) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending == ".csv") return csv;
  if (ending == ".npy" && keeps)
    throw UsageError("--keep: a .npy file holds only numbers; write .csv or .jsonl");
  if (ending == ".npy") return npy;
  if (ending == ".jsonl") return json_lines;
  throw UsageError("--out is '" + file + "', expected a name that ends in .csv, .npy or .jsonl");
}

std::string predictions_table(const Predictions& predictions,
                              const std::vector<std::string>& classes,
                              const std::vector<KeptColumn>& kept) {
  std::vector<std::string> head{"row"};
  for (const KeptColumn& column : kept) head.push_back(column.name);
  if (predictions.classes > 0) head.emplace_back("class");
  constexpr std::size_t kMostColumns = 12;
  const std::vector<std::string> names = columns(predictions, classes);
  const std::size_t shown = std::min(names.size(), kMostColumns);
  for (std::size_t i = 0; i < shown; ++i) head.push_back(names[i]);
  Table table(std::vector<Align>(head.size(), Align::right));
  table.add(std::move(head));
  const std::size_t rows = std::min(predictions.rows(), kShownRows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::string> cells{std::to_string(row)};
    for (const KeptColumn& column : kept) cells.push_back(column.texts[row]);
    if (predictions.classes > 0) {
      const auto predicted = predictions.predicted(row);
      cells.push_back(predicted ? classes.at(*predicted) : "-");
    }
    const std::vector<double> values = numbers_of(predictions, row);
    for (std::size_t i = 0; i < shown; ++i) cells.push_back(short_number(values[i]));
    table.add(std::move(cells));
  }
  std::string text = table.text();
  if (shown < names.size() || rows < predictions.rows()) {
    text += "(" + std::to_string(rows) + " of " + std::to_string(predictions.rows()) + " rows, " +
            std::to_string(shown) + " of " + std::to_string(names.size()) +
            " columns; --out FILE.csv has all)\n";
  }
  return text;
}

Predictions predict_rows(const ModelCall& call, bool quiet) {
  StatusLine status(quiet);
  return call.model->predict(call.rows, row_display(call, status, quiet));
}

int do_predict(const Arguments& arguments) {
  std::vector<std::string> keep = arguments.texts("keep");
  const Writer writer =
      arguments.has("out") ? writer_for(arguments.text("out"), !keep.empty()) : nullptr;
  const host::PluginHost host = load_plugins(arguments);
  const ModelCall call = open_model_call(arguments, host.catalog(), std::move(keep));
  const Predictions predictions = predict_rows(call, arguments.has("quiet"));
  const std::vector<std::string>& classes = call.model->file().classes;
  if (writer != nullptr)
    core::write_atomically(arguments.text("out"), writer(predictions, classes, call.kept));
  tell_if_private(call, "these are predictions");
  if (arguments.has("json")) {
    Json result = document(predictions, classes);
    result.update(api::model_call_json(call));
    if (writer != nullptr) result["out"] = arguments.text("out");
    print_json(result);
  } else if (writer != nullptr) {
    print("predicted " + std::to_string(predictions.rows()) + " rows: " + arguments.text("out") +
          "\n");
  } else {
    print(predictions_table(predictions, classes, call.kept));
  }
  return 0;
}

std::vector<Option> predict_options() {
  std::vector<Option> all = model_call_options();
  all.insert(all.begin(),
             {{"out", "FILE",
               "Write the predictions there, in the format that the name ends in: .csv, .npy (only "
               "probabilities or values) or .jsonl."},
              {.name = "keep",
               .value = "COLUMN",
               .doc = "Write this column of the rows' table beside each prediction, such as an id.",
               .repeatable = true}});
  return all;
}

}  // namespace

Command predict_command() {
  return {
      .usage = {.name = "predict",
                .summary = "Applies a trained model to rows: classes with their probabilities, or "
                           "values.",
                .operands = {"MODEL"},
                .options = predict_options(),
                .details = "MODEL is a run directory or its model.safetensors, which contains the "
                           "preprocessing that it\nwas trained with: give rows as the data source "
                           "has them. Predictions of private rows are\nprivate, and say "
                           "so. docs/models.md has the rest.\n\n"
                           "exit codes: 0 done, 2 the call or the rows are wrong, 4 the model or "
                           "the rows could not be\nread, or FILE not written",
                .examples = {"privgrad predict runs/e2 --out predictions.csv",
                             "privgrad predict runs/patients --data '{kind: csv, train: new.csv, "
                             "unlabelled: true}' --keep patient_id --out predictions.csv",
                             "privgrad predict model.safetensors --json --data '{kind: npy, train: "
                             "{features: x.npy, targets: y.npy}}'"}},
      .run = do_predict};
}

}  // namespace privgrad::tool
