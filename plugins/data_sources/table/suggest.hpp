// Suggests column declarations for tables whose rows may be inspected.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "privgrad/value.hpp"
#include "table.hpp"

struct Suggestion {
  privgrad::Value params;               ///< The suggested parameters, as an object.
  bool spans_lines = false;             ///< Whether a row spans more than one line of a file.
  std::size_t numbers = 0;              ///< Columns whose values are mostly numbers.
  std::vector<std::string> notes = {};  ///< The same as DataSource::notes().
};

/// Suggests declarations for a manifest, from rows that may be inspected: for each column the
/// narrowest type that fits all values (for numbers and dates: nine in ten), with its range or its
/// values, and a fill for values that do not fit; for the target its labels, its number of classes,
/// or that it is real.
/// \returns parameters: columns, and labels and other_label, classes and target_fill, or task and
///   target_fill.
/// \throws ConfigError if there is no such target.
/// \throws IoError as read_table(), except for values that do not fit; also for an unusable target.
Suggestion suggest_params(const std::vector<TablePart>& parts, const TableForm& form,
                          const std::string& target);
