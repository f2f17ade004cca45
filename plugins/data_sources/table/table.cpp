#include "table.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "../files/input_file.hpp"
#include "privgrad/error.hpp"
#include "privgrad/names.hpp"

namespace {

using namespace privgrad;

using Names = std::vector<std::string>;

/// \returns the index of the target; the number of columns if there is no target.
std::size_t target_index(const TargetColumn& target, const Names& names, const TableForm& form,
                         const TextRows& rows) {
  const auto found = std::ranges::find(names, target.name());
  if (found != names.end() || !form.has_targets)
    return static_cast<std::size_t>(found - names.begin());
  if (form.are_named) refuse_target(target.name(), names);
  throw ConfigError("data.target is column " + target.name() + ", but " + rows.name() +
                    " has the columns 0.." + std::to_string(names.size() - 1));
}

/// Reads several parts, one after the other, into one table.
class TableReader {
 public:
  TableReader(const TableForm& form, const TargetColumn& target, RowSplit* split,
              const TakeRows& take, std::uint64_t whole_size)
      : form_(form),
        target_(target),
        split_(split),
        take_(take),
        whole_size_(static_cast<double>(std::max<std::uint64_t>(1, whole_size))) {
    for (TableRows* rows : {&table_.train, &table_.test}) rows->kept.resize(form.kept.size());
  }

  void read(const TablePart& part) {
    const std::unique_ptr<TextRows> opened = part.open(static_cast<bool>(take_));
    TextRows& rows = *opened;
    const Names names = rows.read_names();
    const std::size_t target = target_index(target_, names, form_, rows);
    std::vector<Column> columns = columns_of(names, target);
    if (form_.has_targets) {
      check_type(rows, target_.is_total(), target,
                 {target_.takes_numbers(), target_.takes_days(), target_.expected()});
    }
    for (const Column& column : columns) {
      check_type(rows, column.rule().is_total(), column.field(),
                 {column.takes_numbers(), column.takes_days(), column.expected()});
    }
    take_columns(rows, names, target, std::move(columns));
    kept_ = kept_places(rows, names);
    if (split_ != nullptr) split_->use(names);
    while (rows.next()) {
      if (!take_) reserve(rows);
      read_row(rows);
    }
    read_before_ += rows.read_so_far();
  }

  Table finish() {
    for (const bool is_test : {false, true}) {
      if (take_ && !side(is_test).targets.empty()) take_(is_test, side(is_test), done(0));
    }
    if (!counts_rows_) table_.looks_like_index.reset();
    return std::move(table_);
  }

 private:
  /// A single row may determine the type of a column, for example if all other values are missing.
  /// So if rows must not end a run, types must not end it either.
  void check_type(const TextRows& rows, bool is_total, std::size_t field,
                  const TextRows::Needs& needs) {
    std::string misfit = rows.misfit(field, needs);
    if (misfit.empty()) return;
    if (!is_total) rows.fail(misfit);
    table_.misfits.push_back(rows.name() + ": " + misfit);
  }

  std::vector<Column> columns_of(const Names& names, std::size_t target) const {
    if (!form_.rules.empty()) {
      return choose_columns(form_.rules, names, target, form_.missing, form_.decimal_comma,
                            !form_.are_named);
    }
    ColumnRule any;
    any.name = "*";
    return choose_columns({any}, names, target, form_.missing, form_.decimal_comma, true);
  }

  std::vector<std::size_t> kept_places(const TextRows& rows, const Names& names) const {
    std::vector<std::size_t> places;
    for (const std::string& name : form_.kept) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        rows.fail("has no column " + in_quotes(name) + ", which is to be kept");
      places.push_back(static_cast<std::size_t>(found - names.begin()));
    }
    return places;
  }

  /// The first part determines the features; the other parts must have the same features.
  void take_columns(const TextRows& rows, const Names& names, std::size_t target,
                    std::vector<Column> columns) {
    TableColumns found{names, target, std::move(columns), 0, {}};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto rule = std::ranges::find_if(
          form_.rules, [&](const ColumnRule& r) { return matches(r.name, names[i]); });
      if (i != target && rule != form_.rules.end() && rule->type == ColumnType::text &&
          !rule->is_feature())
        found.texts.push_back(names[i]);
    }
    for (const Column& column : found.features) found.width += column.width();
    if (found.width == 0) rows.fail("has no column that is a feature");
    if (is_first_) {
      table_.filled.resize(found.features.size());
      if (form_.are_named && form_.rules.empty() && target != 0 && is_index_name(names[0]))
        table_.looks_like_index = names[0];
    } else if (found.feature_names() != table_.columns.feature_names()) {
      rows.fail("has other columns than " + first_part_ + ", expected the same " +
                std::to_string(table_.columns.names.size()) +
                (form_.are_named ? " names in the same order" : " columns"));
    }
    if (is_first_) {
      first_part_ = rows.name();
      table_.columns = found;
    }
    is_first_ = false;
    now_ = std::move(found);
  }

  /// Reserves 1.5 times the likely size, which counts as at most 128 MiB; untouched pages cost
  /// nothing.
  void reserve(const TextRows& text) {
    constexpr std::size_t kMost = std::size_t{1} << 25;
    TableRows& rows = table_.train;
    if (!rows.targets.empty()) return;
    const std::size_t most_rows = std::min(text.likely_rows(), kMost / now_.width) / 2 * 3;
    rows.features.reserve(most_rows * now_.width);
    rows.targets.reserve(most_rows);
  }

  TableRows& side(bool is_test) { return is_test ? table_.test : table_.train; }

  double done(std::uint64_t read_here) const {
    return std::min(1.0, static_cast<double>(read_before_ + read_here) / whole_size_);
  }

  void read_row(const TextRows& text) {
    const bool is_test = split_ != nullptr && split_->is_test(text.fields());
    TableRows& rows = side(is_test);
    if (text.spans_lines()) ++table_.spanning_rows;
    if (table_.looks_like_index && counts_rows_) look_at_index(text.field(0));
    const std::span<const std::string_view> fields = text.fields();
    std::size_t at = rows.features.size();
    rows.features.resize(at + now_.width);
    for (std::size_t i = 0; i < now_.features.size(); ++i) {
      const Column& column = now_.features[i];
      const Column::Found found = column.encode(fields[column.field()], rows.features.data() + at);
      if (found == Column::Found::none) {
        if (!column.rule().is_total()) refuse(text, column);
        ++table_.filled[i];
      }
      at += column.width();
    }
    for (std::size_t i = 0; i < kept_.size(); ++i) rows.kept[i].emplace_back(text.field(kept_[i]));
    rows.targets.push_back(form_.has_targets ? read_target(text) : 0.0f);
    count(is_test ? table_.test_facts : table_.train_facts, rows.targets.back());
    if (!take_ && rows.features.size() > kMostFileBytes / sizeof(float)) {
      text.fail("is oversized: its features have more than " + std::to_string(kMostFileBytes) +
                " bytes in memory; say streaming: true");
    }
    constexpr std::size_t kBlock = std::size_t{1} << 18;  // 1 MiB of features
    if (take_ && rows.features.size() >= kBlock) take_(is_test, rows, done(text.read_so_far()));
  }

  static void count(SideFacts& facts, float target) {
    facts.least_target = facts.rows == 0 ? target : std::min(facts.least_target, target);
    facts.most_target = facts.rows == 0 ? target : std::max(facts.most_target, target);
    ++facts.rows;
  }

  float read_target(const TextRows& text) {
    bool filled = false;
    const auto target = target_.read(text.field(now_.target), filled);
    if (!target) text.fail_at(now_.target, "the target is not " + target_.expected());
    if (filled) ++table_.filled_targets;
    return *target;
  }

  void refuse(const TextRows& text, const Column& column) const {
    const std::string name =
        "column " + (form_.are_named ? in_quotes(column.name()) : column.name());
    text.fail_at(column.field(), "the value of " + name + " is not " + column.expected() +
                                     "; say in columns what such a row becomes (" +
                                     column.rule().remedy() + "), or drop the column");
  }

  void look_at_index(std::string_view text) {
    std::uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    counts_rows_ = result.ec == std::errc{} && result.ptr == text.data() + text.size();
    if (rows_seen_ == 0) first_index_ = value;
    counts_rows_ = counts_rows_ && first_index_ <= 1 && value == first_index_ + rows_seen_;
    ++rows_seen_;
  }

  const TableForm& form_;
  const TargetColumn& target_;
  RowSplit* split_;
  const TakeRows& take_;
  double whole_size_;
  std::uint64_t read_before_ = 0;  ///< The size of the parts read so far.
  Table table_;
  TableColumns now_;               ///< The columns of the part that is being read.
  std::vector<std::size_t> kept_;  ///< Where the columns of TableForm::kept are in that part.
  bool is_first_ = true;
  std::string first_part_;
  bool counts_rows_ = true;
  std::uint64_t rows_seen_ = 0;
  std::uint64_t first_index_ = 0;
};

}  // namespace

bool is_index_name(const std::string& name) {
  return name.empty() || name == "index" || name == "Index" || name == "Unnamed: 0";
}

void refuse_target(const std::string& target, const std::vector<std::string>& names) {
  const std::string nearest = did_you_mean(target, names);
  throw ConfigError("data.target is " + in_quotes(target) + ", which the table lacks" +
                    (nearest.empty() ? "." : nearest) +
                    " For rows without a target, to be predicted, say unlabelled: true");
}

std::vector<std::string> TableColumns::feature_names() const {
  std::vector<std::string> all;
  for (const Column& column : features) {
    for (std::string& name : column.feature_names()) all.push_back(std::move(name));
  }
  return all;
}

Table read_table(const std::vector<TablePart>& parts, const TableForm& form,
                 const TargetColumn& target, RowSplit* split, const TakeRows& take) {
  std::uint64_t size = 0;
  for (const TablePart& part : parts) size += part.size;
  TableReader reader(form, target, split, take, size);
  for (const TablePart& part : parts) reader.read(part);
  return reader.finish();
}
