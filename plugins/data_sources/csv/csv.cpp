#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../files/target_task.hpp"
#include "csv_reader.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using privgrad::ConfigError;
using privgrad::DataInfo;
using privgrad::Dataset;
using privgrad::IoError;
using privgrad::Split;
namespace param = privgrad::param;

/// \returns the number that is all of `text`, or nothing.
std::optional<double> number(std::string_view text) {
  double value = 0.0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Table {
  std::vector<std::string> header;  ///< Empty if the file has none.
  std::size_t columns = 0;
  std::vector<float> features;  ///< [rows, columns - 1].
  std::vector<float> targets;   ///< [rows].
};

class Csv final : public privgrad::DataSource {
 public:
  explicit Csv(const privgrad::Params& params)
      : train_path_(params.path("train")),
        target_(params.text("target")),
        header_(params.boolean("header")),
        delimiter_(params.text("delimiter").front()),
        task_("csv", params) {
    if (params.has("test")) test_path_ = params.path("test");
    if (header_) return;
    const auto [end, error] =
        std::from_chars(target_.data(), target_.data() + target_.size(), target_column_);
    if (error != std::errc{} || end != target_.data() + target_.size()) {
      throw ConfigError("csv: target is " + in_quotes(target_) +
                        ", but without a header it is the number of a column, counted from 0");
    }
  }

  /// A CSV file does not say how many rows it has, so this reads the files.
  DataInfo info() override {
    load();
    return {{{columns_ - 1}, task_.classes()}, train_rows_, test_rows_, task_.unaccounted()};
  }

  Dataset read(Split split) override {
    load();
    const bool is_train = split == Split::train;
    if (!is_train && !test_path_) return Dataset(info().shape, std::vector<float>{}, {});
    std::optional<Table>& kept = is_train ? train_ : test_;
    Table table = kept ? *std::exchange(kept, std::nullopt)
                       : read_table(is_train ? train_path_ : *test_path_);
    const std::size_t promised = is_train ? train_rows_ : test_rows_;
    if (table.columns != columns_ || table.targets.size() != promised) {
      throw IoError((is_train ? train_path_ : *test_path_).string() +
                    ": has changed since it was first read");
    }
    return Dataset(info().shape, std::move(table.features), std::move(table.targets));
  }

 private:
  void load() {
    if (columns_ != 0) return;
    Table train = read_table(train_path_);
    if (const std::string wrong = task_.learn(train.targets); !wrong.empty()) {
      throw IoError(train_path_.string() + ": " + wrong);
    }
    if (test_path_) {
      test_ = read_table(*test_path_);
      if (test_->columns != train.columns || test_->header != train.header) {
        throw IoError(test_path_->string() + ": has other columns than " + train_path_.string() +
                      ", expected the same " + std::to_string(train.columns) +
                      (header_ ? " names in the same order" : " columns"));
      }
      test_rows_ = test_->targets.size();
    }
    train_rows_ = train.targets.size();
    columns_ = train.columns;
    train_ = std::move(train);
  }

  Table read_table(const std::filesystem::path& path) const {
    CsvReader reader(path, delimiter_);
    Table table;
    if (!reader.next()) reader.fail("holds no rows");
    table.columns = reader.size();
    if (table.columns < 2) {
      reader.fail_at_row(
          "has 1 column, expected the target and at least one feature, separated by " +
          in_quotes(std::string_view(&delimiter_, 1)));
    }
    const std::size_t target = header_ ? read_header(reader, table) : target_column_;
    if (target >= table.columns) {
      throw ConfigError("csv: target is column " + target_ + ", but " + path.string() +
                        " has the columns 0.." + std::to_string(table.columns - 1));
    }
    if (header_ && !reader.next()) reader.fail("has a header, but no rows");
    do {
      read_row(reader, target, table);
    } while (reader.next());
    return table;
  }

  /// \returns the target's column.
  std::size_t read_header(const CsvReader& reader, Table& table) const {
    bool only_numbers = true;
    for (std::size_t i = 0; i < reader.size(); ++i) {
      table.header.emplace_back(reader.field(i));
      only_numbers = only_numbers && number(reader.field(i)).has_value();
    }
    if (only_numbers) {
      reader.fail_at_row(
          "the first line holds numbers only; say header: false if it names nothing");
    }
    const auto found = std::find(table.header.begin(), table.header.end(), target_);
    if (found == table.header.end()) {
      const std::string nearest = privgrad::nearest_name(target_, table.header);
      throw ConfigError("csv: target is " + in_quotes(target_) + ", which the header lacks" +
                        (nearest.empty() ? "" : "; did you mean " + in_quotes(nearest) + "?"));
    }
    const auto again = std::find(found + 1, table.header.end(), target_);
    if (again != table.header.end()) {
      reader.fail_at(static_cast<std::size_t>(again - table.header.begin()),
                     "the target's name " + in_quotes(target_) + " is here for the second time");
    }
    return static_cast<std::size_t>(found - table.header.begin());
  }

  void read_row(const CsvReader& reader, std::size_t target, Table& table) const {
    if (reader.size() != table.columns) {
      reader.fail_at_row(reader.size() == 1 && reader.field(0).empty()
                             ? "the line is blank, expected " + std::to_string(table.columns) +
                                   " fields"
                             : "the row has " + std::to_string(reader.size()) +
                                   " field(s), expected " + std::to_string(table.columns));
    }
    for (std::size_t i = 0; i < table.columns; ++i) {
      const std::optional<double> value = number(reader.field(i));
      // float32 is what is kept, so what overflows it is no more finite than inf.
      if (!value || !std::isfinite(static_cast<float>(*value))) {
        reader.fail_at(
            i, column_name(table, i) +
                   (reader.field(i).empty() ? " is empty" : " is " + in_quotes(reader.field(i))) +
                   ", expected a finite number");
      }
      if (i != target) {
        table.features.push_back(static_cast<float>(*value));
        continue;
      }
      if (const std::string wrong = task_.problem(*value); !wrong.empty()) {
        reader.fail_at(i, "the target " + wrong);
      }
      table.targets.push_back(static_cast<float>(*value));
    }
  }

  static std::string column_name(const Table& table, std::size_t i) {
    return table.header.empty() ? "column " + std::to_string(i) : in_quotes(table.header[i]);
  }

  std::filesystem::path train_path_;
  std::optional<std::filesystem::path> test_path_;
  std::string target_;
  bool header_;
  char delimiter_;
  TargetTask task_;
  std::size_t target_column_ = 0;  ///< Without a header.
  std::size_t columns_ = 0;        ///< 0: the files have not been read.
  std::size_t train_rows_ = 0;
  std::size_t test_rows_ = 0;
  std::optional<Table> train_;  ///< Until it is first asked for.
  std::optional<Table> test_;
};

void register_components(privgrad::Registrar& registrar) {
  std::vector<privgrad::ParamSpec> params = {
      param::path("train", "CSV file of the training examples.").example("train.csv"),
      param::path("test", "CSV file of the test examples; without it there is no test split.")
          .optional(),
      param::text("target",
                  "The column to predict: its name or, without a header, its number counted from 0 "
                  "(as a text: \"0\"). All other columns are features.")
          .example("label"),
      param::boolean("header", "Whether the first line names the columns.").defaults_to(true),
      param::text("delimiter", "What separates fields.")
          .one_of({",", ";", "\t", "|", " "})
          .defaults_to(","),
  };
  for (auto& spec : TargetTask::params()) params.push_back(std::move(spec));
  registrar.add<privgrad::DataSource, Csv>({
      .name = "csv",
      .summary = "Tables of numbers as text, one column of which is the target.",
      .reference = "RFC 4180",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.csv", "0.1.0", register_components)
