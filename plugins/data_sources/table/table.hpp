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

/// The manifest's description of how rows of texts become examples.
struct TableForm {
  bool are_named = true;    ///< Else columns are called "0", "1", ..., and have an order.
  bool has_targets = true;  ///< If not, every target is 0, whatever a column of its name holds.
  bool decimal_comma = false;
  bool row_is_line = false;     ///< Else it may go over several lines of a file.
  bool is_well_formed = false;  ///< Whatever rows hold, they have the fields that columns need.
  std::vector<std::string> missing;
  std::vector<ColumnRule> rules;  ///< None: every column is a number, in the order of the table.
  std::vector<std::string> kept = {};  ///< Columns whose texts are kept beside the features.
};

/// Examples of one side.
struct TableRows {
  std::vector<float> features;                 ///< [rows, width].
  std::vector<float> targets;                  ///< [rows].
  std::vector<std::vector<std::string>> kept;  ///< For each of TableForm::kept, [rows].
};

/// Takes rows of one side that were read, and empties them.
/// \param done  the share of the table that has been read, 0 to 1.
using TakeRows = std::function<void(bool is_test, TableRows& rows, double done)>;

/// The number of rows of a side, and the range of their targets.
struct SideFacts {
  std::uint64_t rows = 0;
  float least_target = 0.0f, most_target = 0.0f;
};

/// The columns as their names alone determine them.
struct TableColumns {
  std::vector<std::string> names;  ///< All columns, in the order of the first part.
  std::size_t target = 0;          ///< The number of columns, if there is none.
  std::vector<Column> features;
  std::size_t width = 0;
  std::vector<std::string> texts;  ///< Columns of type text, which are left out.

  std::vector<std::string> feature_names() const;
};

struct Table {
  TableColumns columns;
  TableRows train, test;              ///< Without a split, all are in `train`; empty if taken.
  SideFacts train_facts, test_facts;  ///< About all rows, taken or not.
  std::vector<std::uint64_t> filled;  ///< For each of columns.features: rows without a value.
  std::uint64_t filled_targets = 0;
  std::vector<std::string> misfits;  ///< TextRows::misfit() of columns that have fills.
  std::uint64_t spanning_rows = 0;   ///< As TextRows::spans_lines().
  /// The first column, if it counts the rows from 0 or 1 as an index does, and has no name or is
  /// called "index", "Index" or "Unnamed: 0".
  std::optional<std::string> looks_like_index;
};

/// Whether programs use this name for the index of a table's rows.
bool is_index_name(const std::string& name);

/// \throws ConfigError  `names` lack the target.
[[noreturn]] void refuse_target(const std::string& target, const std::vector<std::string>& names);

/// Reads parts as one table, one after the other. Columns are found by their names: parts may have
/// them in different orders.
/// \param target  not changed; its learn() is for callers that have all rows.
/// \param split  nullptr: no split.
/// \param take  called with some rows at a time, which then are not kept; empty: all are kept.
/// \throws ConfigError  the columns are not those of the manifest.
/// \throws IoError  a part's form is broken; or a field does not fit its column, and the manifest
///   gives no value for that case. The error gives the place, and not the content.
Table read_table(const std::vector<TablePart>& parts, const TableForm& form,
                 const TargetColumn& target, RowSplit* split, const TakeRows& take = {});
