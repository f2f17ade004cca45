// How a program that embeds PrivGrad lends its own rows to data sources, under a name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// One column of a table that is lent as texts: what a file would hold of it.
///
/// Privacy: the text of a cell is a function of that cell and of what is declared of the column. The
/// type of a column may follow from a single row, and must not decide how the others are written.
struct PRIVGRAD_API MemoryColumn {
  /// What the type of a column says of all its cells. Texts may be anything.
  enum class Cells { texts, numbers, days, unreadable };

  std::string name;
  std::span<const std::int64_t>
      offsets;                  ///< [rows + 1], ascending: where each text begins in `bytes`.
  std::span<const char> bytes;  ///< UTF-8. A missing value is an empty text; a day is of the
                                ///< declared form.
  Cells cells = Cells::texts;   ///< Of an unreadable column each text is that of no value.
  std::string type = {};        ///< What errors call the type of the column.
};

/// Rows held by the program itself, which the data source `memory` finds by name.
struct PRIVGRAD_API MemoryTable {
  Shape features;  ///< Shape of one example's features; every extent > 0.
  /// Row-major, [rows, features...].
  std::variant<std::span<const float>, std::span<const std::uint8_t>> numbers;
  std::span<const float> targets;     ///< [rows]; empty where there are none.
  std::shared_ptr<const void> owner;  ///< Keeps the rows in place and unchanged while it lives.
  /// Instead of features and targets: columns of as many rows each, declared by `columns`.
  std::vector<MemoryColumn> columns = {};
  /// The name of another table that is lent, if rows of this one lie in the same memory or file as
  /// rows of that; empty: they do not. Never said because rows are equal.
  std::string shares_rows_with = {};
};

/// Lends rows to the data sources of this process, until take_memory_table(). Manifests name them, and
/// a manifest alone brings none: what is not lent is not there.
/// \throws ConfigError if there is a table of this name: rows are never exchanged under a run.
/// Threads: any.
PRIVGRAD_API void lend_memory_table(const std::string& name, MemoryTable table);

/// Takes a table back; data sources that have found it keep it. \returns whether there was one.
PRIVGRAD_API bool take_memory_table(std::string_view name);

/// \returns the table; nothing if there is none of this name.
PRIVGRAD_API std::optional<MemoryTable> find_memory_table(std::string_view name);

}  // namespace privgrad
