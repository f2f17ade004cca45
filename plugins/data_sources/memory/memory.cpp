#include "privgrad/memory_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../files/feature_fill.hpp"
#include "../files/target_task.hpp"
#include "../table/declared_table.hpp"
#include "../table/suggest.hpp"
#include "memory_rows.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

constexpr const char* kSample = "sample";

/// Examples of two by three numbers in two classes. The table is public and available in every
/// process, so commands that read rows can be tried without lending rows.
MemoryTable sample_table() {
  static const std::array<float, 24> numbers{0, 1, 2, 3, 4, 5, 1, 0, 2, 4, 3, 5,
                                             5, 4, 3, 2, 1, 0, 5, 3, 4, 2, 0, 1};
  static const std::array<float, 4> targets{0, 0, 1, 1};
  return {{2, 3}, std::span<const float>(numbers), targets, nullptr};
}

MemoryTable table_of(const Params& params, bool as_columns) {
  const std::string& name = params.text("table");
  auto lent = find_memory_table(name);
  if (!lent && name == kSample) lent = sample_table();
  if (lent && lent->columns.empty() == as_columns) {
    throw ConfigError("memory: the table '" + name + "' is lent as " +
                      (as_columns ? "numbers, which have no columns to declare; leave columns out"
                                  : "columns, which columns declares; say columns"));
  }
  if (lent) return *std::move(lent);
  throw IoError(
      "memory: the table '" + name +
      "' is not in this process; rows in memory are lent by the program that has them, with "
      "each call (Python: data={kind: memory, ...})");
}

/// Returns the names in a parameter; empty if it is not given.
std::vector<std::string> names(const Params& params, const char* key) {
  return params.has(key) ? params.texts(key) : std::vector<std::string>{};
}

std::size_t rows_of(const MemoryTable& table) {
  const std::size_t count =
      std::visit([](const auto numbers) { return numbers.size(); }, table.numbers);
  return count / element_count(table.features);
}

/// The lent rows of one split.
struct Rows {
  MemoryTable table;
  std::vector<float> targets;  ///< [rows], after target_fill; empty if there are none.
  std::size_t filled = 0;      ///< The number of targets that target_fill replaced.
};

/// Returns where rows are in memory, which distinguishes two parts of one array.
RowOrigin origin(const char* split, const MemoryTable& table) {
  const auto place = [&](const auto& numbers) {
    const auto first = reinterpret_cast<std::size_t>(numbers.data());
    return RowOrigin{"memory", split, {}, first, first + numbers.size_bytes()};
  };
  return table.columns.empty() ? std::visit(place, table.numbers)
                               : place(table.columns.front().offsets);
}

/// Returns the origins of test rows. A program that lends copies must itself state the table from
/// which it copied them.
std::vector<RowOrigin> test_origins(const Params& params, const MemoryTable& train,
                                    const MemoryTable& test) {
  std::vector<RowOrigin> origins{origin("test", test)};
  if (test.shares_rows_with == params.object("train").text("table"))
    origins.push_back(origin("train", train));
  return origins;
}

/// The lent rows of both splits, with the interface of a data source.
class LentRows {
 public:
  virtual ~LentRows() = default;
  virtual DataInfo info() = 0;
  virtual DataInfo foreseen_info() = 0;
  virtual Dataset read(Split split) = 0;
  virtual Value suggest() = 0;
  virtual std::vector<std::string> notes() { return {}; }
};

/// Rows of numbers, which are examples without further conversion.
class Arrays final : public LentRows {
 public:
  explicit Arrays(const Params& params)
      : params_(params),
        task_("memory", params),
        fill_("memory", params),
        scale_(params.has("scale") ? static_cast<float>(params.real("scale")) : 1.0f),
        has_targets_(!params.boolean("unlabelled")),
        class_names_(names(params, "labels")),
        feature_names_(names(params, "feature_names")) {
    for (const char* key : {"target", "other_label", "split"}) {
      if (params.has(key))
        throw ConfigError(std::string("memory: ") + key +
                          " is only for a table whose columns are given");
    }
    if (!class_names_.empty()) {
      if (const std::string wrong = task_.state_classes(class_names_.size()); !wrong.empty())
        throw ConfigError("memory: labels has " + std::to_string(class_names_.size()) +
                          " names, but " + wrong);
    }
    task_.take_fill("memory", params);
  }

  DataInfo info() override {
    load();
    DataInfo info = info_without_rows(train_->table, test_ ? &test_->table : nullptr);
    info.shape = {train_->table.features, task_.classes()};
    info.train_rows = rows_of(train_->table);
    info.test_rows = test_ ? rows_of(test_->table) : 0;
    const auto add_remark = [&](const char* split, const Rows& rows) {
      std::string remark =
          TargetTask::remark("memory: " + std::string(split), rows.filled, rows.targets.size());
      if (!remark.empty()) info.remarks.push_back(std::move(remark));
    };
    add_remark("train", *train_);
    if (test_) add_remark("test", *test_);
    add_empty_features("train", *train_, info.remarks);
    info.class_names = class_names_;
    info.feature_names = feature_names_;
    info.reading = reading();
    return info;
  }

  DataInfo foreseen_info() override {
    const MemoryTable train = table_of(params_.object("train"), false);
    std::optional<MemoryTable> test;
    if (params_.has("test")) test = table_of(params_.object("test"), false);
    DataInfo info = info_without_rows(train, test ? &*test : nullptr);
    if (task_.states_classes()) info.shape = {train.features, task_.classes()};
    return info;
  }

  Value suggest() override {
    const DataInfo found = info();
    Value params{Value::Object{}};
    if (found.shape.classes > 0) params.set("classes", static_cast<std::int64_t>(task_.classes()));
    params.set("target_fill", 0);
    params.set("feature_fill", 0);
    return params;
  }

  Dataset read(Split split) override {
    load();
    if (split == Split::train) return dataset("train", *train_);
    if (test_) return dataset("test", *test_);
    return Dataset(info().shape, std::vector<float>{}, {});
  }

 private:
  /// \param test  nullptr if there are no test rows.
  DataInfo info_without_rows(const MemoryTable& train, const MemoryTable* test) const {
    DataInfo info{.shape = {},
                  .unaccounted = has_targets_ ? task_.unaccounted_of_fit() : task_.unaccounted(),
                  .has_targets = has_targets_,
                  .has_test_split = test != nullptr,
                  .train_origins = {origin("train", train)}};
    if (test != nullptr) info.test_origins = test_origins(params_, train, *test);
    // Lists the fact for bytes, too: bytes are always finite, but a single missing cell would have
    // turned the column into reals.
    fill_.add_unaccounted(true, info.unaccounted);
    return info;
  }

  /// Finds the tables once, so that replacing the tables under their names has no effect.
  void load() {
    if (train_) return;
    Rows train = rows_found("train");
    if (has_targets_) {
      if (const std::string wrong = task_.learn(train.targets); !wrong.empty())
        throw IoError("memory: train: " + wrong);
    } else if (task_.classes() == 0 && params_.text("task") == "classification") {
      throw ConfigError(
          "memory: unlabelled rows do not say how many classes there are: say classes");
    }
    if (params_.has("test")) {
      Rows test = rows_found("test");
      if (test.table.features != train.table.features) {
        throw IoError("memory: test: holds examples of " + to_text(test.table.features) +
                      ", expected " + to_text(train.table.features) + " as in train");
      }
      test_ = std::move(test);
    }
    train_ = std::move(train);
  }

  Rows rows_found(const char* split) const {
    Rows rows{.table = table_of(params_.object(split), false), .targets = {}};
    check(split, rows.table);
    if (!has_targets_) return rows;
    rows.targets.assign(rows.table.targets.begin(), rows.table.targets.end());
    if (const auto row = task_.fit(rows.targets, rows.filled)) {
      throw IoError("memory: " + std::string(split) + ": target " + std::to_string(*row) +
                    " is not " + task_.expected() + "; target_fill says what such a row counts as");
    }
    return rows;
  }

  /// Scales and fills features. Lent rows must not be changed, so they are copied if reals are
  /// scaled or a feature does not fit.
  /// \throws IoError if a feature is not finite, and there is no fill for it.
  void fit_features(const char* split, MemoryTable& table) const {
    const auto* lent = std::get_if<std::span<const float>>(&table.numbers);
    if (lent == nullptr) return;
    if (scale_ != 1.0f) {
      auto scaled = std::make_shared<std::vector<float>>(lent->begin(), lent->end());
      for (float& x : *scaled) x *= scale_;
      table.numbers = std::span<const float>(*scaled);
      table.owner = std::move(scaled);
    }
    const auto bad = FeatureFill::first_misfit(*lent);
    if (!bad) return;
    if (!fill_.is_declared()) {
      const std::size_t width = element_count(table.features);
      throw IoError("memory: " + std::string(split) + ": row " + std::to_string(*bad / width) +
                    ", feature " + std::to_string(*bad % width) + " is not a finite number" +
                    FeatureFill::remedy());
    }
    auto filled = std::make_shared<std::vector<float>>(lent->begin(), lent->end());
    fill_.fit(*filled);
    table.numbers = std::span<const float>(*filled);
    table.owner = std::move(filled);
  }

  void check(const std::string& split, const MemoryTable& table) const {
    const std::string where = "memory: " + split + ": ";
    const std::size_t width = element_count(table.features);
    if (!feature_names_.empty() && feature_names_.size() != width) {
      throw IoError(where + "has " + std::to_string(width) + " features an example, but " +
                    std::to_string(feature_names_.size()) + " feature_names are given");
    }
    if (!has_targets_) return;
    if (table.targets.size() != rows_of(table)) {
      throw IoError(where + "has " + std::to_string(rows_of(table)) + " examples, but " +
                    std::to_string(table.targets.size()) + " targets" +
                    (table.targets.empty() ? "; say unlabelled: true to predict them" : ""));
    }
  }

  /// Adds remarks on features that are not a number in any row, for example because of the column's
  /// type.
  void add_empty_features(const char* split, const Rows& rows,
                          std::vector<std::string>& remarks) const {
    const auto* numbers = std::get_if<std::span<const float>>(&rows.table.numbers);
    if (numbers == nullptr || !fill_.is_declared()) return;
    const std::size_t width = element_count(rows.table.features);
    for (std::size_t feature = 0; feature < std::min(width, numbers->size()); ++feature) {
      std::size_t at = feature;
      while (at < numbers->size() && !std::isfinite((*numbers)[at])) at += width;
      if (at < numbers->size()) continue;
      const std::string name = feature < feature_names_.size() ? in_quotes(feature_names_[feature])
                                                               : std::to_string(feature);
      remarks.push_back("memory: " + std::string(split) + ": the feature " + name +
                        " is a finite number in no row, and counts as feature_fill in all");
    }
  }

  Dataset dataset(const char* split, const Rows& rows) const {
    MemoryTable table = rows.table;
    fit_features(split, table);
    const ExampleShape shape{table.features, task_.classes()};
    std::vector<float> targets = rows.targets;
    if (!has_targets_) targets.assign(rows_of(table), 0.0f);
    if (const auto* reals = std::get_if<std::span<const float>>(&table.numbers))
      return Dataset(shape, *reals, table.owner, std::move(targets));
    return Dataset(shape, std::get<std::span<const std::uint8_t>>(table.numbers), scale_,
                   table.owner, std::move(targets));
  }

  Value reading() const {
    Value value{Value::Object{}};
    for (const auto& member : std::get<Value::Object>(params_.value().data())) {
      const bool is_of_these_rows =
          member.key == "train" || member.key == "test" || member.key == "unlabelled";
      if (!is_of_these_rows) value.set(member.key, member.value);
    }
    if (task_.classes() > 0 && class_names_.empty())
      value.set("classes", static_cast<std::int64_t>(task_.classes()));
    return value;
  }

  Params params_;
  TargetTask task_;
  FeatureFill fill_;
  float scale_;
  bool has_targets_;
  std::vector<std::string> class_names_, feature_names_;
  std::optional<Rows> train_, test_;
};

/// Rows of texts, declared like the rows of a file.
class Columns final : public LentRows, private TableParts {
 public:
  explicit Columns(const Params& params)
      : params_(params), table_(checked(params), form_of(params), *this) {}

  DataInfo info() override { return with_shared_rows(table_.info()); }
  DataInfo foreseen_info() override { return with_shared_rows(table_.foreseen_info()); }
  Dataset read(Split split) override { return table_.read(split); }
  Value suggest() override {
    Suggestion made = suggest_params(parts(Split::train), table_.form(), table_.target().name());
    notes_ = std::move(made.notes);
    return std::move(made.params);
  }
  std::vector<std::string> notes() override { return notes_; }

 private:
  static const Params& checked(const Params& params) {
    if (!params.has("target"))
      throw ConfigError("memory: columns is given, but not target, which column to predict");
    for (const char* key : {"feature_names", "feature_fill", "scale"}) {
      if (params.has(key))
        throw ConfigError(std::string("memory: ") + key +
                          " is given, but columns sets it for each column");
    }
    return params;
  }

  static TableForm form_of(const Params& params) {
    TableForm form{.has_targets = !params.boolean("unlabelled"),
                   .is_well_formed = true,
                   .missing = params.texts("missing"),
                   .rules = column_rules(params)};
    form.missing.emplace_back();  // the empty text means missing in lent tables
    return form;
  }

  DataInfo with_shared_rows(DataInfo info) const {
    if (test_) info.test_origins = test_origins(params_, *train_, *test_);
    return info;
  }

  /// Finds the tables once, so that replacing the tables under their names has no effect.
  std::vector<TablePart> parts(Split split) override {
    std::shared_ptr<const MemoryTable>& found = split == Split::train ? train_ : test_;
    if (!found) {
      found = std::make_shared<MemoryTable>(
          table_of(params_.object(split == Split::train ? "train" : "test"), true));
    }
    const auto open = [table = found, called = name(split)](bool) {
      return std::make_unique<MemoryRows>(table, called);
    };
    return {{.open = open,
             .size = found->columns.front().offsets.size(),
             .origin = origin(split == Split::train ? "train" : "test", *found)}};
  }
  std::string name(Split split) const override {
    return split == Split::train ? "memory: train" : "memory: test";
  }

  Params params_;
  std::shared_ptr<const MemoryTable> train_, test_;
  DeclaredTable table_;
  std::vector<std::string> notes_;
};

/// Whether the training rows belong to a table with columns, even if these are not declared yet.
bool has_columns(const Params& params) {
  if (params.has("columns")) return true;
  const auto lent = find_memory_table(params.object("train").text("table"));
  return lent && !lent->columns.empty() && params.has("target");
}

class Memory final : public DataSource {
 public:
  explicit Memory(const Params& params) {
    if (has_columns(params)) {
      rows_ = std::make_unique<Columns>(params);
    } else {
      rows_ = std::make_unique<Arrays>(params);
    }
  }

  DataInfo info() override { return rows_->info(); }
  std::optional<DataInfo> foreseen_info() override { return rows_->foreseen_info(); }
  Dataset read(Split split) override { return rows_->read(split); }
  std::optional<Value> suggest() override { return rows_->suggest(); }
  std::vector<std::string> notes() override { return rows_->notes(); }

 private:
  std::unique_ptr<LentRows> rows_;
};

std::vector<ParamSpec> table_params() {
  return {param::text("table",
                      "The name under which the program has lent it; sample: a public one that is "
                      "always there.")
              .example("sample")};
}

void register_components(Registrar& registrar) {
  std::vector<ParamSpec> params = {
      columns_param("Of a table that is lent as columns. Declared, no row can end a run"),
      split_param(),
      missing_param(),
      param::object("train", "The training rows.", table_params()),
      param::object("test", "The test rows; without them there is no test split.", table_params())
          .optional(),
      param::boolean("unlabelled", "The rows have no targets: they can be predicted.")
          .defaults_to(false),
      param::list("feature_names", "What the numbers of an example are called, in their order.",
                  param::text("name", "The name of a feature."))
          .at_least_items(1)
          .optional(),
  };
  for (auto& spec : TargetColumn::params()) {
    // `target` is optional here, because rows of numbers are lent together with their targets.
    if (spec.name == "target") {
      params.push_back(std::move(spec).optional());
    } else {
      params.push_back(std::move(spec));
    }
  }
  params.push_back(FeatureFill::param());
  params.push_back(param::real("scale",
                               "What features are multiplied by, whatever their type: 1/255 for "
                               "the bytes of images. feature_fill is in these units.")
                       .optional());
  registrar.add<DataSource, Memory>({
      .name = "memory",
      .summary = "Features and targets that the program holds in memory, without a copy.",
      .reference = "privgrad/memory_tables.hpp; the Python package lends arrays and tables",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.memory", "0.1.0", "data_source/memory", register_components)
