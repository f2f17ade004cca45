#include "table.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "privgrad/error.hpp"

namespace {

using privgrad::ConfigError;
using Names = std::vector<std::string>;

void refuse_double(const CsvReader& reader, const Names& names) {
  Names sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return;
  const auto first = std::find(names.begin(), names.end(), *twice);
  const auto second = std::find(first + 1, names.end(), *twice);
  reader.fail_at(static_cast<std::size_t>(second - names.begin()),
                 "the name " + in_quotes(*twice) + " is here for the second time");
}

/// \returns the number of columns, if none is needed.
std::size_t target_index(const TargetColumn& target, const Names& names, const TableForm& form,
                         const std::filesystem::path& file) {
  const auto found = std::find(names.begin(), names.end(), target.name());
  if (found != names.end() || !form.has_targets)
    return static_cast<std::size_t>(found - names.begin());
  if (!form.header) {
    throw ConfigError("csv: target is column " + target.name() + ", but " + file.string() +
                      " has the columns 0.." + std::to_string(names.size() - 1));
  }
  const std::string nearest = privgrad::nearest_name(target.name(), names);
  throw ConfigError("csv: target is " + in_quotes(target.name()) + ", which the header lacks" +
                    (nearest.empty() ? "" : "; did you mean " + in_quotes(nearest) + "?"));
}

/// Reads one file after the other into one table.
class TableReader {
 public:
  TableReader(const TableForm& form, const TargetColumn& target, RowSplit* split,
              const TakeRows& take, std::uint64_t all_bytes)
      : form_(form),
        target_(target),
        split_(split),
        take_(take),
        all_bytes_(static_cast<double>(std::max<std::uint64_t>(1, all_bytes))) {}

  void read(const std::filesystem::path& file) {
    // A file that memory need not hold may be of any size.
    CsvReader reader(file, form_.dialect,
                     take_ ? std::numeric_limits<std::uint64_t>::max() : kMostFileBytes);
    const Names names = read_names(reader, form_);
    if (reader.size() < 2 && form_.has_targets) {
      reader.fail_at_row(
          "has 1 column, expected the target and at least one feature, separated by " +
          in_quotes(std::string_view(&form_.dialect.delimiter, 1)) +
          "; data.delimiter says what separates them");
    }
    const std::size_t target = target_index(target_, names, form_, file);
    std::vector<Column> columns = columns_of(names, target);
    take_columns(reader, names, target, std::move(columns));
    if (split_ != nullptr) split_->use(names);
    for (bool more = begin_rows(reader, form_, names.size()); more; more = reader.next()) {
      if (!take_) reserve(reader);
      read_row(reader);
    }
    bytes_before_ += reader.bytes_read();
  }

  Table finish() {
    for (const bool is_test : {false, true}) {
      if (take_ && !side(is_test).targets.empty()) take_(is_test, side(is_test), done(0));
    }
    if (!counts_rows_) table_.looks_like_index.reset();
    return std::move(table_);
  }

 private:
  std::vector<Column> columns_of(const Names& names, std::size_t target) const {
    if (!form_.rules.empty()) {
      return choose_columns(form_.rules, names, target, form_.missing, form_.decimal_comma,
                            !form_.header);
    }
    ColumnRule any;
    any.name = "*";
    return choose_columns({any}, names, target, form_.missing, form_.decimal_comma, true);
  }

  /// The first file says what the features are; others must have the same.
  void take_columns(const CsvReader& reader, const Names& names, std::size_t target,
                    std::vector<Column> columns) {
    TableColumns found{names, target, std::move(columns), 0, {}};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto rule =
          std::find_if(form_.rules.begin(), form_.rules.end(),
                       [&](const ColumnRule& r) { return matches(r.name, names[i]); });
      if (i != target && rule != form_.rules.end() && rule->type == ColumnType::text)
        found.texts.push_back(names[i]);
    }
    for (const Column& column : found.features) found.width += column.width();
    if (found.width == 0) reader.fail("has no column that is a feature");
    if (is_first_) {
      table_.filled.resize(found.features.size());
      if (form_.header && form_.rules.empty() && target != 0 && is_index_name(names[0]))
        table_.looks_like_index = names[0];
    } else if (found.feature_names() != table_.columns.feature_names()) {
      reader.fail("has other columns than " + first_file_.string() + ", expected the same " +
                  std::to_string(table_.columns.names.size()) +
                  (form_.header ? " names in the same order" : " columns"));
    }
    if (is_first_) {
      first_file_ = reader.path();
      table_.columns = found;
    }
    is_first_ = false;
    now_ = std::move(found);
  }

  /// Reserves half as much again as is likely; pages that are never touched cost nothing. Beyond
  /// 128 MiB memory grows as rows come.
  void reserve(const CsvReader& reader) {
    constexpr std::size_t kMost = std::size_t{1} << 25;
    TableRows& rows = table_.train;
    if (!rows.targets.empty()) return;
    const std::size_t most_rows = std::min(reader.rows_like_this(), kMost / now_.width) / 2 * 3;
    rows.features.reserve(most_rows * now_.width);
    rows.targets.reserve(most_rows);
  }

  TableRows& side(bool is_test) { return is_test ? table_.test : table_.train; }

  double done(std::uint64_t bytes_here) const {
    return std::min(1.0, static_cast<double>(bytes_before_ + bytes_here) / all_bytes_);
  }

  void read_row(const CsvReader& reader) {
    check_size(reader, now_.names.size());
    const bool is_test = split_ != nullptr && split_->is_test(reader);
    TableRows& rows = side(is_test);
    if (table_.looks_like_index && counts_rows_) look_at_index(reader.field(0));
    std::size_t at = rows.features.size();
    rows.features.resize(at + now_.width);
    for (std::size_t i = 0; i < now_.features.size(); ++i) {
      const Column& column = now_.features[i];
      const Column::Found found =
          column.encode(reader.field(column.field()), rows.features.data() + at);
      if (found == Column::Found::none) {
        if (!column.rule().is_total()) refuse(reader, column);
        ++table_.filled[i];
      }
      at += column.width();
    }
    rows.targets.push_back(form_.has_targets ? read_target(reader) : 0.0f);
    count(is_test ? table_.test_facts : table_.train_facts, rows.targets.back());
    if (!take_ && rows.features.size() > kMostFileBytes / sizeof(float)) {
      reader.fail("is oversized: its features have more than " + std::to_string(kMostFileBytes) +
                  " bytes in memory; say streaming: true");
    }
    constexpr std::size_t kBlock = std::size_t{1} << 18;  // 1 MiB of features
    if (take_ && rows.features.size() >= kBlock) take_(is_test, rows, done(reader.bytes_read()));
  }

  static void count(SideFacts& facts, float target) {
    facts.least_target = facts.rows == 0 ? target : std::min(facts.least_target, target);
    facts.most_target = facts.rows == 0 ? target : std::max(facts.most_target, target);
    ++facts.rows;
  }

  float read_target(const CsvReader& reader) {
    bool filled = false;
    const auto target = target_.read(reader.field(now_.target), filled);
    if (!target) reader.fail_at(now_.target, "the target is not " + target_.expected());
    if (filled) ++table_.filled_targets;
    return *target;
  }

  [[noreturn]] void refuse(const CsvReader& reader, const Column& column) const {
    const std::string name = "column " + (form_.header ? in_quotes(column.name()) : column.name());
    const std::string remedy =
        column.rule().type == ColumnType::category ? "other: true" : "fill: NUMBER";
    reader.fail_at(column.field(), "the value of " + name + " is not " + column.expected() +
                                       "; say in columns what such a row becomes (" + remedy +
                                       "), or drop the column");
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
  double all_bytes_;
  std::uint64_t bytes_before_ = 0;  ///< In the files already read.
  Table table_;
  TableColumns now_;  ///< For the file being read.
  bool is_first_ = true;
  std::filesystem::path first_file_;
  bool counts_rows_ = true;
  std::uint64_t rows_seen_ = 0;
  std::uint64_t first_index_ = 0;
};

}  // namespace

bool is_index_name(const std::string& name) {
  return name.empty() || name == "index" || name == "Index" || name == "Unnamed: 0";
}

bool can_fill_malformed(const TableForm& form) { return form.header && !form.dialect.comment; }

std::vector<std::string> read_names(CsvReader& reader, const TableForm& form) {
  if (!reader.next()) reader.fail("holds no rows");
  Names names;
  bool only_numbers = true;
  for (std::size_t i = 0; i < reader.size(); ++i) {
    names.emplace_back(form.header ? std::string(reader.field(i)) : std::to_string(i));
    only_numbers = only_numbers && number_in(reader.field(i), form.decimal_comma).has_value();
    if (names.back().size() > kLongestName)
      reader.fail_at(i, "the name is longer than " + std::to_string(kLongestName) + " bytes");
  }
  if (!form.header) return names;
  if (only_numbers) {
    reader.fail_at_row("the first line holds numbers only; say header: false if it names nothing");
  }
  refuse_double(reader, names);
  return names;
}

bool begin_rows(CsvReader& reader, const TableForm& form, std::size_t fields) {
  if (form.fills_malformed) reader.fill_malformed(fields);
  return !form.header || reader.next();
}

void check_size(const CsvReader& row, std::size_t fields) {
  if (row.size() == fields) return;
  row.fail_at_row(row.is_blank()
                      ? "the line is blank, expected " + std::to_string(fields) + " fields"
                      : "the row has " + std::to_string(row.size()) + " field(s), expected " +
                            std::to_string(fields));
}

std::vector<std::string> TableColumns::feature_names() const {
  std::vector<std::string> all;
  for (const Column& column : features) {
    for (std::string& name : column.feature_names()) all.push_back(std::move(name));
  }
  return all;
}

Table read_table(const std::vector<std::filesystem::path>& files, const TableForm& form,
                 const TargetColumn& target, RowSplit* split, const TakeRows& take) {
  std::uint64_t bytes = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code failure;
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    if (!failure) bytes += size;
  }
  TableReader reader(form, target, split, take, bytes);
  for (const std::filesystem::path& file : files) reader.read(file);
  return reader.finish();
}
