// Reads one or more CSV files as a table of examples, as the manifest declares it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "columns.hpp"
#include "csv_reader.hpp"
#include "split.hpp"
#include "target_column.hpp"

/// The manifest's description of how files become examples.
struct TableForm {
  CsvDialect dialect;
  bool header = true;
  bool has_targets = true;  ///< If not, every target is 0, whatever a column of its name holds.
  bool decimal_comma = false;
  bool fills_malformed = false;  ///< CsvReader::fill_malformed().
  std::vector<std::string> missing;
  std::vector<ColumnRule> rules;  ///< None: every column is a number, in the order of the file.
};

/// Examples of one side.
struct TableRows {
  std::vector<float> features;  ///< [rows, width].
  std::vector<float> targets;   ///< [rows].
};

/// Takes rows of one side that were read, and empties them.
/// \param done  the share of the files that has been read, 0 to 1.
using TakeRows = std::function<void(bool is_test, TableRows& rows, double done)>;

/// The number of rows of a side, and the range of their targets.
struct SideFacts {
  std::uint64_t rows = 0;
  float least_target = 0.0f, most_target = 0.0f;
};

/// The columns as their names alone determine them.
struct TableColumns {
  std::vector<std::string> names;  ///< All columns, in the order of the first file.
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
  /// The first column, if it counts the rows from 0 or 1 as an index does, and has no name or is
  /// called "index", "Index" or "Unnamed: 0".
  std::optional<std::string> looks_like_index;
};

/// Whether programs use this name for the index of a table's rows.
bool is_index_name(const std::string& name);

/// Whether the header alone determines how many fields a row has, and every line after it is a row.
bool can_fill_malformed(const TableForm& form);

/// Reads the names of a file's columns: the header, or "0", "1", ...
/// \param reader  at its first row, which without a header is a row of values.
/// \throws IoError  there is no row, or a name appears twice or is too long.
std::vector<std::string> read_names(CsvReader& reader, const TableForm& form);

/// Goes from the names to the first row of values.
/// \param fields  their number in every row.
/// \returns false if there is no row of values.
bool begin_rows(CsvReader& reader, const TableForm& form, std::size_t fields);

/// \throws IoError  the row has another number of fields.
void check_size(const CsvReader& row, std::size_t fields);

/// Reads files as one table, one after the other. Columns are found by their names: files may have
/// them in different orders.
/// \param target  not changed; its learn() is for callers that have all rows.
/// \param split  nullptr: no split.
/// \param take  called with some rows at a time, which then are not kept; empty: all are kept.
/// \throws ConfigError  the columns are not those of the manifest.
/// \throws IoError  a file's form is broken; or a field does not fit its column, and the manifest
///   gives no value for that case. The error gives the place, and not the content.
Table read_table(const std::vector<std::filesystem::path>& files, const TableForm& form,
                 const TargetColumn& target, RowSplit* split, const TakeRows& take = {});
