// For data sources of tables that can hand on columns beside the features, such as an id.
#pragma once

#include <string>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Optional ability of a data source, found with dynamic_cast: it keeps the texts of columns beside
/// its rows, so that predictions can be told apart by an id. No plan and no run calls it. The
/// conformance suite tests it.
///
/// Privacy: what it keeps is as private as the rows, and stands beside the predictions of these rows
/// alone.
/// Threads: calls on one instance never overlap.
class PRIVGRAD_API KeepsColumns {
 public:
  virtual ~KeepsColumns();
  KeepsColumns(const KeepsColumns&) = delete;
  KeepsColumns& operator=(const KeepsColumns&) = delete;

  /// \returns the names of all columns, features or not.
  /// \throws IoError as DataSource::info().
  virtual std::vector<std::string> columns() = 0;

  /// From now on the texts of these columns are kept. Which columns are features does not change.
  /// Called at most once, before info() and read().
  /// \param names  some of columns(), each once.
  virtual void keep(std::vector<std::string> names) = 0;

  /// Called after read(split), once for each split.
  /// \returns for each of the names that keep() was given the texts of the rows, in the order of
  ///   read(split): bytes as they are in the table, not always UTF-8.
  virtual std::vector<std::vector<std::string>> kept(Split split) = 0;

 protected:
  KeepsColumns() = default;
};

}  // namespace privgrad
