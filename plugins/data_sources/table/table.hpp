// Reads rows of texts as a table of examples, as the manifest declares it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "columns.hpp"
#include "split.hpp"
#include "target_column.hpp"
#include "text_rows.hpp"

/// The manifest's rules by which rows of texts become examples.
struct TableForm {
  bool are_named = true;  ///< If not, columns are called "0", "1", ..., and have an order.
  /// Whether rows have targets. If not, every target is 0, even if a column has the target's name.
  bool has_targets = true;
  bool decimal_comma = false;
  /// Whether a row is a line; if not, it may span several lines of a file.
  bool row_is_line = false;
  /// Whether every row has the fields that the columns need, whatever the row contains.
  bool is_well_formed = false;
  std::vector<std::string> missing;
  std::vector<ColumnRule> rules;  ///< Empty: every column is a number, in the order of the table.
  std::vector<std::string> kept = {};  ///< Columns whose texts are kept beside the features.
};

/// Examples on one side of the split.
struct TableRows {
  std::vector<float> features;                 ///< [rows, width].
  std::vector<float> targets;                  ///< [rows].
  std::vector<std::vector<std::string>> kept;  ///< For each of TableForm::kept, [rows].
};

/// A function that receives rows of one side of the split, and empties `rows`.
/// \param done  the share of the table that has been read, 0 to 1.
using TakeRows = std::function<void(bool is_test, TableRows& rows, double done)>;

/// The number of rows of a side, and the range of their targets.
struct SideFacts {
  std::uint64_t rows = 0;
  float least_target = 0.0f, most_target = 0.0f;
};

/// The columns of a table, determined from their names.
struct TableColumns {
  std::vector<std::string> names;  ///< All columns, in the first part's order.
  std::size_t target = 0;          ///< The number of columns if there is no target.
  std::vector<Column> features;
  std::size_t width = 0;
  std::vector<std::string> texts;  ///< Columns of type text, which are left out.

  std::vector<std::string> feature_names() const;
};

struct Table {
  TableColumns columns;
  /// The rows; without a split, all rows are in `train`. Empty if `take` received the rows.
  TableRows train, test;
  /// Facts about all rows, including rows that `take` received.
  SideFacts train_facts, test_facts;
  /// For each column in columns.features: the number of rows without a valid value.
  std::vector<std::uint64_t> filled;
  std::uint64_t filled_targets = 0;
  std::vector<std::string> misfits;  ///< TextRows::misfit() of columns that have fills.
  std::uint64_t spanning_rows = 0;   ///< Rows with TextRows::spans_lines().
  /// The name of the first column, if it counts the rows from 0 or 1 like an index, and has no name
  /// or is called "index", "Index" or "Unnamed: 0".
  std::optional<std::string> looks_like_index;
};

/// Whether programs give this name to a table's row index.
bool is_index_name(const std::string& name);

/// \throws ConfigError if `names` lack the target.
[[noreturn]] void refuse_target(const std::string& target, const std::vector<std::string>& names);

/// Reads parts as one table, one after the other. Columns are found by their names: parts may have
/// them in different orders.
/// \param target  not changed: callers that have all rows call target.learn().
/// \param split  nullptr if there is no split.
/// \param take  called with some rows at a time, which are then not stored; empty: all rows are
///   stored.
/// \throws ConfigError if the columns differ from the manifest's.
/// \throws IoError if a part is malformed, or if a field does not fit its column and the manifest
///   has no fill for it. The error gives the place, not the content.
Table read_table(const std::vector<TablePart>& parts, const TableForm& form,
                 const TargetColumn& target, RowSplit* split, const TakeRows& take = {});
