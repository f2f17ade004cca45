// How a program that embeds PrivGrad passes its own rows, under a name, to data sources.
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

/// One column of a table. Its cells are passed as texts, exactly as a file would contain them.
///
/// Privacy: the text of a cell is a function of that cell and of the column's declaration. A single
/// row may determine the type of a column, so the type must not affect how other cells are written.
struct PRIVGRAD_API MemoryColumn {
  /// What the type of a column says about all its cells. Cells of texts may contain anything.
  enum class Cells { texts, numbers, days, unreadable };

  std::string name;
  /// [rows + 1], ascending: the beginning of each text in `bytes`, then the end of the last.
  std::span<const std::int64_t> offsets;
  /// UTF-8. A missing value is an empty text; a day has the declared format.
  std::span<const char> bytes;
  Cells cells = Cells::texts;  ///< In an unreadable column, no text is a valid value.
  std::string type = {};       ///< The type of the column in error messages.
};

/// Rows in the program's own memory, which the data source `memory` finds by name.
struct PRIVGRAD_API MemoryTable {
  Shape features;  ///< Shape of one example's features; every extent > 0.
  /// Row-major, [rows, features...].
  std::variant<std::span<const float>, std::span<const std::uint8_t>> numbers;
  std::span<const float> targets;     ///< [rows]; empty if there are no targets.
  std::shared_ptr<const void> owner;  ///< Keeps the rows in place and unchanged while it lives.
  /// Instead of features and targets: columns with equally many rows, declared by `columns`.
  std::vector<MemoryColumn> columns = {};
  /// The name of another table whose rows come from the same memory or the same file as rows of
  /// this table; empty if there is no such table. Equal values alone do not count.
  std::string shares_rows_with = {};
};

/// Makes rows available to the data sources of this process until take_memory_table(). A manifest
/// can only name such rows; it cannot contain them.
/// \throws ConfigError if the name is taken, so that rows never change during a run.
/// Threads: any.
PRIVGRAD_API void lend_memory_table(const std::string& name, MemoryTable table);

/// Withdraws a table; data sources that have already found it keep it. \returns whether it existed.
PRIVGRAD_API bool take_memory_table(std::string_view name);

/// \returns the table; nothing if no table has this name.
PRIVGRAD_API std::optional<MemoryTable> find_memory_table(std::string_view name);

}  // namespace privgrad
