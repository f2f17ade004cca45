#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../table/suggest.hpp"
#include "file_table.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

TableForm form_of(const Params& params, const CsvForm& form) {
  TableForm table = table_form_of(form);
  table.missing = params.texts("missing");
  table.rules = column_rules(params);
  return table;
}

class Csv final : public FileTable {
 public:
  explicit Csv(const Params& params) : Csv(params, csv_form_of("csv", params)) {}

  /// If the header lacks the target, tries other delimiters. Uses the decimal mark with which more
  /// columns are numbers.
  std::optional<Value> suggest() override {
    const CsvForm& own = form();
    const std::string& target = table().target().name();
    CsvForm likely = own;
    likely.dialect.delimiter = likely_delimiter(train_files().front(), own, target);
    Suggestion made = suggestion(likely);
    if (!likely.decimal_comma && likely.dialect.delimiter != ',') {
      CsvForm other = likely;
      other.decimal_comma = true;
      if (Suggestion better = suggestion(other); better.numbers > made.numbers) {
        made = std::move(better);
        made.params.set("decimal", ",");
      }
    }
    if (likely.dialect.delimiter != own.dialect.delimiter)
      made.params.set("delimiter", std::string(1, likely.dialect.delimiter));
    if (can_fill_malformed(own)) {
      made.params.set("row", made.spans_lines ? "record" : "line");
      made.params.set("malformed", "fill");
    }
    notes_ = std::move(made.notes);
    return std::move(made.params);
  }
  std::vector<std::string> notes() override { return notes_; }

 private:
  Csv(const Params& params, const CsvForm& csv)
      : FileTable("csv", params, csv, form_of(params, csv)) {}

  Suggestion suggestion(const CsvForm& form) {
    TableForm declared = table().form();
    declared.decimal_comma = form.decimal_comma;
    return suggest_params(parts_of(train_files(), form), declared, table().target().name());
  }

  std::vector<std::string> notes_;
};

void register_components(Registrar& registrar) {
  std::vector<ParamSpec> params = {
      param::path("train",
                  "CSV file of the training examples, plain, .gz or .zst; with * and ? in its name "
                  "all files that fit, each with a header of the same names.")
          .or_pattern()
          .example("train.csv"),
      param::path("test", "The same for the test examples; without it and split there are none.")
          .or_pattern()
          .optional(),
      split_param(),
      columns_param("Declared, and with malformed: fill, no row can end a run"),
  };
  for (auto& spec : TargetColumn::params()) params.push_back(std::move(spec));
  for (auto& spec : csv_form_params()) params.push_back(std::move(spec));
  params.push_back(missing_param());
  registrar.add<DataSource, Csv>({
      .name = "csv",
      .summary = "Tables as text: numbers, booleans and categories, one column of which is the "
                 "target.",
      .reference = "RFC 4180",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.csv", "0.1.0", "data_source/csv", register_components)
