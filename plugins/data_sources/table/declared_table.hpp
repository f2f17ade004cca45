// The common part of data sources of tables, whose rows of texts are read as the manifest declares.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"
#include "table.hpp"

/// The interface through which a source provides the rows of its tables.
class TableParts {
 public:
  virtual ~TableParts() = default;
  /// Returns the parts of a split's table; every call returns the same parts.
  virtual std::vector<TablePart> parts(privgrad::Split split) = 0;
  /// Returns the name by which error messages call a split's table.
  virtual std::string name(privgrad::Split split) const = 0;
};

/// \param promise  the beginning of a sentence that states what declared columns guarantee.
privgrad::ParamSpec columns_param(const std::string& promise);
privgrad::ParamSpec split_param();
privgrad::ParamSpec missing_param();

/// \returns the declared `columns`; empty if there are none.
std::vector<ColumnRule> column_rules(const privgrad::Params& params);

/// A source's training table and test table, with the functions of the source's interface for them.
/// Uses the parameters columns, split, task and the parameters of TargetColumn. If the parameter
/// `test` is given, there is a table of test rows.
class DeclaredTable {
 public:
  /// \param parts  outlives this.
  /// \throws ConfigError if parameters contradict each other.
  DeclaredTable(const privgrad::Params& params, TableForm form, TableParts& parts);

  const TableForm& form() const noexcept { return form_; }
  const TargetColumn& target() const noexcept { return target_; }

  /// Reads all rows, because a table need not state their number.
  privgrad::DataInfo info();
  /// Implements DataSource::foreseen_info(): reads the first line of a table whose columns have
  /// names.
  privgrad::DataInfo foreseen_info();
  privgrad::Dataset read(privgrad::Split split);
  /// Implements DataSource::columns().
  std::vector<std::string> columns();
  void keep(std::vector<std::string> names) { form_.kept = std::move(names); }
  std::vector<std::vector<std::string>> kept(privgrad::Split split);
  /// Streams the rows in one pass. Stores nothing for info() and read(), which read the table
  /// again.
  privgrad::DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take);

 private:
  RowSplit* split() { return split_ ? &*split_ : nullptr; }
  void load();
  void learn(TargetColumn& target, const Table& table) const;
  void check_columns(const Table& train, const Table& test) const;
  privgrad::DataInfo info_of(const Table& train, const SideFacts& test,
                             const TargetColumn& target) const;
  /// Returns the facts that do not depend on rows.
  /// \param strict  columns in which a value that does not fit is an error.
  privgrad::DataInfo info_without_rows(const std::vector<std::string>& strict) const;
  std::vector<std::string> unaccounted(const std::vector<std::string>& strict) const;
  /// Returns the declarations of the used columns, by name and in order.
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
  std::optional<TableRows> train_;  ///< The training rows, until they are first requested.
  std::optional<TableRows> test_;
  std::vector<std::vector<std::string>> kept_of_train_, kept_of_test_;
};
