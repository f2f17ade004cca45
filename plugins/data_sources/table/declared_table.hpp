// What data sources of tables have in common: rows of texts, read as the manifest declares them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"
#include "table.hpp"

/// Where a source has its rows.
class TableParts {
 public:
  virtual ~TableParts() = default;
  /// The same ones each time.
  virtual std::vector<TablePart> parts(privgrad::Split split) = 0;
  /// What errors call the table of a split.
  virtual std::string name(privgrad::Split split) const = 0;
};

/// \param promise  what is true of a source where columns are declared.
privgrad::ParamSpec columns_param(const std::string& promise);
privgrad::ParamSpec split_param();
privgrad::ParamSpec missing_param();

/// \returns the declared `columns`, if there are any.
std::vector<ColumnRule> column_rules(const privgrad::Params& params);

/// The training table and the test table of a source, which does what its interface says by it.
/// Takes of its parameters: columns, split, task and those of TargetColumn; `test` says that there
/// is a table of test rows.
class DeclaredTable {
 public:
  /// \param parts  outlives this.
  /// \throws ConfigError  parameters contradict each other.
  DeclaredTable(const privgrad::Params& params, TableForm form, TableParts& parts);

  const TableForm& form() const noexcept { return form_; }
  const TargetColumn& target() const noexcept { return target_; }

  /// A table need not say how many rows it has, so this reads all.
  privgrad::DataInfo info();
  /// As DataSource::foreseen_info(): of a table whose columns have names, its first line is read.
  privgrad::DataInfo foreseen_info();
  privgrad::Dataset read(privgrad::Split split);
  /// As DataSource's.
  std::vector<std::string> columns();
  void keep(std::vector<std::string> names) { form_.kept = std::move(names); }
  std::vector<std::vector<std::string>> kept(privgrad::Split split);
  /// In one pass; nothing of it is kept for info() and read(), which read the table anew.
  privgrad::DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take);

 private:
  RowSplit* split() { return split_ ? &*split_ : nullptr; }
  void load();
  void learn(TargetColumn& target, const Table& table) const;
  void check_columns(const Table& train, const Table& test) const;
  privgrad::DataInfo info_of(const Table& train, const SideFacts& test,
                             const TargetColumn& target) const;
  /// The facts that rows do not decide.
  /// \param strict  columns in which a value that does not fit is an error.
  privgrad::DataInfo info_without_rows(const std::vector<std::string>& strict) const;
  std::vector<std::string> unaccounted(const std::vector<std::string>& strict) const;
  /// The columns by their names, in their order; what a table has beside them is left out.
  privgrad::Value reading(const TableColumns& columns, const TargetColumn& target) const;
  std::vector<std::string> remarks(const Table& table) const;
  TableRows read_again(bool is_train);

  privgrad::Value params_;
  TableForm form_;
  TableParts& parts_;
  bool has_classes_;
  TargetColumn target_;
  std::optional<RowSplit> split_;
  bool has_test_;
  bool is_loaded_ = false;
  privgrad::DataInfo info_;
  std::optional<TableRows> train_;  ///< Until it is first asked for.
  std::optional<TableRows> test_;
  std::vector<std::vector<std::string>> kept_of_train_, kept_of_test_;
};
