#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "data_source_call.hpp"
#include "known_datasets.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/error.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

/// The copy of a data set on this machine that the data source `dataset` would read.
struct Here {
  std::size_t train_rows = 0;
  std::size_t test_rows = 0;
  std::string folder;
};

/// One line of the list. Either `here` is set, or `missing` has the reason.
struct Row {
  const KnownDataset* dataset;
  std::optional<Here> here;
  std::string missing;
};

Row look(const Catalog& catalog, const KnownDataset& dataset) {
  Row row{&dataset, std::nullopt, ""};
  try {
    Value params{Value::Object{}};
    params.set("name", Value(dataset.name));
    const OpenedSource opened = open_source(catalog, "dataset", params);
    const DataInfo info = opened.source->info();
    row.here = Here{info.train_rows, info.test_rows, opened.files().front().parent_path().string()};
  } catch (const IoError& problem) {
    row.missing = problem.what();
  }
  return row;
}

std::string rows_text(std::uint64_t train, std::uint64_t test) {
  return std::to_string(train) + " + " + std::to_string(test);
}

/// Returns the folder, with the numbers of examples if they differ from the published numbers.
std::string place(const Row& row) {
  if (!row.here) return "no";
  const bool all = row.here->train_rows == row.dataset->train_rows &&
                   row.here->test_rows == row.dataset->test_rows;
  const std::string count = rows_text(row.here->train_rows, row.here->test_rows);
  return (all ? "" : count + " in ") + row.here->folder;
}

std::string list_text(const std::vector<Row>& rows) {
  Table table({Align::left, Align::left, Align::left, Align::right, Align::right, Align::left,
               Align::left});
  table.add({"NAME", "EXAMPLES", "SHAPE", "CLASSES", "DOWNLOAD", "LICENCE", "HERE"});
  for (const Row& row : rows) {
    const KnownDataset& d = *row.dataset;
    table.add({d.name, rows_text(d.train_rows, d.test_rows), to_text(d.shape),
               std::to_string(d.classes), size_text(static_cast<double>(d.bytes())), d.licence,
               place(row)});
  }
  std::string text = table.text() + "\n";
  Table sources({Align::left, Align::left});
  for (const Row& row : rows) {
    sources.add({row.dataset->name, row.dataset->summary + " " + row.dataset->source});
  }
  return text + sources.text();
}

nlohmann::json list_json(const std::vector<Row>& rows) {
  nlohmann::json json{{"datasets", nlohmann::json::array()}};
  for (const Row& row : rows) {
    const KnownDataset& d = *row.dataset;
    nlohmann::json one{{"name", d.name},
                       {"summary", d.summary},
                       {"train_examples", d.train_rows},
                       {"test_examples", d.test_rows},
                       {"shape", d.shape},
                       {"classes", d.classes},
                       {"download_bytes", d.bytes()},
                       {"licence", d.licence},
                       {"source", d.source},
                       {"here", nullptr},
                       {"missing", nullptr}};
    if (row.here) {
      one["here"] = {{"folder", row.here->folder},
                     {"train_examples", row.here->train_rows},
                     {"test_examples", row.here->test_rows}};
    } else {
      one["missing"] = row.missing;
    }
    json["datasets"].push_back(std::move(one));
  }
  return json;
}

int do_data_list(const Arguments& arguments) {
  const std::vector<KnownDataset> datasets = known_datasets();
  const host::PluginHost host = load_plugins(arguments);
  std::vector<Row> rows;
  rows.reserve(datasets.size());
  for (const KnownDataset& dataset : datasets) rows.push_back(look(host.catalog(), dataset));
  print_answer(arguments, list_json(rows), list_text(rows));
  return 0;
}

}  // namespace

Command data_list_command() {
  return {.usage = {.name = "data list",
                    .summary = "Lists the public data sets that can be fetched, and which of them "
                               "are here.",
                    .operands = {},
                    .options = {{"json", "", "As JSON."}, plugin_dir_option()},
                    .details = "EXAMPLES are training + test. HERE is the folder that `data: "
                               "{kind: dataset, name: NAME}` reads,\nwith the number of its "
                               "examples if that differs from the published number.",
                    .examples = {"privgrad data list",
                                 "PRIVGRAD_DATA_DIR=~/data privgrad data list --json"}},
          .run = do_data_list};
}

}  // namespace privgrad::tool
